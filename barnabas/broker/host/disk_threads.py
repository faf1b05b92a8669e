"""The threads of the real disk: what may take long is done there, in the order it was asked for.

Lanes, so that what somebody waits for (a sync, a cold read) never stands behind ten thousand small files of new
partitions, nor these behind the removal of large logs. Asked and counted on the loop's thread alone: no lock is taken
for a job.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

Work = Callable[[], None]


class Lane:
    """Threads that take jobs from one queue; each is started when it is first needed.

    Args:
        name: what the threads are called.
        threads_max: how many there are at most.

    Attributes:
        under_way: jobs submitted that have not ended.
    """

    def __init__(self, name: str, threads_max: int) -> None:
        self._name = name
        self._threads_max = threads_max
        self._threads: list[threading.Thread] = []
        self._jobs: SimpleQueue[Work | None] = SimpleQueue()
        self.under_way = 0

    def submit(self, work: Work) -> None:
        """Have a thread do `work`, which raises nothing. `ended` is to be called afterwards."""
        self.under_way += 1
        if self.under_way <= len(self._threads) or len(self._threads) == self._threads_max:
            self._jobs.put(work)
            return
        name = f"barnabas-{self._name}-{len(self._threads)}"
        thread = threading.Thread(target=self._run, args=([work],), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def ended(self) -> None:
        """A job has come to its end."""
        self.under_way -= 1

    def close(self) -> None:
        """Wait for jobs that were begun; those that were not are dropped."""
        self.drop()
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def drop(self) -> None:
        """Forget jobs that were not begun."""
        with contextlib.suppress(Empty):
            while True:
                self._jobs.get_nowait()

    def _run(self, first: list[Work]) -> None:
        work: Work | None = first.pop()  # a thread keeps its arguments
        while work is not None:
            work()
            del work  # what it holds is not kept until the next one comes
            work = self._jobs.get()

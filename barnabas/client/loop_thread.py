"""An event loop on a thread of its own: what the blocking clients stand on, also inside a running loop (notebooks)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from barnabas.client.core.errors import ClientClosed

T = TypeVar("T")

_JOIN_SECONDS_MAX = 5


class Asked(Generic[T]):
    """The question of a blocked thread, answered in the very step of the loop in which there is something to give.

    No task stands between: the thread has its answer before this step goes on to write the next request.

    Args:
        take: what can be given now, empty if nothing can; what it raises is an answer, too.
        give_back: takes back what the thread was given but never got, because it was interrupted.
    """

    def __init__(self, take: Callable[[], list[T]], give_back: Callable[[list[T]], None]) -> None:
        self.answer: Future[list[T]] = Future()
        self.timer: asyncio.TimerHandle | None = None
        self._take = take
        self._give_back = give_back

    def step(self) -> bool:
        """Answers if that is possible now; whether the question is settled."""
        if not self.answer.done():
            try:
                if not (found := self._take()):
                    return False
                self.answer.set_result(found)
            except BaseException as error:
                self.answer.set_exception(error)
        if self.timer is not None:
            self.timer.cancel()
        return True

    def expire(self) -> None:
        """The thread has waited for long enough."""
        if not self.answer.done():
            self.answer.set_result([])

    def withdraw(self) -> None:
        """The thread no longer waits."""
        if self.answer.done() and not self.answer.cancelled() and self.answer.exception() is None:
            self._give_back(self.answer.result())
        self.answer.cancel()


class LoopThread:
    """Runs coroutines of other threads, one call after another or several at once. Ends with `stop` or the program."""

    def __init__(self, name: str) -> None:
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` on the loop and waits for it; an interrupt (Ctrl-C) cancels it.

        Raises:
            ClientClosed: the thread was stopped.
        """
        if self._loop.is_closed() or not self._thread.is_alive():
            work.close()
            raise ClientClosed("the client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def ask(self, asked: Asked[T], begin: Callable[[], None]) -> list[T]:
        """Runs `begin` on the loop, which puts the question where it will be answered, and waits for the answer.

        Raises:
            ClientClosed: the thread was stopped.
        """
        if self._loop.is_closed() or not self._thread.is_alive():
            raise ClientClosed("the client is closed")
        self._loop.call_soon_threadsafe(begin)
        try:
            return asked.answer.result()
        except BaseException:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(asked.withdraw)
            raise

    def stop(self) -> None:
        """Ends the loop and the thread; a second call does nothing."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_JOIN_SECONDS_MAX)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop

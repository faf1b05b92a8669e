"""An event loop on a thread of its own: what the blocking clients stand on, also inside a running loop (notebooks)."""

from __future__ import annotations

import asyncio
import atexit
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast

from barnabas.client.leaving import leave_program
from barnabas.net.errors import ClientClosed, WaitRefused
from barnabas.net.host.forks import belongs_to_parent, leave_behind, tell_child

T = TypeVar("T")

_JOIN_SECONDS_MAX = 5
PARTING_SECONDS = 1.0
"""So long may a client that nobody closed take its leave when the program ends."""
WAIT_SECONDS_MAX = 0.5
"""A thread waits in pieces of this: an interrupt that came just before a wait began is seen at its end."""


class Answer(Generic[T]):
    """What the loop's thread tells one that waits, with nothing in it that an interrupt (Ctrl-C) could leave locked.

    A thread that is interrupted at the wrong place in `concurrent.futures.Future.result` leaves with the future's lock
    (seen once in 250 programs that were interrupted just when they began to wait), and the loop, which asks whether it
    is done, waits for that lock for ever. Here the loop's thread alone says what there is, and then lets go a lock that
    it never takes.
    """

    __slots__ = ("_error", "_found", "_settled", "done")

    def __init__(self) -> None:
        self._settled = threading.Lock()
        self._settled.acquire()
        self._error: BaseException | None = None
        self._found: T | None = None
        self.done = False

    def give(self, found: T) -> None:
        """This is the answer; of the loop's thread, as `fail` is."""
        self._found = found
        self._settle()

    def fail(self, error: BaseException) -> None:
        """There is none, and that is why."""
        self._error = error
        self._settle()

    def _settle(self) -> None:
        self.done = True
        self._settled.release()

    @property
    def given(self) -> T | None:
        """What was given, if anything was."""
        return self._found

    def wait(self) -> T:
        """Wait for the answer, however long that takes, and return it, or raise why there is none.

        CPython looks for an interrupt before it waits for a lock, and a wait is woken by one that comes within. One
        that comes between both is seen when the wait is over: so it is over soon.
        """
        while not self._settled.acquire(timeout=WAIT_SECONDS_MAX):
            pass
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # it knows this frame: kept here, both would stay until a collection
        return cast("T", self._found)


class Asked(Generic[T]):
    """The question of a blocked thread, answered in the very step of the loop in which there is something to give.

    No task stands between: the thread has its answer before this step goes on to write the next request.

    Args:
        take: what can be given now, empty if nothing can; what it raises is an answer, too.
        give_back: takes back what the thread was given but never got, because it was interrupted.
    """

    def __init__(self, take: Callable[[], list[T]], give_back: Callable[[list[T]], None]) -> None:
        self.answer: Answer[list[T]] = Answer()
        self.timer: asyncio.TimerHandle | None = None
        self._take = take
        self._give_back = give_back

    def step(self) -> bool:
        """Answers if that is possible now; whether the question is settled."""
        if not self.answer.done:
            try:
                if not (found := self._take()):
                    return False
                self.answer.give(found)
            except BaseException as error:
                self.answer.fail(error)
        if self.timer is not None:
            self.timer.cancel()
        return True

    def expire(self) -> None:
        """The thread has waited for long enough."""
        if not self.answer.done:
            self.answer.give([])

    def withdraw(self) -> None:
        """The thread no longer waits."""
        if self.answer.given is not None:
            self._give_back(self.answer.given)
        elif not self.answer.done:
            self.answer.fail(CancelledError())


class LoopThread:
    """Runs coroutines of other threads, one call after another or several at once.

    Ends with `stop`, at the latest before the interpreter does.
    """

    def __init__(self, name: str) -> None:
        self._loop = new_loop()
        self._ended = False
        self._why = "the client is closed"
        self.parting: Callable[[], Coroutine[Any, Any, None]] | None = None  # what it does when the program just ends
        self._ending = threading.Lock()  # whoever posts under it before the end is served
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        _alive.add(self)
        tell_child(self)

    def check_may_wait(self) -> None:
        """Refuse a wait that would never end.

        Raises:
            WaitRefused: the caller runs on this thread: a callback of the client, or a deserializer.
        """
        if threading.get_ident() == self._thread.ident:
            raise WaitRefused("a callback on the client's own thread waits for the client, which would never answer")

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` on the loop and waits for it; an interrupt (Ctrl-C) cancels it.

        Raises:
            ClientClosed: the thread was stopped.
            WaitRefused: the caller runs on this thread.
        """
        answer: Answer[T] = Answer()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            task = self._loop.create_task(work)
            tasks.append(task)
            task.add_done_callback(ended)

        def ended(task: asyncio.Task[T]) -> None:
            if task.cancelled():
                answer.fail(ClientClosed("the client is closed"))
            elif (error := task.exception()) is not None:
                answer.fail(error)
            else:
                answer.give(task.result())

        def cancel() -> None:
            for task in tasks:
                task.cancel()
            if not tasks:  # interrupted before it was posted: what is posted runs in its order
                work.close()

        try:
            self.check_may_wait()
            self._post(begin)
            return answer.wait()
        except WaitRefused:
            work.close()
            raise
        except BaseException:
            if not answer.done:
                try:
                    self._post(cancel)
                except ClientClosed:
                    if not tasks:
                        work.close()
            raise

    def ask(self, asked: Asked[T], begin: Callable[[], None]) -> list[T]:
        """Runs `begin` on the loop, which puts the question where it will be answered, and waits for the answer.

        Raises:
            ClientClosed: the thread was stopped.
            WaitRefused: the caller runs on this thread.
        """
        self.check_may_wait()

        def begun() -> None:
            try:
                begin()
            except BaseException as error:  # nobody else would hear of it, and the thread would wait for ever
                if not asked.answer.done:
                    asked.answer.fail(error)

        try:
            self._post(begun)
            return asked.answer.wait()
        except BaseException:
            with suppress(ClientClosed):
                self._post(asked.withdraw)
            raise

    def _post(self, function: Callable[[], None]) -> None:
        with self._ending:
            if self._ended or not self._thread.is_alive():
                raise ClientClosed(self._why)
            self._loop.call_soon_threadsafe(function)

    def leave(self, error: BaseException) -> None:
        """A callback on this thread left (`sys.exit`): the program does. One that ends anyway just does."""
        if not self._ended:
            leave_program(error, self._loop.call_later)

    def forked(self) -> None:
        """In the child of a fork: the thread is not here, and nobody will release the lock."""
        self._ending = threading.Lock()
        self._ended = True
        self._why = belongs_to_parent("client")
        _alive.discard(self)
        leave_behind(self._loop)

    def part(self) -> None:
        """The program ends, and nobody closed the client: whoever counts on it is told, if that is quickly done."""
        if self.parting is not None:
            with self._ending:
                if self._ended or not self._thread.is_alive():
                    return
                future = asyncio.run_coroutine_threadsafe(self.parting(), self._loop)
            with suppress(Exception):
                future.result(PARTING_SECONDS)

    def stop(self) -> None:
        """Ends the loop and the thread; a second call does nothing."""
        with suppress(ClientClosed):
            self._post(self._loop.stop)
        self._thread.join(_JOIN_SECONDS_MAX)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            with self._ending:
                self._ended = True
            self._loop.run_until_complete(self._end())
            self._loop.close()

    async def _end(self) -> None:
        """Who still waits for a call is told: its task is cancelled."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._loop.shutdown_asyncgens()


_alive: weakref.WeakSet[LoopThread] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """A client that nobody closed still has its loop when the interpreter goes; uvloop would call into what is gone."""
    for one in tuple(_alive):
        one.part()
        one.stop()


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop for a thread of its own; no event-loop policy is touched."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop

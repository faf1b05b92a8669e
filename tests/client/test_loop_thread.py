"""Questions of blocked threads, answered on the loop."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor

import pytest

from barnabas.client.loop_thread import WAIT_SECONDS_MAX, Answer, Asked, LoopThread
from barnabas.net.errors import ClientClosed

WAIT = 60


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    thread = LoopThread("test")
    yield thread
    thread.stop()


def question(*answers: list[int] | Exception, back: Callable[[list[int]], None] = lambda _: None) -> Asked[int]:
    """A question to which nothing can be said until the answers come, one a step."""
    coming = iter(answers)

    def take() -> list[int]:
        answer = next(coming, [])
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Asked(take, back)


def test_a_question_is_answered_by_the_first_step_that_can(loop: LoopThread) -> None:
    asked = question([], [1], [2])

    def begin() -> None:
        assert not asked.step()
        asyncio.get_running_loop().call_soon(asked.step)

    assert loop.ask(asked, begin) == [1]
    assert asked.step()
    assert asked.answer.given == [1]


def test_an_error_is_an_answer(loop: LoopThread) -> None:
    given_back: list[list[int]] = []
    asked = question(ValueError("why"), back=given_back.append)
    with pytest.raises(ValueError, match="why"):
        loop.ask(asked, lambda: None if asked.step() else pytest.fail("not settled"))
    asked.withdraw()
    assert given_back == []


def test_who_waited_long_enough_gets_nothing_and_takes_nothing(loop: LoopThread) -> None:
    asked = question([], [1])
    assert loop.ask(asked, asked.expire) == []
    assert asked.step()
    asked.expire()
    assert asked.answer.given == []


async def test_an_answer_ends_the_timer() -> None:
    asked = question([1])
    asked.timer = asyncio.get_running_loop().call_later(WAIT, asked.expire)
    assert asked.step()
    assert asked.timer.cancelled()


def test_what_an_interrupted_thread_never_got_goes_back() -> None:
    given_back: list[list[int]] = []
    asked = question([1, 2], back=given_back.append)
    assert asked.step()
    asked.withdraw()
    assert given_back == [[1, 2]]


def test_an_interrupted_thread_is_given_nothing_any_more() -> None:
    taken = question([1])
    taken.withdraw()
    assert taken.step()
    with pytest.raises(CancelledError):
        taken.answer.wait()


def test_an_interrupt_withdraws_the_question(loop: LoopThread, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = question()

    def interrupted(answer: Answer[list[int]]) -> list[int]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Answer, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            loop.ask(asked, lambda: None)
    loop.call(asyncio.sleep(0))  # the loop has come to it
    with pytest.raises(CancelledError):
        asked.answer.wait()


def test_a_stopped_thread_takes_no_questions() -> None:
    thread = LoopThread("test")
    thread.stop()
    with pytest.raises(ClientClosed):
        thread.ask(question([1]), lambda: None)


def test_a_question_that_cannot_be_put_is_answered_with_why(loop: LoopThread) -> None:
    def begin() -> None:
        raise TypeError("no such time")

    with pytest.raises(TypeError, match="no such time"):
        loop.ask(question(), begin)


def test_who_waits_for_a_call_is_told_of_the_end() -> None:
    thread = LoopThread("test")
    begun = threading.Event()

    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: thread.call(endless()))
        assert begun.wait(WAIT)
        thread.stop()
        with pytest.raises(ClientClosed):
            waiting.result(WAIT)


LEFT_OPEN = """
import atexit
threads = []
atexit.register(lambda: print([one.is_alive() for one in threads]))  # the first to be registered is the last to run
from barnabas.client.loop_thread import LoopThread
left = LoopThread("left")
threads.append(left._thread)
"""


def test_a_loop_that_nobody_stopped_ends_before_the_interpreter_does() -> None:
    done = subprocess.run([sys.executable, "-c", LEFT_OPEN], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[False]", "")


def test_the_loop_takes_no_lock_that_an_interrupted_thread_may_have_left_with() -> None:
    """The thread took it and was interrupted before it could do anything: all that the loop does goes on."""
    given_back: list[list[int]] = []
    asked = question([1, 2], back=given_back.append)
    assert asked.step()
    assert asked.answer._settled.acquire(timeout=WAIT)
    assert asked.step()
    asked.expire()
    asked.withdraw()
    assert given_back == [[1, 2]]


class Slow:
    """A lock that is let go while somebody waits for it for the third time."""

    def __init__(self, answer: Answer[int]) -> None:
        self.waits: list[float] = []
        self._answer = answer
        self._free = False

    def acquire(self, *, timeout: float) -> bool:
        """Not yet, twice."""
        self.waits.append(timeout)
        if len(self.waits) == 3:
            self._answer.give(7)
        return self._free

    def release(self) -> None:
        """Let go."""
        self._free = True


def test_a_wait_is_in_pieces_so_that_an_interrupt_just_before_it_is_seen() -> None:
    """It was seen once in 200 that a program never ended: Ctrl-C came between the last look for it and the wait."""
    answer: Answer[int] = Answer()
    lock = Slow(answer)
    answer._settled = lock  # type: ignore[assignment]
    assert answer.wait() == 7
    assert lock.waits == [WAIT_SECONDS_MAX] * 3


def test_an_interrupted_call_is_cancelled(loop: LoopThread, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def interrupted(answer: Answer[None]) -> None:
        assert begun.wait(WAIT)
        raise KeyboardInterrupt

    monkeypatch.setattr(Answer, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop.call(endless())
    assert ended.wait(WAIT)


@pytest.mark.parametrize("posted", [False, True])
def test_a_call_interrupted_while_it_is_posted_does_nothing(
    loop: LoopThread, monkeypatch: pytest.MonkeyPatch, posted: bool
) -> None:
    """It ran on, and nobody could cancel it any more; or it was never begun, and Python warned of that."""
    ended, post = threading.Event(), loop._post
    steps: list[str] = []

    async def endless() -> None:
        steps.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            steps.append("ended")

    def interrupted(function: Callable[[], None]) -> None:
        monkeypatch.setattr(loop, "_post", post)
        if posted:
            post(function)
        raise KeyboardInterrupt

    work = endless()
    monkeypatch.setattr(loop, "_post", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop.call(work)
    post(lambda: post(ended.set))  # behind what cancelling leaves to do
    assert ended.wait(WAIT)
    assert inspect.getcoroutinestate(work) == inspect.CORO_CLOSED
    assert steps in ([], ["begun", "ended"])

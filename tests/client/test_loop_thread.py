"""Questions of blocked threads, answered on the loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from barnabas.client.loop_thread import WAIT_SECONDS_MAX, Answer, Asked, LoopThread, outcome_of
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
    assert asked.answer.result(0) == [1]


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
    assert asked.answer.result(0) == []


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
    assert taken.answer.cancelled


def test_an_interrupt_withdraws_the_question(loop: LoopThread, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = question()

    def interrupted(answer: Answer[int], seconds: float) -> list[int]:
        raise KeyboardInterrupt

    monkeypatch.setattr(Answer, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop.ask(asked, lambda: None)
    loop.call(asyncio.sleep(0))  # the loop has come to it
    assert asked.answer.cancelled


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


class Late(Future[int]):
    """It has its result after some waits, whose lengths it notes."""

    def __init__(self, after: int, ending: int | Exception) -> None:
        super().__init__()
        self.waits: list[float | None] = []
        self._after, self._ending = after, ending

    def result(self, timeout: float | None = None) -> int:
        """Nothing yet, and then what it was made with."""
        self.waits.append(timeout)
        if len(self.waits) == self._after and not self.done():
            if isinstance(self._ending, Exception):
                self.set_exception(self._ending)
            else:
                self.set_result(self._ending)
        return super().result(0)


def test_a_wait_is_in_pieces_so_that_an_interrupt_just_before_it_is_seen() -> None:
    """It was seen once in 200 that a program never ended: Ctrl-C came between the last look for it and the wait."""
    late = Late(3, 7)
    assert outcome_of(late) == 7
    assert late.waits == [WAIT_SECONDS_MAX] * 3


def test_a_timeout_that_is_the_answer_ends_the_wait() -> None:
    with pytest.raises(TimeoutError, match="its own"):
        outcome_of(Late(2, TimeoutError("its own")))


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


def test_an_answer_that_comes_later_is_waited_for(loop: LoopThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces, as any wait."""
    waits: list[float] = []
    wait = Answer.result
    asked = question([3])

    def noted(answer: Answer[int], seconds: float) -> list[int]:
        waits.append(seconds)
        if len(waits) < 3:
            raise TimeoutError
        asked.step()
        return wait(answer, seconds)

    monkeypatch.setattr(Answer, "result", noted)
    assert loop.ask(asked, lambda: None) == [3]
    assert waits == [WAIT_SECONDS_MAX] * 3

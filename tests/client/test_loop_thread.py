"""Coroutines run for other threads, and results that come before the work's end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from barnabas.client.core.errors import ClientClosed
from barnabas.client.loop_thread import LoopThread

WAIT = 10


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    thread = LoopThread("test")
    yield thread
    thread.stop()


def test_a_result_given_away_early_does_not_wait_for_the_end(loop: LoopThread) -> None:
    go, ended = threading.Event(), threading.Event()

    async def work(give: Callable[[int], None]) -> int:
        give(1)
        await asyncio.to_thread(go.wait, WAIT)
        ended.set()
        return 2

    assert loop.call_early(work) == 1
    assert not ended.is_set()
    go.set()
    assert ended.wait(WAIT)


def test_work_that_gives_nothing_away_answers_with_its_end(loop: LoopThread) -> None:
    async def work(_: Callable[[int], None]) -> int:
        return 2

    async def failing(_: Callable[[int], None]) -> int:
        raise ValueError("why")

    assert loop.call_early(work) == 2
    with pytest.raises(ValueError, match="why"):
        loop.call_early(failing)


def test_a_failure_behind_the_result_is_told_to_the_loop(loop: LoopThread) -> None:
    told: list[dict[str, Any]] = []
    came = threading.Event()

    async def work(give: Callable[[int], None]) -> int:
        def handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            told.append(context)
            came.set()

        asyncio.get_running_loop().set_exception_handler(handle)
        give(1)
        raise ValueError("late")

    assert loop.call_early(work) == 1
    assert came.wait(WAIT)
    assert str(told[0]["exception"]) == "late"


def test_a_stopped_thread_takes_no_work() -> None:
    thread = LoopThread("test")
    thread.stop()

    async def work(_: Callable[[int], None]) -> int:
        return 1

    with pytest.raises(ClientClosed):
        thread.call_early(work)

"""An event loop on a thread of its own: what the blocking clients stand on, also inside a running loop (notebooks)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from barnabas.client.core.errors import ClientClosed

T = TypeVar("T")

_JOIN_SECONDS_MAX = 5


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

    def call_early(self, start: Callable[[Callable[[T], None]], Coroutine[Any, Any, T]]) -> T:
        """Like `call`, for work that may give its result away before its end, to the function that `start` is given.

        Raises:
            ClientClosed: the thread was stopped.
        """
        early: Future[T] = Future()
        work = start(early.set_result)
        if self._loop.is_closed() or not self._thread.is_alive():
            work.close()
            raise ClientClosed("the client is closed")
        whole = asyncio.run_coroutine_threadsafe(work, self._loop)
        whole.add_done_callback(partial(self._pass_on, early))
        try:
            return early.result()
        except BaseException:
            whole.cancel()
            raise

    def _pass_on(self, early: Future[T], whole: Future[T]) -> None:
        """What the work came to, unless it gave its result away; a failure behind that is told to the loop."""
        if whole.cancelled():
            early.cancel()
        elif (error := whole.exception()) is None:
            if not early.done():
                early.set_result(whole.result())
        elif not early.done():
            early.set_exception(error)
        else:
            self._loop.call_exception_handler({"message": "work failed behind its result", "exception": error})

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

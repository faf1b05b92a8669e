"""A callback that calls `sys.exit` on the sender's thread ends the program: the main thread raises it."""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Callable
from typing import Any, Final

GRACE_SECONDS: Final = 1.0
"""So long may the main thread stand in a system call, which no exception reaches, until it is interrupted."""


def leave_program(error: BaseException, later: Callable[[float, Callable[[], Any]], Any]) -> None:
    """Raise an exception of the same kind, with the same arguments (the exit code), in the main thread.

    It comes with the next instruction there. A main thread that stands in a system call (`time.sleep`, a wait without
    end) is interrupted after a second as by Ctrl-C, for no exception reaches it there; the program then ends as it
    does after Ctrl-C.

    Args:
        error: what the callback raised.
        later: `later(seconds, call)`, of a loop that goes on running.
    """
    raised = threading.Event()
    kind = type(error)

    class Leaving(kind):  # type: ignore[misc, valid-type]  # another thread is given a class, which it calls itself
        def __init__(self) -> None:
            super().__init__(*error.args)
            raised.set()

    Leaving.__name__ = Leaving.__qualname__ = kind.__qualname__
    main = threading.main_thread().ident
    assert main is not None
    _raise_in(main, Leaving)

    def interrupt() -> None:
        if not raised.is_set() and threading.main_thread().is_alive():
            _raise_in(main, None)
            signal.pthread_kill(main, signal.SIGINT)

    if hasattr(signal, "pthread_kill"):
        later(GRACE_SECONDS, interrupt)


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    what = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), what)

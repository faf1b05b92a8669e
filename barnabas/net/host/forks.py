"""The child of a fork has its parent's handles, but none of the threads that serve them: there they refuse.

What a child closed, or only read from, would be missing in the parent: a socket that both have is one connection, and
so is the selector of a loop. So the child puts nothing into the place of each socket, and leaves the rest alone. Then a
connection also ends when the parent closes it, and a port is free when the parent stops listening.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import weakref
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Protocol


class Forked(Protocol):
    """Who holds something of this process that a child must not use."""

    def forked(self) -> None:
        """In the child: let go, and refuse from now on."""


_alive: weakref.WeakSet[Any] = weakref.WeakSet()


def tell_child(holder: Forked) -> None:
    """Have `forked` called in every child that is forked while the holder lives."""
    _alive.add(holder)


def belongs_to_parent(what: str) -> str:
    """The sentence with which a handle refuses in a child."""
    return f"this {what} belongs to the parent process; make a new one after fork"


def let_go(sockets: Iterable[Any]) -> None:
    """In the child: put nothing into the places of the parent's sockets (or what else has a `fileno`)."""
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for one in sockets:
        with suppress(OSError, ValueError):
            number = one.fileno()
            if number >= 0:
                os.dup2(nothing, number, inheritable=False)
    os.close(nothing)


def leave_behind(loop: asyncio.AbstractEventLoop) -> None:
    """In the child: a loop that the parent runs can neither be closed nor freed; uvloop would crash."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(loop))


def _in_the_child() -> None:
    for holder in tuple(_alive):
        holder.forked()
    _alive.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_the_child)

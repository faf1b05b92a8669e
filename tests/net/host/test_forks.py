"""What a child of a fork does to what its parent holds; real forks are in `tests/client/test_forks.py`."""

from __future__ import annotations

import os
import weakref
from types import SimpleNamespace

import pytest

from barnabas.net.host import forks


class Holder:
    def __init__(self) -> None:
        self.told = 0

    def forked(self) -> None:
        self.told += 1


def test_a_child_tells_once_and_its_own_children_are_not_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """By then a number that it let go of may be a file of its own."""
    monkeypatch.setattr(forks, "_alive", weakref.WeakSet())
    holder = Holder()
    forks.tell_child(holder)
    forks._in_the_child()
    forks._in_the_child()
    assert holder.told == 1


def test_what_takes_the_places_of_sockets_takes_none_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    there, beside = os.pipe()
    opened: list[int] = []
    closed: list[int] = []
    open_, close = os.open, os.close

    def opening(path: str, flags: int) -> int:
        opened.append(open_(path, flags))
        return opened[-1]

    def closing(number: int) -> None:
        closed.append(number)
        close(number)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", opening)
        patched.setattr(os, "close", closing)
        gone = SimpleNamespace(fileno=lambda: -1)
        forks.let_go([gone, SimpleNamespace(fileno=lambda: there)])
    assert closed == opened
    assert len(opened) == 1
    assert os.fstat(there).st_rdev == os.stat(os.devnull).st_rdev
    assert not os.get_inheritable(there)
    assert os.fstat(beside).st_rdev != os.stat(os.devnull).st_rdev
    for number in (there, beside):
        os.close(number)

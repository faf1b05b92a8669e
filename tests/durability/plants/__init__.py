"""Defects that the broker once had, put back into a running process to see that the tester finds them.

A plant names a function and a piece of its source, which must be there exactly once, and what stands in its place: a
target that moved is an error, never a plant that does nothing. `python -m tests.durability.planted NAME -- OPTIONS`
runs `barnabas broker` with one.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


class TargetMoved(Exception):
    """The code that a plant changes is not what it was: look at it, and write the plant anew."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one function: `place` is `module:function` or `module:Class.method`."""

    place: str
    old: str
    new: str

    def make(self) -> Callable[[], None]:
        """Put the changed function in the place of the one that is there, wherever that was imported to.

        Returns:
            What puts the old one back.

        Raises:
            TargetMoved: the function is not there, or does not hold the piece exactly once.
        """
        module_name, _, path = self.place.partition(":")
        module = import_module(module_name)
        *outer, name = path.split(".")
        owner: Any = module
        for each in outer:
            owner = getattr(owner, each, None)
        before = vars(owner).get(name) if owner is not None else None
        if not inspect.isfunction(before):
            raise TargetMoved(f"{self.place} is no function")
        source = textwrap.dedent(inspect.getsource(before))
        if source.count(self.old) != 1:
            raise TargetMoved(f"{self.place} holds {self.old!r} {source.count(self.old)} times, not once")
        made: dict[str, Callable[..., Any]] = {}
        exec(compile(source.replace(self.old, self.new), f"<planted in {self.place}>", "exec"), vars(module), made)
        after = made[name]
        _replace(owner, name, before, after)
        return lambda: _replace(owner, name, after, before)


def _replace(owner: Any, name: str, before: Any, after: Any) -> None:
    setattr(owner, name, after)
    for other in [other for key, other in sys.modules.items() if key.partition(".")[0] == "barnabas"]:
        for key in [key for key, value in vars(other).items() if value is before]:
            setattr(other, key, after)


@dataclass(frozen=True, slots=True)
class Plant:
    """A defect: what it does, its changes, and the story that meets it (see `stories`)."""

    what: str
    changes: tuple[Change, ...]
    story: str
    deeds: int = 80

    def make(self) -> None:
        """Put it back.

        Raises:
            TargetMoved: the code is another.
        """
        for change in self.changes:
            change.make()

"""A mapping that never changes and is made from another one and a little more, without a copy of all of it.

    plus(plus(topics, {"a": ...}), {"b": ...})      base: what topics holds, shared    recent: a, b

A client of thousands of topics learns of them one by one; a copy for each would cost the square of their number. Here
the recent ones are copied, until they are some times the root of all: then all are, once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")

LAYERED_FROM: Final = 256
"""What is smaller is copied: a plain dictionary is found in sooner."""
_RECENT_MAX: Final = 4
"""So many times the root of the others may be recent."""
_ABSENT: Final[Any] = object()


class Layered(Mapping[K, V]):
    """Two dictionaries without a common key, read as one."""

    __slots__ = ("base", "recent")

    def __init__(self, base: Mapping[K, V], recent: dict[K, V]) -> None:
        self.base, self.recent = base, recent

    def __getitem__(self, key: K) -> V:
        found = self.recent.get(key, _ABSENT)
        return self.base[key] if found is _ABSENT else found

    def get(self, key: K, default: Any = None) -> Any:
        """What a key stands for, or the default."""
        found = self.recent.get(key, _ABSENT)
        return self.base.get(key, default) if found is _ABSENT else found

    def __contains__(self, key: object) -> bool:
        return key in self.recent or key in self.base

    def __iter__(self) -> Iterator[K]:
        yield from self.base
        yield from self.recent

    def __len__(self) -> int:
        return len(self.base) + len(self.recent)


def plus(known: Mapping[K, V], more: Mapping[K, V]) -> Mapping[K, V]:
    """All of `known`, and of `more`, whose keys are others."""
    base, recent = _layers(known)
    recent = {**recent, **more}
    if len(base) < LAYERED_FROM or len(recent) ** 2 > _RECENT_MAX**2 * len(base):
        return {**base, **recent}
    return Layered(base, recent)


def news(before: Mapping[K, V], now: Mapping[K, V]) -> Mapping[K, V]:
    """What `now` has that `before`, from which it was made, has not; or all of it, where that is not easily told."""
    (old, seen), (base, recent) = _layers(before), _layers(now)
    if base is not old:
        return now
    return {key: recent[key] for key in islice(reversed(recent), len(recent) - len(seen))}


def _layers(known: Mapping[K, V]) -> tuple[Mapping[K, V], dict[K, V]]:
    return (known.base, known.recent) if isinstance(known, Layered) else (known, {})

"""The request vocabulary: version-free dataclasses, one file per API, shared by both dialects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(field_specifiers=(field,))
def message(cls: type[T]) -> type[T]:
    """A dataclass with slots. It compares and shows itself as every other, and is made in half the time.

    `dataclass` compiles an `__eq__` and a `__repr__` for each class, and works out a signature where there is no
    docstring: 0.1 ms each time, and a request that is the first of its kind waits for up to thirteen classes.
    """
    cls.__doc__ = cls.__doc__ or cls.__name__
    made = dataclass(slots=True, eq=False, repr=False)(cls)
    made.__eq__ = _equal  # type: ignore[method-assign]
    made.__hash__ = None  # type: ignore[assignment]  # fields change
    made.__repr__ = _shown  # type: ignore[method-assign]
    return made


def _equal(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in self.__match_args__)


def _shown(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{self.__class__.__name__}({fields})"

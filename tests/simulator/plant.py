"""A defect that is put into the shipped code for one run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.durability.plants import Change


class Plant(NamedTuple):
    """A defect: what it does, its changes, how the checker's sentence begins, a seed that meets it, who is there."""

    what: str
    changes: tuple[Change, ...]
    found_as: str
    seed: int
    brokers: int = 1
    controllers: int = 1


@contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """The code with the defect."""
    undo = [change.make() for change in plant.changes]
    try:
        yield
    finally:
        for each in reversed(undo):
            each()

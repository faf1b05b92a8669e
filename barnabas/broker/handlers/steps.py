"""Requests that ask for much, in slices: the loop goes to others between them.

A handler that may have much to do is a job. Its first slice is done where the request is handled, so a small request is
answered at once, as if there were no jobs; what has more slices than one goes on among the broker's jobs. Requests of
one connection are handled one at a time, so their order is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from barnabas.broker.context import Connection, RequestContext
from barnabas.broker.jobs import Gate, Job, wait
from barnabas.broker.ports import Token

SLICE: Final = 500
"""So many things are looked up or told in one step: one to three ms."""

_CHARACTERS: Final = 64
"""So many of a group's name are another thing to be looked up: where the group is goes by all of them, 70 ns each."""

K = TypeVar("K")
Q = TypeVar("Q")
T = TypeVar("T")

Ended = Callable[[Exception | None], None]


class Runner(Protocol):
    """Who takes on jobs, and answers a request whose job failed."""

    def __call__(self, steps: Job[None], ended: Ended) -> Callable[[], None]:
        """Take on a job; `ended` hears of its end. Returns what ends it before that."""


def work(run: Runner, steps: Job[None], failed: Callable[[Exception], None], asker: Connection | None = None) -> None:
    """Do the first slice, and leave the rest to the broker's jobs; `failed` hears what a later slice raised.

    What changes nothing is done for its `asker` alone, and ends where it stands when that is gone: what the job holds
    is charged to nobody then.

    Raises:
        Exception: what the first slice raised.
    """

    def ended(fault: Exception | None) -> None:
        if asker is not None:
            asker.ending = None
        if fault is not None:
            failed(fault)

    for token in steps:
        if asker is not None:
            steps = _asked_by(asker, steps)
        rest = steps if token is None else _after(token, steps)
        end = run(rest, ended)
        if asker is not None:
            asker.ending = end
        return


def _after(token: Token, steps: Job[None]) -> Job[None]:
    """The rest of a job that waits for `token`, which may fire before the rest has its first turn."""
    fired = Gate()
    token.on_ready(fired.open)

    def resumed() -> Job[None]:
        yield from wait(fired)
        yield from steps

    return resumed()


def _asked_by(asker: Connection, steps: Job[None]) -> Job[None]:
    while asker.open:
        try:
            token = next(steps)
        except StopIteration:
            return
        yield token
    steps.close()


def work_of(group_id: str) -> int:
    """How many things it is to look a group up: a name may have 32,767 characters."""
    return 1 + len(group_id) // _CHARACTERS


class Slice:
    """Says of a job, by what it has done, when it is time to let others go on."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = SLICE

    def is_over(self, things: int = 1) -> bool:
        """Whether a slice ends with these."""
        self._left -= things
        if self._left > 0:
            return False
        self._left = SLICE
        return True


def slices(things: Sequence[T], size: int = SLICE) -> Iterator[Sequence[T]]:
    """The things in their order, so many at a time; nothing is copied where they are few."""
    if len(things) <= size:
        yield things
        return
    for start in range(0, len(things), size):
        yield things[start : start + size]


def gathered(
    queries: Mapping[K, Q],
    ask: Callable[[Mapping[K, Q], Callable[[dict[K, Any]], None]], None],
    size: int = SLICE,
) -> Job[dict[K, Any]]:
    """Ask a slice at a time; all results, in the order of the queries, once the last of them has come."""
    results: dict[K, Any] = {}
    complete = Gate()

    def answered(part: dict[K, Any]) -> None:
        results.update(part)
        if len(results) == len(queries):
            complete.open()

    if not queries:
        return results
    for part in slices(list(queries), size):
        if len(results) or len(part) < len(queries):
            ask({key: queries[key] for key in part}, answered)
            yield None
        else:
            ask(queries, answered)
    yield from wait(complete)
    return {key: results[key] for key in queries}


def answer(context: RequestContext, response: Any, elements: int) -> Generator[None, None, None]:
    """Send a response of about so many elements, written in slices where they are many."""
    if elements <= SLICE:
        context.respond(response)
    else:
        yield from context.respond_in_steps(response)

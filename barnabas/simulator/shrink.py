"""A smaller run that breaks the same promise: fewer faults, fewer clients, less time.

What is left out changes the course of all that follows, so each try is a run of its own: it counts if the same checker
refuses it. Faults go in halves first, then one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from barnabas.simulator.faults import KINDS_OF_MEMBERS
from barnabas.simulator.plan import Plan
from barnabas.simulator.run import Outcome, play

TRIES_MAX: Final = 100
_AFTER_THE_LAST_MS: Final = 1000


def shrink(outcome: Outcome, tries_max: int = TRIES_MAX) -> Outcome:
    """The smallest run found that breaks what this one broke; itself, if there is none."""
    assert outcome.broken is not None
    checker, tries, best = checker_of(outcome.broken), 0, outcome
    smaller = _smaller(best.plan)
    while tries < tries_max and (plan := next(smaller, None)) is not None:
        tries += 1
        found = play(plan)
        if found.broken is not None and checker_of(found.broken) == checker:
            best, smaller = found, _smaller(plan)
    return best


def checker_of(broken: str) -> str:
    """Which checker's sentence it is."""
    return broken.partition(":")[0]


def size_of(plan: Plan) -> str:
    """How much of a run is left, in words."""
    clients = len(plan.producers) + len(plan.consumers) + len(plan.members)
    return f"{len(plan.faults)} faults, {clients} clients, {plan.duration_ms} ms"


def _smaller(plan: Plan) -> Iterator[Plan]:
    """What is smaller by one thing, the largest things first."""
    size = (len(plan.faults) + 1) // 2
    while size:
        for start in range(0, len(plan.faults), size):
            yield replace(plan, faults=plan.faults[:start] + plan.faults[start + size :])
        size //= 2
    if plan.members:
        yield replace(plan, members=[], faults=[one for one in plan.faults if one.kind not in KINDS_OF_MEMBERS])
    if plan.moves:
        yield replace(plan, moves=False)
    if plan.remakes:
        yield replace(plan, remakes=False)
    if plan.unclean:
        yield replace(plan, unclean=False)
    if plan.consumers:
        yield replace(plan, consumers=plan.consumers[1:])
    if len(plan.producers) > 1:
        yield replace(plan, producers=plan.producers[1:])
    until_ms = max((one.at_ms for one in plan.faults), default=0) + _AFTER_THE_LAST_MS
    if until_ms < plan.duration_ms:
        yield replace(plan, duration_ms=until_ms)

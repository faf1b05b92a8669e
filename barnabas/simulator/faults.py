"""What goes wrong in a run: a plan that is drawn from its seed. How each fault is done stands in `adversary`."""

from __future__ import annotations

import random
from typing import Final, NamedTuple

KILL, KILLS, POWER, STOP, PAUSE = "kill", "kills", "power", "stop", "pause"
CUT, CUT_TO, CUT_FROM, RESET, SLOW = "cut", "cut to", "cut from", "reset", "slow"
FULL, JUMP = "full", "jump"
SPLIT, SPLIT_TO, SPLIT_FROM, SLOW_DISK = "split", "split to", "split from", "slow disk"
"""`cut`: between a broker and clients; `split`: between it and other brokers."""

KINDS: Final = (KILL, KILLS, POWER, POWER, STOP, PAUSE, CUT, CUT_TO, CUT_FROM, RESET, SLOW, FULL, JUMP)
KINDS_OF_SEVERAL: Final = (*KINDS, KILL, POWER, PAUSE, SPLIT, SPLIT, SPLIT_TO, SPLIT_FROM, SLOW_DISK)
RESTARTS: Final = frozenset({KILL, KILLS, POWER, STOP})
_JUMP_MS_MAX: Final = 7_200_000


class Fault(NamedTuple):
    """One fault: when it begins, what it is, how long it lasts, how far a clock jumps, and which broker it hits.

    `on_answer`: it begins with the broker's next answer from then on, while that is on its way: what it says counts.
    """

    at_ms: int
    kind: str
    for_ms: int
    jump_ms: int = 0
    on_answer: bool = False
    node: int = 1


def draw_faults(chance: random.Random, duration_ms: int, brokers: int, *, power: bool) -> list[Fault]:
    """At least five faults; those of `power` only where the run promises to survive them."""
    kinds = [kind for kind in (KINDS if brokers == 1 else KINDS_OF_SEVERAL) if power or kind != POWER]
    faults = []
    for _ in range(chance.randrange(5, 13)):
        kind = chance.choice(kinds)
        for_ms = chance.choice((chance.randrange(20, 300), chance.randrange(300, 8000)))
        jump_ms = chance.randint(-_JUMP_MS_MAX, _JUMP_MS_MAX) if kind == JUMP else 0
        on_answer = kind in (KILL, POWER) and chance.randrange(4) > 0
        at_ms = chance.randrange(1000, duration_ms)
        node = 1 if brokers == 1 else chance.randrange(brokers) + 1
        faults.append(Fault(at_ms, kind, for_ms, jump_ms, on_answer, node))
    return sorted(faults)

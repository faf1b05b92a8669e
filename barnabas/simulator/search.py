"""Many seeds, one after the other: what they reached together, and what broke."""

from __future__ import annotations

import functools
import json
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from barnabas.protocol.errors import BarnabasError, ErrorCode
from barnabas.simulator.faults import KINDS_OF_MEMBERS, KINDS_OF_SEVERAL, KINDS_OF_STORIES, Fault
from barnabas.simulator.plan import SEVERAL, Plan, draw
from barnabas.simulator.run import Outcome, play
from barnabas.simulator.watching import COUNTED, PARTED

REACHED: Final = (
    *(f"fault: {kind}" for kind in dict.fromkeys((*KINDS_OF_SEVERAL, *KINDS_OF_STORIES, *KINDS_OF_MEMBERS))),
    "controller elections",
    "controllers that resign",
    "cuts of the metadata log",
    "faults that hit who has voted",
    "ISR expansions",
    "ISR shrinks",
    "ISRs below the minimum",
    "brokers fenced",
    "clean stops",
    "clocks that drift",
    "commits",
    "commits while the coordinator loads",
    "commits whose coordinator moves",
    "connections given up",
    "connections refused",
    "connections reset",
    "coordinators that move",
    "elections",
    "elections of an eligible leader",
    "elections of the last known leader",
    "elections of the preferred leader",
    "elections of an unclean leader",
    "acknowledged records lost to an unclean election",
    "ends of brokers whose directory failed",
    "ends while it recovers",
    *(f"error {code} {ErrorCode(code).name}" for code in sorted(COUNTED)),
    "fencings by evidence",
    "fencings by timeout",
    "flips found",
    PARTED,
    "half-open connections",
    "logs cut",
    "moves begun",
    "moves given up",
    "names lost",
    "operations parked",
    "operations that expired",
    "partitions that lose their leader",
    "power losses",
    "pre-votes refused",
    "proposals that came too late",
    "rebalances",
    "records failed",
    "replicas deleted",
    "retries recognised after a failover",
    "returns with proof",
    "returns without proof",
    "snapshots of metadata installed",
    "starts that found a loss",
    "topics deleted",
    "topics given more partitions",
    "topics made anew",
    "trickled pieces",
    "unsynced bytes lost",
    "writers stalled",
    "writes that found a full disk",
    "zombies refused",
)
"""What a search of `MANY` seeds of three brokers comes to: a tester that never meets a fault proves nothing of it."""
MANY: Final = 200
_FORM: Final = 1


class NotAFailure(BarnabasError, ValueError):
    """A file that holds no failure of the simulator."""


class Found:
    """What seeds came to together."""

    def __init__(self) -> None:
        self.seeds = 0
        self.of_several = 0
        self.broken: list[Outcome] = []
        self.virtual_ms = 0
        self.acknowledged = 0
        self.events = 0
        self.reached: Counter[str] = Counter()

    def add(self, outcome: Outcome) -> None:
        """One more seed."""
        self.seeds += 1
        self.of_several += outcome.plan.brokers > 1
        self.virtual_ms += outcome.virtual_ms
        self.acknowledged += outcome.acknowledged
        self.events += outcome.events
        self.reached += outcome.reached
        if outcome.broken is not None:
            self.broken.append(outcome)

    @property
    def missing(self) -> list[str]:
        """What `MANY` seeds of several brokers, or more, should have reached and did not."""
        return [name for name in REACHED if not self.reached[name]] if self.of_several >= MANY else []


def search(seeds: Sequence[int], jobs: int = 1, brokers: int = SEVERAL) -> Iterator[Outcome]:
    """Play seeds, and tell of them in their order; `jobs` at a time, each in a process of its own."""
    play_one = functools.partial(_play, brokers)
    if min(jobs, len(seeds)) <= 1:
        yield from map(play_one, seeds)
        return
    with ProcessPoolExecutor(min(jobs, len(seeds)), get_context("fork"), _left_to_the_parent) as pool:
        yield from pool.map(play_one, seeds)


def _play(brokers: int, seed: int) -> Outcome:
    return play(draw(str(seed), brokers=brokers))


def _left_to_the_parent() -> None:
    """Ctrl-C reaches all processes of a terminal: who plays a seed ends with it, and is given no other."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def save(outcome: Outcome, directory: Path, suffix: str = "") -> Path:
    """Write a failure to a file of its own: the seed and its plan, what was broken, what happened before.

    Raises:
        OSError: it cannot be written.
    """
    path = directory / f"simulate-{outcome.plan.seed}{suffix}.json"
    path.write_text(json.dumps({"form": _FORM, **outcome.as_json()}, indent=1) + "\n")
    return path


def load(path: Path) -> Plan:
    """The plan of a saved failure.

    Raises:
        NotAFailure: the file holds something else.
        OSError: it cannot be read.
    """
    try:
        told: Any = json.loads(path.read_text())
        if told["form"] != _FORM:
            raise NotAFailure(f"{path} is of form {told['form']}; this release replays form {_FORM}")
        plan = Plan(**told["plan"])
        plan.faults = [Fault(*fault) for fault in plan.faults]
    except NotAFailure:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise NotAFailure(f"{path} is no failure that barnabas simulate has saved: {error!r}") from error
    return plan

"""Drives `groups.c`: the members of consumer groups, raw, against a server."""

from __future__ import annotations

import json
import statistics
import subprocess
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from tests.benchmarks.load import generator
from tests.benchmarks.servers import Server

BEAT_MS: Final = 50
_PATIENCE_S: Final = 150


class Refused(RuntimeError):
    """The server does not let the members in, or has not got this protocol."""


class Phase(NamedTuple):
    """How long it took, without the protocol's own waits (`net`), and CPU of the server and of the generator; ms.

    That of a join is of all that it brought, which ends a little later than it (`groups.c`).
    """

    all: float
    net: float
    cpu: float
    own: float


@dataclass(slots=True, frozen=True)
class Cycles:
    """Medians of some cycles: a group joins, in so many generations and requests, and then one of it leaves."""

    join: Phase
    leave: Phase
    generations: float
    requests: float


@dataclass(slots=True, frozen=True)
class Beats:
    """Heartbeats, each sent when the one before was answered. CPU is of the server and of the generator."""

    per_s: float
    p50_us: float
    p99_us: float
    server_cpu_us: float
    generator_share: float


@dataclass(slots=True, frozen=True)
class First:
    """From FindCoordinator to the assignment of the only member; `found` until there was a coordinator (ms)."""

    elapsed: float
    found: float
    asked: int
    cpu: float


Cycle = dict[str, float]
"""What `groups.c` says of one."""


def cycles(
    server: Server,
    protocol: str,
    group: str,
    topic: str,
    partitions: int,
    members: int,
    count: int,
    beat_ms: int = BEAT_MS,
) -> list[Cycle]:
    """So many groups one after the other, each of whose members says every `beat_ms` that it is there.

    Raises:
        Refused: the server answered an error.
    """
    return _run(server, "cycle", protocol, group, topic, partitions, members, beat_ms, count)


def medians(found: list[Cycle]) -> Cycles:
    """The median of each figure."""

    def median(name: str) -> float:
        return float(statistics.median(one[name] for one in found))

    def phase(name: str) -> Phase:
        return Phase(*(median(f"{name}_{figure}ms") for figure in ("", "net_", "cpu_", "own_")))

    return Cycles(phase("join"), phase("leave"), median("generations"), median("join_requests"))


def beats(
    server: Server, protocol: str, group: str, topic: str, partitions: int, members: int, seconds: float
) -> Beats:
    """All members of one group say that they are there, as fast as they are answered.

    Raises:
        Refused: the server answered an error.
    """
    (found,) = _run(server, "beats", protocol, group, topic, partitions, members, seconds)
    return Beats(
        found["count"] / found["seconds"],
        found["p50_us"],
        found["p99_us"],
        found["server_cpu_ms"] * 1e3 / found["count"],
        found["cpu_s"] / found["seconds"],
    )


def first(server: Server, group: str, topic: str, retry_ms: int) -> First:
    """The first member of a server's first group, which asks again after `retry_ms` while there is no coordinator.

    Raises:
        Refused: the server answered an error.
    """
    (found,) = _run(server, "first", "classic", group, topic, 1, retry_ms)
    return First(found["elapsed_ms"], found["found_ms"], found["asked"], found["server_cpu_ms"])


def _run(server: Server, mode: str, *arguments: str | float) -> list[dict[str, Any]]:
    command = [generator("groups"), mode, "127.0.0.1", str(server.port), str(server.pid), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    if done.returncode:
        raise Refused(f"{server.name}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]

"""Two revisions side by side: both brokers run at once, and are loaded in turn, a fraction of a second each.

What the machine does meanwhile falls on both alike, and each turn is a pair of its own: a few hundred of them tell 3 %
apart where whole runs (`pairs`) differ by 20. Each start has its own luck (where things lie in memory, the seed of
hashes), so the brokers are started anew several times. Beside the time, the server's CPU a request is compared, which
hardly depends on who else uses the machine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.benchmarks import load, servers
from tests.benchmarks.pairs import ROOT, checkout, report, stage
from tests.benchmarks.servers import MODES, Server

TURNS = 8
"""Turns of each shape after each start."""
SECONDS = 0.3
WAKES = 300
Shape = tuple[str, Callable[[Server, int], load.Load], bool]


def _small(connections: int, depth: int) -> Callable[[Server, int], load.Load]:
    return lambda server, _turn: load.small_requests(server, "small", connections, depth, SECONDS)


SHAPES: tuple[Shape, ...] = (
    ("small requests, 16 connections x 8 deep", _small(16, 8), True),
    ("small requests, 16 connections x 1", _small(16, 1), True),
    ("synchronous produce", _small(1, 1), False),
    ("produce to waiting consumer", lambda server, turn: load.wake(server, "wake", turn * WAKES, WAKES), False),
)
"""What is compared, and whether its time is that of all (else the median of one)."""


def _turns(ours: Server, theirs: Server) -> Iterator[tuple[str, float]]:
    """The ratios ours / theirs of each turn: of time and of CPU, less is better."""
    for server in (ours, theirs):
        load.create_topic(server, "small")
        load.create_topic(server, "wake")
        load.small_requests(server, "small", 16, 8, 1.0)
    for turn in range(TURNS):
        order = (ours, theirs) if turn % 2 == 0 else (theirs, ours)
        for name, run, of_all in SHAPES:
            time_us, cpu_us = {}, {}
            for server in order:
                before = server.cpu_ns()
                found = run(server, turn)
                cpu_us[server.pid] = (server.cpu_ns() - before) / 1e3 / found.count
                time_us[server.pid] = 1e6 / found.per_s if of_all else found.p50_us
            yield f"{name}, time", time_us[ours.pid] / time_us[theirs.pid]
            yield f"{name}, server CPU", cpu_us[ours.pid] / cpu_us[theirs.pid]


def measure(revision: str, starts: int, settings: Sequence[str] = ()) -> int:
    """Measure and print; 1 when a row is harmed. `settings` (NAME=VALUE) are of this checkout's brokers alone.

    Raises:
        NoSuchRevision: git does not know the revision.
        RuntimeError: a broker did not start.
    """
    ratios: dict[str, list[float]] = {}
    flags = [each for setting in settings for each in ("--set", setting)]
    with checkout(revision) as tree, stage(ROOT) as here, stage(tree) as there:
        for number in range(starts):
            for mode in MODES:
                with contextlib.ExitStack() as stack:
                    place: tuple[Path, Path] = (here, there) if number % 2 == 0 else (there, here)
                    started = {
                        each: stack.enter_context(
                            servers.barnabas(*(flags if each == here else ()), mode=mode, place=each)
                        )
                        for each in place
                    }
                    for name, ratio in _turns(started[here], started[there]):
                        ratios.setdefault(f"{name}, records {mode}", []).append(ratio)
            print(f"start {number + 1} of {starts}", flush=True)
    return report(ratios, dict.fromkeys(ratios, "less"), revision)

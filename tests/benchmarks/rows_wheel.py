"""Rows of the wheel and the purgatory, with asyncio's and uvloop's timers beside them, and the collector's pause."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator

from barnabas.broker.delayed import Purgatory, Timer
from barnabas.broker.host.collector import THRESHOLDS
from tests.benchmarks import bench_wheel
from tests.benchmarks.report import Row
from tests.benchmarks.servers import Peers

PARKED = 500_000
TIMED_AT = 100_000
BARS: dict[str, tuple[float | None, float | None]] = {
    "asyncio": (8.0, 13.0),
    "uvloop": (1.1, 1.5),
    "heap, lazy deletion": (None, None),
}


def _timers(found: list[bench_wheel.Row]) -> Iterator[Row]:
    cost = {
        (row["what"], row["contender"], row["outstanding"]): row["us_per_operation"]
        for row in found
        if "us_per_operation" in row
    }
    mine = cost["cancel and add", "wheel", TIMED_AT]
    for peer, (must, aim) in BARS.items():
        theirs = cost.get(("cancel and add", peer, TIMED_AT))
        notes = [
            f"{what} at {outstanding:,}: wheel {cost[what, 'wheel', outstanding]:.2f} µs, {peer} {figure:.2f} µs"
            for (what, name, outstanding), figure in cost.items()
            if name == peer
        ]
        # Operations per second, so that the ratio says how many times faster the wheel is.
        ours = 1e6 / mine
        name = f"wheel cancel and add, 100,000 outstanding, {peer}"
        yield Row(name, "per s", ours, peer, 1e6 / theirs if theirs else None, must, aim, notes=notes)
    growth = cost["cancel and add", "wheel", 1_000_000] / cost["cancel and add", "wheel", 1_000]
    yield Row("wheel cost at 1,000,000 against 1,000", "x", growth, must=1.5, aim=1.1, better="less")
    for row in found:
        if row["bench"] == "purgatory":
            yield Row(f"purgatory: {row['what']}", "per s", row["requests_per_s"], must=150_000, aim=300_000)


def _longest_pause_ms() -> float:
    """The longest collection while half a million operations are parked, completed and parked again."""
    pauses: list[float] = []
    began = 0.0

    def watch(phase: str, _info: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = time.perf_counter()
        else:
            pauses.append((time.perf_counter() - began) * 1e3)

    parked = Purgatory("bench", Timer(0))
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.callbacks.append(watch)
    try:
        for number in range(PARKED):
            parked.try_complete_else_watch(bench_wheel.Parked(), (("topic", number % 100),), 0)
        for number in range(PARKED // 5):
            operation = bench_wheel.Parked()
            parked.try_complete_else_watch(operation, (("topic", number % 100),), 0)
            operation.force_complete(0)
    finally:
        gc.callbacks.remove(watch)
        gc.set_threshold(*before)
        gc.unfreeze()
    return max(pauses, default=0.0)


def rows(_peers: Peers) -> Iterator[Row]:
    """All in this process: no sockets, no disk."""
    yield from _timers(bench_wheel.run())
    pause = _longest_pause_ms()
    yield Row(f"longest GC pause, {PARKED:,} parked operations", "ms", pause, must=5.0, aim=0.5, better="less")

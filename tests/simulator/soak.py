"""Seeds without end, or a range: `./dev soak --only simulator`, and with `--seed FROM --count N --jobs J`."""

from __future__ import annotations

import itertools
import os
import platform
import subprocess
import time
from typing import Final

from barnabas.simulator.plan import draw
from barnabas.simulator.run import Outcome, play
from barnabas.simulator.search import Found, search

_TOLD_EVERY: Final = 100


def soak(seconds: float, seed: str) -> int:
    """Play seeds for so long, from this one on; how many broke a promise."""
    deadline, found = time.monotonic() + seconds, Found()
    for number in itertools.count(int(seed)):
        if time.monotonic() >= deadline:
            break
        _add(found, play(draw(str(number))))
    hours = found.virtual_ms / 3_600_000
    print(f"simulator: {found.seeds} seeds, {len(found.broken)} broke a promise; {hours:.1f} virtual hours")
    return len(found.broken)


def play_range(first: int, count: int, jobs: int) -> int:
    """Play so many seeds from this one on, `jobs` at a time, and sum them up; how many broke a promise.

    Ctrl-C sums up what was played by then.
    """
    began, found = time.monotonic(), Found()
    try:
        for outcome in search(range(first, first + count), jobs):
            _add(found, outcome)
            if found.seeds % _TOLD_EVERY == 0:
                print(f"{first} to {first + found.seeds - 1}: {len(found.broken)} broken", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    seconds = max(time.monotonic() - began, 0.001)
    machine = f"Python {platform.python_version()}, {os.cpu_count()} processors, {platform.machine()}"
    print(
        f"simulator: seeds {first} to {first + found.seeds - 1}, {len(found.broken)} broken\n"
        f"{found.virtual_ms / 3_600_000:.1f} virtual hours, {found.acknowledged:,} records acknowledged, "
        f"{found.events:,} facts checked; {found.seeds / seconds:.2f} seeds/s ({jobs} processes)\n"
        f"revision {revision()}, {machine}\n"
        + ", ".join(f"{name} {times:,}" for name, times in sorted(found.reached.items()) if times)
    )
    if found.missing:
        print(f"never reached: {', '.join(found.missing)}")
    return len(found.broken) + len(found.missing)


def _add(found: Found, outcome: Outcome) -> None:
    found.add(outcome)
    if outcome.broken is not None:
        print(f"{outcome.broken}\nrepeat it: barnabas simulate --seeds 1 --seed {outcome.plan.seed}\n", flush=True)


def revision() -> str:
    """The commit that is checked out, and whether files differ from it."""
    told = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return told.stdout.strip() or "unknown"

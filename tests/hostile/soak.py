"""Extreme requests against a real process, as one of the long testers: `./dev soak --only hostile`."""

from __future__ import annotations

from tests.broker.host.test_siege import siege
from tests.hostile.run import play


def soak(seconds: float, seed: str) -> int:
    """Play for so long; the number of faults, at which it ends."""
    try:
        with siege("--topic", "t:3") as process:
            played = play(process.port, int(seed), seconds)
    except (AssertionError, ConnectionError) as error:
        print(f"hostile: {error}\nrepeat it: ./dev soak --only hostile --seed {seed}\n", flush=True)
        return 1
    print(f"hostile: {played}; the broker stood")
    return 0

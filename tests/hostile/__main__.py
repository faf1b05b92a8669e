"""`python -m tests.hostile --seconds N --seed S`: extreme requests against a real process, for as long as you like."""

from __future__ import annotations

import argparse
import time

from tests.broker.host.test_siege import siege
from tests.hostile.run import play


def main() -> None:
    """Play, and say what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    options = parser.parse_args()
    print(f"hostile: seed {options.seed}", flush=True)
    with siege("--topic", "t:3") as process:
        played = play(process.port, options.seed, options.seconds)
    print(f"hostile: {played}; the broker stood")


if __name__ == "__main__":
    main()

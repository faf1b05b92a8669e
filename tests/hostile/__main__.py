"""`python -m tests.hostile --seconds N --seed S --share 0.15`: extreme requests, as long and as fast as you like."""

from __future__ import annotations

import argparse
import sys
import time

from tests.hostile.soak import soak


def main() -> int:
    """Play, and say what came of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    parser.add_argument("--share", type=float, default=1.0, help="of one processor, for attacker and broker together")
    options = parser.parse_args()
    print(f"hostile: seed {options.seed}", flush=True)
    return soak(options.seconds, str(options.seed), options.share)


if __name__ == "__main__":
    sys.exit(main())

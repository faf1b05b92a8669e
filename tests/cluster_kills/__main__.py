"""`python -m tests.cluster_kills --seconds 600`: three real brokers are killed, held and damaged under load."""

from __future__ import annotations

import argparse
import sys

from tests.cluster_kills.run import BLOWS
from tests.cluster_kills.soak import soak

options = argparse.ArgumentParser(prog="python -m tests.cluster_kills", description=__doc__)
options.add_argument("--seconds", type=float, default=600)
options.add_argument("--seed", default="1")
options.add_argument("--only", choices=sorted(BLOWS), help="one kind of blow")
options.add_argument("--controllers", type=int, choices=(1, 3, 4), help="how many; of one three are made")
given = options.parse_args()
sys.exit(min(soak(given.seconds, given.seed, only=given.only, controllers=given.controllers), 1))

"""Blows without end: `./dev soak --only kills`, or `python -m tests.cluster_kills`, which knows more options."""

from __future__ import annotations

import itertools
import logging
import shutil
import tempfile
import time
from pathlib import Path

from tests.cluster_kills.run import Run, grow

BLOWS = 8
"""In one life of a cluster: a small disk lasts ten minutes."""


CONTROLLERS = (3, 1, 3, 4)
"""How many a cluster has, by its seed; of one three are made."""


def soak(seconds: float, seed: str, *, only: str | None = None, controllers: int | None = None) -> int:
    """Play for so long, a cluster for each seed from this one on; how many broke a promise."""
    logging.disable()  # clients tell of each broker that is away
    deadline, broken = time.monotonic() + seconds, 0
    for number in itertools.count(int(seed)):
        if time.monotonic() >= deadline:
            break
        broken += not play(number, deadline, only, controllers or CONTROLLERS[number % len(CONTROLLERS)])
    return broken


def play(number: int, deadline: float, only: str | None, controllers: int) -> bool:
    """One seed; whether all held. What it left on disk stays if it did not."""
    directory = Path(tempfile.mkdtemp(prefix="barnabas-kills-"))
    run = Run(directory, number, controllers=controllers)
    try:
        run.load.goes_on()
        if controllers == 1:
            print(f"kills: {number}: {run.blow('kill')}; {grow(run)}", flush=True)
            run.load.goes_on()
        for _ in range(BLOWS):
            began_s = time.monotonic()
            print(f"kills: {number}: {run.blow(only)}", end="", flush=True)
            run.load.goes_on(1)
            print(f"; {time.monotonic() - began_s:.1f} s", flush=True)
            if time.monotonic() >= deadline:
                break
        print(f"kills: {number}: {run.ends()}", flush=True)
    except Exception as error:
        print(f"\nkills: {number}: {error!r}\nits files: {directory}; begin there: --seed {number}\n", flush=True)
        return False
    finally:
        run.close()
    shutil.rmtree(directory)
    return True

"""Epochs: what a replica knows of leader epochs is what its batches say; a cut leaves none that was cut off.

cut at 5    knows epochs 0 from 0, 2 from 5    broken: 2 has no record here, and its broker would tell of it
"""

from __future__ import annotations

from itertools import pairwise

from barnabas.simulator.checks import Check
from barnabas.simulator.history import Epochs
from barnabas.simulator.world import Broken


class EpochCaches(Check):
    """Every epoch that has a batch is known with that batch's offset; epochs rise in both."""

    def __init__(self) -> None:
        self.rules = {Epochs: self._epochs}

    def _epochs(self, event: Epochs) -> None:
        what = f"epochs: {event.broker} knows {event.known} of {event.partition}, its batches say {event.found}"
        for told in (event.known, event.found):
            if any(one[0] >= other[0] or one[1] >= other[1] for one, other in pairwise(told)):
                raise Broken(f"{what}: they do not rise")
        if not set(event.found) <= set(event.known):
            raise Broken(what)
        past = [start for _, start in event.known if start > event.end]
        if past:
            raise Broken(f"{what}: {past[0]} is past the log's end {event.end}")
        if event.is_cut:
            kept = [epoch for epoch, start in event.known if start >= event.end and epoch != event.leads]
            if kept:
                raise Broken(f"{what}: epoch {kept[0]} was cut off")

"""Proposals: the controller makes a change of an ISR only if its leader knew the last one.

partition epoch 6    proposed on 6, made as 7: as it must    proposed on 5, made as 7: broken
"""

from __future__ import annotations

from barnabas.simulator.checks import Check
from barnabas.simulator.history import Proposed
from barnabas.simulator.world import Broken


class Proposals(Check):
    """One at a time; what changes nothing has the epoch that it had."""

    def __init__(self) -> None:
        self.rules = {Proposed: self._proposed}

    def _proposed(self, event: Proposed) -> None:
        if event.made not in (event.based_on, event.based_on + 1):
            raise Broken(
                f"proposals: of {event.partition} a change is made as partition epoch {event.made}, which was proposed "
                f"on {event.based_on}"
            )

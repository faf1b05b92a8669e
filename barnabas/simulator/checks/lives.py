"""Lives: nobody is taken into an ISR for what he had in an earlier life: he may have lost some of it since (KIP-903).

registered in epoch 9    named with 9, or with none: as it must    with 4, and the change is made: broken
"""

from __future__ import annotations

from barnabas.simulator.checks import Check
from barnabas.simulator.history import Proposed, Proposing, Registered
from barnabas.simulator.world import Broken


class Lives(Check):
    """By request: who was registered anew, before the controller read it, since he told what is said of him."""

    def __init__(self) -> None:
        self._registered: dict[str, int] = {}
        self._gone: dict[str, str] = {}
        self.rules = {Registered: self._registers, Proposing: self._proposing, Proposed: self._proposed}

    def _registers(self, event: Registered) -> None:
        self._registered[event.broker] = event.epoch

    def _proposing(self, event: Proposing) -> None:
        for member, epoch in event.members:
            registered = self._registered.get(member, -1)
            if 0 <= epoch < registered:
                self._gone[event.request] = f"{member} in broker epoch {epoch}, and it is registered in {registered}"

    def _proposed(self, event: Proposed) -> None:
        why = self._gone.pop(event.request, None)
        if why is not None:
            raise Broken(f"lives: a change of the ISR of {event.partition} is made that names {why}")

"""Synced: a leader counts of a follower only what that has on stable storage, where `flush.messages` is 1.

broker2 has up to 7, and has synced up to 5    its leader counts 5: as it must    7: broken
"""

from __future__ import annotations

from barnabas.simulator.checks import Check
from barnabas.simulator.history import Counted
from barnabas.simulator.world import Broken


class SyncedFirst(Check):
    """Told only in runs where every acknowledgement waits for its sync."""

    def __init__(self) -> None:
        self.rules = {Counted: self._counted}

    def _counted(self, event: Counted) -> None:
        if event.end > event.synced:
            raise Broken(
                f"synced: {event.leader} counts {event.partition} at {event.follower} up to {event.end}, its disk "
                f"holds it up to {event.synced}"
            )

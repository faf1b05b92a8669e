"""Leaders: one broker at most leads a partition in a leader epoch, and in one of its lives."""

from __future__ import annotations

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check
from barnabas.simulator.history import Led
from barnabas.simulator.world import Broken


class Leaders(Check):
    """Whoever leads, by partition and epoch."""

    def __init__(self) -> None:
        self._leaders: dict[tuple[TopicPartition, int], tuple[str, int]] = {}
        self.rules = {Led: self._led}

    def _led(self, event: Led) -> None:
        if not event.leads:
            return
        who = (event.broker, event.incarnation)
        first = self._leaders.setdefault((event.partition, event.leader_epoch), who)
        if first != who:
            raise Broken(
                f"leaders: {event.broker} (life {event.incarnation}) leads {event.partition} in epoch "
                f"{event.leader_epoch}, as {first[0]} (life {first[1]}) does"
            )

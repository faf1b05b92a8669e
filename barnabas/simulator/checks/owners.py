"""Owners: in no state of its coordinator a group has given a partition to two members."""

from __future__ import annotations

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check
from barnabas.simulator.history import Grouped
from barnabas.simulator.world import Broken


class Owners(Check):
    """One state at a time."""

    def __init__(self) -> None:
        self.rules = {Grouped: self._grouped}

    def _grouped(self, event: Grouped) -> None:
        owners: dict[TopicPartition, str] = {}
        for member, _, partitions in event.members:
            for partition in partitions:
                if owners.setdefault(partition, member) != member:
                    raise Broken(
                        f"owners: in group {event.group} at {event.broker} {partition} is with {owners[partition]} and "
                        f"with {member}"
                    )

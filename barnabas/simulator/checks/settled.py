"""Settled: every record that a producer has taken has its outcome, and has it once.

What has none when all is healed has it when everything is to be well again, all others have it in the end.
"""

from __future__ import annotations

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check
from barnabas.simulator.history import Acknowledged, Failed, Healed, Over, Sent
from barnabas.simulator.world import Broken


class Settled(Check):
    """Sends by partition and value, which are nobody else's."""

    def __init__(self) -> None:
        self._pending: dict[tuple[TopicPartition, bytes], str] = {}
        self._owed: list[tuple[TopicPartition, bytes]] = []
        self.rules = {
            Sent: self._sent,
            Acknowledged: self._ended,
            Failed: self._ended,
            Healed: self._healed,
            Over: self._over,
        }

    def _sent(self, event: Sent) -> None:
        self._pending[event.partition, event.value] = event.producer

    def _ended(self, event: Acknowledged | Failed) -> None:
        if self._pending.pop((event.partition, event.value), None) is None:
            raise Broken(f"settled: {event.value!r} has a second outcome, or was never sent")

    def _healed(self, event: Healed) -> None:
        if event.since_ms:
            self._refuse([key for key in self._owed if key in self._pending], event.since_ms)
        else:
            self._owed = list(self._pending)

    def _over(self, event: Over) -> None:
        self._refuse(list(self._pending), event.since_healed_ms)

    def _refuse(self, owed: list[tuple[TopicPartition, bytes]], since_ms: int) -> None:
        if owed:
            partition, value = owed[0]
            raise Broken(
                f"settled: {value!r} of {self._pending[owed[0]]} to {partition} has no outcome {since_ms} ms after all "
                f"was healed, and {len(owed) - 1} others have none"
            )

"""Anew: a topic that is made anew under its name has nothing of the one before it, and keeps what it was given.

acknowledged before it was made              in it: broken
sent once all brokers knew it, acknowledged  in it, once: as it must    not in it: broken
what one producer has sent to a partition    in it in the order of sending, each at most once
"""

from __future__ import annotations

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check
from barnabas.simulator.history import Acknowledged, Agreed, KeptAnew, Remade, Sent
from barnabas.simulator.world import Broken


class Anew(Check):
    """Records by topic and value; what is in the topic is told of the last one."""

    def __init__(self) -> None:
        self._sent: dict[bytes, tuple[str, int]] = {}
        self._acknowledged: dict[str, dict[bytes, TopicPartition]] = {}
        self._old: dict[str, set[bytes]] = {}
        self._since: dict[str, int] = {}
        self.rules = {
            Sent: self._send,
            Acknowledged: self._acknowledge,
            Remade: self._remade,
            Agreed: self._agreed,
            KeptAnew: self._kept,
        }

    def _send(self, event: Sent) -> None:
        self._sent[event.value] = event.producer, len(self._sent)

    def _acknowledge(self, event: Acknowledged) -> None:
        self._acknowledged.setdefault(event.partition.topic, {})[event.value] = event.partition

    def _remade(self, event: Remade) -> None:
        self._old[event.topic] = set(self._acknowledged.get(event.topic, ()))
        self._since.pop(event.topic, None)

    def _agreed(self, event: Agreed) -> None:
        self._since[event.topic] = len(self._sent)

    def _kept(self, event: KeptAnew) -> None:
        topic = event.partition.topic
        last: dict[str, tuple[int, bytes]] = {}
        for offset, value in event.records:
            where = f"{value!r} at {event.partition} offset {offset}"
            if value in self._old.get(topic, ()):
                raise Broken(f"anew: {where} was acknowledged before this topic was made")
            producer, number = self._sent[value]
            before = last.get(producer)
            if before is not None and number <= before[0]:
                raise Broken(f"anew: {where} stands behind {before[1]!r}, which was sent after it, or is the same")
            last[producer] = number, value
        since, kept = self._since.get(topic, len(self._sent)), {value for _, value in event.records}
        for value, partition in self._acknowledged.get(topic, {}).items():
            if partition == event.partition and self._sent[value][1] >= since and value not in kept:
                raise Broken(f"anew: {value!r}, acknowledged, is not in {partition}, which all brokers knew by then")

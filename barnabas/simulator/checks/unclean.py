"""Unclean: what an unclean election may take, and what it may not.

acknowledged before all brokers knew of the last one    may be lost
sent after that, and acknowledged                       is there
what one producer has sent to a partition               there in the order of sending, each at most once
sent and not acknowledged when another leads so         perhaps there twice: refused by one that lacks what came
                                                        before, it comes under a new epoch to one that has it
replicas, when all is healed                            the same batches, whatever each of them had before

Without such an election nothing is lost.
"""

from __future__ import annotations

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check
from barnabas.simulator.history import Acknowledged, Certain, Copied, KeptUncertain, Sent, Uncertain
from barnabas.simulator.world import Broken


class Unclean(Check):
    """Records by partition and value."""

    def __init__(self) -> None:
        self._sent: dict[bytes, tuple[str, int]] = {}
        self._under_way: dict[TopicPartition, set[bytes]] = {}
        self._twice: set[bytes] = set()
        self._acknowledged: dict[TopicPartition, list[bytes]] = {}
        self._since: dict[TopicPartition, int] = {}
        self._copies: dict[TopicPartition, Copied] = {}
        self.rules = {
            Sent: self._send,
            Acknowledged: self._acknowledge,
            Uncertain: self._uncertain,
            Certain: self._certain,
            KeptUncertain: self._kept,
            Copied: self._copied,
        }

    def _send(self, event: Sent) -> None:
        self._sent[event.value] = event.producer, len(self._sent)
        self._under_way.setdefault(event.partition, set()).add(event.value)

    def _acknowledge(self, event: Acknowledged) -> None:
        self._acknowledged.setdefault(event.partition, []).append(event.value)
        self._under_way.get(event.partition, set()).discard(event.value)

    def _uncertain(self, event: Uncertain) -> None:
        self._since[event.partition] = -1
        self._twice |= self._under_way.get(event.partition, set())

    def _certain(self, event: Certain) -> None:
        self._since[event.partition] = len(self._sent)

    def _kept(self, event: KeptUncertain) -> None:
        last: dict[str, tuple[int, bytes]] = {}
        once: set[bytes] = set()
        for offset, value in event.records:
            producer, number = self._sent[value]
            before = last.get(producer)
            if before is not None and number <= before[0]:
                if value in once and value in self._twice:
                    continue
                where = f"{value!r} at {event.partition} offset {offset}"
                raise Broken(f"unclean: {where} stands behind {before[1]!r}, which was sent after it, or is the same")
            last[producer] = number, value
            once.add(value)
        since, kept = self._since.get(event.partition, 0), {value for _, value in event.records}
        if since < 0:  # some do not know of it: they may write what nobody keeps
            return
        for value in self._acknowledged.get(event.partition, ()):
            if self._sent[value][1] >= since and value not in kept:
                raise Broken(f"unclean: {value!r}, acknowledged, is not in {event.partition}, and nobody took it away")

    def _copied(self, event: Copied) -> None:
        first = self._copies.setdefault(event.partition, event)
        if first.batches != event.batches:
            at = next(
                (one for one, other in zip(first.batches, event.batches, strict=False) if one != other), "the end"
            )
            raise Broken(
                f"unclean: {event.broker} has other batches of {event.partition} than {first.broker}, from {at} on"
            )

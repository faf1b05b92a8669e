"""Minimum: nothing is committed while fewer replicas are in sync than `min.insync.replicas` asks for (KIP-966).

Who leads, with too few, may hear in the same turn of what the leader before him has committed: that is nothing new.
Nor does he commit with too few who hears in one turn that others are in sync, and no more, or who commits and hears in
the same turn that they are not, in a new epoch even. Who hears of both at once finds the ISR as it was.
"""

from __future__ import annotations

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.checks import Check
from barnabas.simulator.history import Decided, Gone, Led, Looked
from barnabas.simulator.world import Broken


class Minimum(Check):
    """A leader commits what nobody had under an ISR that is large enough, or was since it was last looked at."""

    def __init__(self) -> None:
        self._led: dict[tuple[str, TopicPartition], tuple[int, Led]] = {}
        """How many were in sync at most in the turn that is being looked at, and who is now."""
        self._stands: dict[tuple[str, TopicPartition], tuple[int, int]] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int] = {}
        self._decided: dict[tuple[str, TopicPartition], int] = {}
        """The largest ISR that a leader was to hear of since he was last seen to hear of one."""
        self._passed: dict[tuple[str, TopicPartition], int] = {}
        """The largest that he may have heard of, where he finds it as it was, for it was passed over: good for once."""
        self.rules = {Decided: self._decides, Led: self._leads, Looked: self._looked, Gone: self._gone}

    def _decides(self, event: Decided) -> None:
        key = event.leader, event.partition
        before, self._epochs[event.partition] = self._epochs.get(event.partition, -1), event.partition_epoch
        # Where who decides has passed over some in one turn, all may have been in sync between.
        most = event.isr
        if event.partition_epoch > before + 1:
            most = event.replicas
            self._passed[key] = len(most)
        self._decided[key] = max(self._decided.get(key, 0), len(most))

    def _leads(self, event: Led) -> None:
        key = event.broker, event.partition
        most, before = self._led.get(key, (0, event))
        most = most if before.incarnation == event.incarnation else 0
        self._led[key] = max(most, len(event.isr), self._decided.pop(key, 0)), event
        self._passed.pop(key, None)

    def _gone(self, event: Gone) -> None:
        self._stands.pop((event.broker, event.partition), None)

    def _looked(self, event: Looked) -> None:
        key = event.broker, event.partition
        incarnation, before = self._stands.get(key, (0, 0))
        self._stands[key] = event.incarnation, event.high_watermark
        committed = self._committed.get(event.partition, 0)
        self._committed[event.partition] = max(committed, event.high_watermark)
        most, led = self._led.get(key, (0, None))
        if led is None or led.incarnation != event.incarnation:
            return
        rose = incarnation == event.incarnation and event.high_watermark > max(before, committed)
        if led.leads and rose and most < led.least and self._passed.pop(key, 0) < led.least:
            raise Broken(
                f"minimum: {event.broker} commits {event.partition} up to {event.high_watermark}, and its ISR is "
                f"{led.isr}, below {led.least}"
            )
        self._led[key] = len(led.isr), led

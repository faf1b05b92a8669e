"""Apart: who lost power with records that no sync had covered, until it is in sync again.

Its high watermark may have been synced, and its log not: what it has below is what others have only when it has been
cut where their logs part, and the high watermark falls with that.
"""

from __future__ import annotations

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.history import Decided, PowerLost


class Apart:
    """`(broker, partition) in apart`; it is to hear of `PowerLost` and `Decided`."""

    def __init__(self) -> None:
        self._back: dict[str, set[TopicPartition]] = {}
        """Who lost power, and of which partitions it has been in sync since."""
        self._isr: dict[TopicPartition, frozenset[str]] = {}

    def __contains__(self, log: tuple[str, TopicPartition]) -> bool:
        broker, partition = log
        back = self._back.get(broker)
        return back is not None and partition not in back and broker not in self._isr.get(partition, ())

    def lost_power(self, event: PowerLost) -> None:
        """Where all was synced, nothing is another than it was."""
        if not event.synced:
            self._back[event.broker] = set()

    def decided(self, event: Decided) -> frozenset[str]:
        """Who is in sync again."""
        now = frozenset(event.isr)
        joined = now - self._isr.get(event.partition, frozenset())
        self._isr[event.partition] = now
        for one in joined:
            if one in self._back:
                self._back[one].add(event.partition)
        return joined

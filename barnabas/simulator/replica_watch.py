"""What is looked at of replicas after each turn: who leads, what is committed, what leaders count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from barnabas.broker.log import Log
from barnabas.broker.node.core import Core
from barnabas.broker.replica.partition import Partition
from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.broker import BrokerProcess
from barnabas.simulator.decision_watch import names
from barnabas.simulator.history import Committed, Counted, Epochs, Led, Tell
from barnabas.simulator.sight import Sight, epochs_of, synced_end

Peers = Callable[[int], BrokerProcess]
_NOTHING: Final[dict[int, int]] = {}


class ReplicaWatch:
    """Looks at one broker, in one of its lives."""

    def __init__(self, tell: Tell, peers: Peers | None = None) -> None:
        """`peers`: the brokers by node id, where every acknowledgement waits for its sync."""
        self._tell = tell
        self._peers = peers
        self._counted: dict[TopicPartition, dict[int, int]] = {}
        """Of each partition that it leads the ends that it counts, by follower."""
        self._sights: dict[TopicPartition, Sight] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, tuple[int, int, int]] = {}
        self._led: dict[TopicPartition, tuple[Partition, int, tuple[int, ...]]] = {}

    def forget(self, key: TopicPartition) -> None:
        """The replica was deleted."""
        for known in (self._sights, self._ends, self._epochs):
            known.pop(key, None)

    def moved(self, broker: BrokerProcess, core: Core, key: TopicPartition, log: Log) -> None:
        """The log's high watermark, or its end, is another one. Batches of a compacted one need not stay."""
        end, before = log.log_end_offset, self._ends.get(key, 0)
        self._ends[key] = end
        broker.machine.world.count("logs cut", end < before)
        if "compact" in log.config.cleanup_policy:
            return
        named = broker.machine.world.incarnations.key(log.topic_id, key)
        sight = self._sights.setdefault(key, Sight())
        if log.log_end_offset < sight.next_offset:  # an unclean election took what was committed
            sight = self._sights[key] = Sight()
        if log.high_watermark > sight.next_offset:
            for header, _ in sight.up_to(broker.device, log, log.high_watermark):
                base, last, epoch = header.base_offset, header.last_offset, header.leader_epoch
                self._tell(Committed(broker.name, broker.incarnation, named, base, last, epoch, header.crc))
        told = (len(log.epochs), log.epochs.latest, log.cuts)
        known = self._epochs.get(key)
        if known != told:
            self._epochs[key] = told
            partition = core.replicas.hosted.online.get(key)
            leads = partition.leader_epoch if partition is not None and partition.is_leader else -1
            is_cut = known is not None and known[2] != log.cuts
            found = epochs_of(broker.device, log)
            self._tell(Epochs(broker.name, named, end, tuple(log.epochs.entries), found, is_cut, leads))

    def look(self, broker: BrokerProcess, core: Core) -> list[TopicPartition]:
        """A turn is over; gives the partitions of which `Led` was told."""
        told: list[TopicPartition] = []
        me, led, incarnations = broker.node_id, self._led, broker.machine.world.incarnations
        counts = self._peers is not None
        for key, partition in core.replicas.hosted.online.items():
            if partition.leader_id != me:
                if key in led:
                    del led[key]
                    told.append(key)
                    named = incarnations.key(partition.topic_id, key)
                    self._tell(Led(broker.name, broker.incarnation, named, partition.leader_epoch, (), 0, leads=False))
                continue
            if counts:
                known = self._counted.get(key, _NOTHING)
                remotes = partition.remotes
                if len(known) != len(remotes):
                    self._look_at_counted(broker, key, partition)
                else:
                    for follower, remote in remotes.items():
                        if known.get(follower) != remote.end.offset:
                            self._look_at_counted(broker, key, partition)
                            break
            stands = (partition, partition.leader_epoch, partition.isr.committed)
            if led.get(key) != stands:
                led[key] = stands
                told.append(key)
                isr, least = names(partition.isr.committed), partition.effective_min_isr
                named = incarnations.key(partition.topic_id, key)
                self._tell(Led(broker.name, broker.incarnation, named, partition.leader_epoch, isr, least))
        return told

    def _look_at_counted(self, broker: BrokerProcess, key: TopicPartition, partition: Partition) -> None:
        """What a leader has heard of its followers' ends; of those that are away or were cut since nothing is told."""
        assert self._peers is not None
        ends = {follower: remote.end.offset for follower, remote in partition.remotes.items()}
        known = self._counted.get(key, _NOTHING)
        self._counted[key] = ends
        for follower, end in ends.items():
            if known.get(follower) == end:
                continue
            peer = self._peers(follower)
            log = None if peer.core is None else peer.core.logs.logs.get(key)
            if log is not None and log.topic_id == partition.topic_id and log.log_end_offset >= end > 0:
                named = broker.machine.world.incarnations.key(log.topic_id, key)
                self._tell(Counted(broker.name, named, peer.name, end, synced_end(peer.device, log)))

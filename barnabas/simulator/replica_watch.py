"""What is looked at of replicas after each turn: who leads, what is committed, what the controller decides."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from barnabas.broker.log import Log
from barnabas.broker.node.core import Core
from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.broker import BrokerProcess
from barnabas.simulator.history import Committed, Counted, Decided, Epochs, Event, Led, Registered
from barnabas.simulator.sight import Sight, epochs_of, synced_end

Peers = Callable[[int], BrokerProcess]


class ReplicaWatch:
    """Looks at one broker, in one of its lives."""

    def __init__(self, tell: Callable[[Event], None], peers: Peers | None = None) -> None:
        """`peers`: the brokers by node id, where every acknowledgement waits for its sync."""
        self._tell = tell
        self._peers = peers
        self._counted: dict[tuple[TopicPartition, int], int] = {}
        self._registered: dict[int, int] = {}
        self._sights: dict[TopicPartition, Sight] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, tuple[int, int, int]] = {}
        self._led: dict[TopicPartition, tuple[int, tuple[int, ...]]] = {}
        self._fencings = (0, 0)
        self._alive: tuple[str, ...] = ()
        self._unfenced: list[int] = []
        self._decided: dict[TopicPartition, Decided] = {}

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
        sight = self._sights.setdefault(key, Sight())
        if log.high_watermark > sight.next_offset:
            for header in sight.up_to(broker.device, log, log.high_watermark):
                base, last, epoch = header.base_offset, header.last_offset, header.leader_epoch
                self._tell(Committed(broker.name, broker.incarnation, key, base, last, epoch, header.crc))
        told = (len(log.epochs), log.epochs.latest, log.cuts)
        known = self._epochs.get(key)
        if known != told:
            self._epochs[key] = told
            partition = core.replicas.hosted.online.get(key)
            leads = partition.leader_epoch if partition is not None and partition.is_leader else -1
            is_cut = known is not None and known[2] != log.cuts
            found = epochs_of(broker.device, log)
            self._tell(Epochs(broker.name, key, end, tuple(log.epochs.entries), found, is_cut, leads))

    def look(self, broker: BrokerProcess, core: Core) -> None:
        """A turn is over."""
        if self._peers is not None:
            self._look_at_counted(broker, core, self._peers)
        me = broker.node_id
        for key, partition in core.replicas.hosted.online.items():
            if partition.leader_id != me:
                if self._led.pop(key, None) is not None:
                    self._tell(Led(broker.name, broker.incarnation, key, partition.leader_epoch, (), 0, leads=False))
                continue
            stands = (partition.leader_epoch, partition.isr.committed)
            if self._led.get(key) != stands:
                self._led[key] = stands
                isr, least = _names(partition.isr.committed), partition.effective_min_isr
                self._tell(Led(broker.name, broker.incarnation, key, partition.leader_epoch, isr, least))

    def _look_at_counted(self, broker: BrokerProcess, core: Core, peers: Peers) -> None:
        """What a leader has heard of its followers' ends; of those that are away or were cut since nothing is told."""
        for key, partition in core.replicas.hosted.online.items():
            for follower, remote in partition.remotes.items():
                end = remote.end.offset
                if self._counted.get((key, follower)) == end:
                    continue
                self._counted[key, follower] = end
                peer = peers(follower)
                log = None if peer.core is None else peer.core.logs.logs.get(key)
                if log is not None and log.log_end_offset >= end > 0:
                    self._tell(Counted(broker.name, key, peer.name, end, synced_end(peer.device, log)))

    def look_at_decisions(self, broker: BrokerProcess, core: Core) -> None:
        """A turn of the controller is over."""
        if core.member is not None:
            return
        back: list[Registered] = []
        unfenced = [one.broker_id for one in core.image.brokers.values() if not one.fenced]
        alive = self._alive if unfenced == self._unfenced else _names(sorted(unfenced))
        self._unfenced = unfenced
        if self._alive != alive:
            gone, self._alive = [one for one in self._alive if one not in alive], alive
            broker.machine.world.count("brokers fenced", len(gone))
        for one in core.image.brokers.values():
            if self._registered.get(one.broker_id) != one.broker_epoch:
                self._registered[one.broker_id] = one.broker_epoch
                back.append(Registered(_names([one.broker_id])[0], one.broker_epoch))
        members = core.services.members
        fencings = (0, 0) if members is None else (members.fenced_gone, members.fenced_silent)
        if fencings != self._fencings:
            for what, count, known in zip(("evidence", "timeout"), fencings, self._fencings, strict=True):
                broker.machine.world.count(f"fencings by {what}", count - known)
            self._fencings = fencings
        for topic in core.image.topics.values():
            for number, state in topic.partitions.items():
                key = topic.keys[number]
                before = self._decided.get(key)
                if (
                    before is not None
                    and before.partition_epoch == state.partition_epoch
                    and before.leader_epoch == state.leader_epoch
                    and (before.alive is alive or before.alive == alive)
                ):
                    continue
                epochs = (state.leader_epoch, state.partition_epoch)
                leader = _names([state.leader])[0] if state.leader > 0 else ""
                others = _names(state.elr), _names(state.last_known)
                now = Decided(key, leader, *epochs, _names(state.replicas), _names(state.isr), alive, *others)
                self._decided[key] = now
                self._tell(now)
                if before is not None:
                    _count(broker, before, now)
        for registered in back:  # behind what it has led to
            self._tell(registered)


def _count(broker: BrokerProcess, before: Decided, now: Decided) -> None:
    world = broker.machine.world
    world.count("ISR shrinks", len(now.isr) < len(before.isr))
    world.count("ISR expansions", len(now.isr) > len(before.isr))
    world.count("elections", now.leader not in ("", before.leader))
    world.count("partitions that lose their leader", not now.leader and bool(before.leader))
    world.count("ISRs below the minimum", len(now.isr) == 1 < len(before.isr))
    world.count("elections of an eligible leader", now.leader in before.elr and not before.isr)


def _names(node_ids: Iterable[int]) -> tuple[str, ...]:
    return tuple(f"broker{one}" for one in node_ids)

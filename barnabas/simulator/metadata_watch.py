"""What is looked at of the quorum of controllers, and of the metadata that it commits.

What any of them has committed is read off its disk, batch by batch, and makes the one image that decisions are seen in:
each in its order, and before anybody can act on it.
"""

from __future__ import annotations

from hashlib import blake2b

from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.records import decode
from barnabas.broker.config.topics import METADATA_TOPIC
from barnabas.broker.node.core import Core
from barnabas.broker.node.voter import Voter
from barnabas.broker.raft.raft import Raft, Role
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import decode_records
from barnabas.simulator.broker import BrokerProcess
from barnabas.simulator.decision_watch import DecisionWatch, FencingWatch
from barnabas.simulator.history import Counted, Elected, Imaged, Parted, Raised, Recorded, Stands, Tell
from barnabas.simulator.replica_watch import Peers
from barnabas.simulator.sight import Sight, synced_end
from barnabas.simulator.world import World

METADATA = TopicPartition(METADATA_TOPIC, 0)


class MetadataWatch:
    """Looks at all controllers of a run, a quorum or one alone.

    Attributes:
        image: all that is committed by a quorum; empty where one controller decides alone.
    """

    def __init__(self, world: World, tell: Tell, peers: Peers) -> None:
        self.image = Image()
        self._world = world
        self._tell = tell
        self._peers = peers
        self._end = 0
        self._decisions = DecisionWatch(world, tell)
        self._fencings = FencingWatch(world)
        self._lives: dict[str, _Life] = {}

    def look(self, broker: BrokerProcess, core: Core) -> None:
        """A turn of a broker is over."""
        life = self._lives.get(broker.name)
        if life is None or life.incarnation != broker.incarnation:
            life = self._lives[broker.name] = _Life(broker, self._tell)
        if core.member is None:  # it stands alone, or is the only controller, which may decide before its logs are open
            if core.ready or core.services.members is not None:
                self._alone(broker, core)
            return
        self._fencings.look(core.services.members)
        voter = core.voter
        if voter is not None and voter.raft is not None:
            if voter.log.log.high_watermark > life.sight.next_offset:
                self._committed(life, broker, voter, voter.raft.epoch)
            life.look(broker, voter, voter.raft, self._peers)
        life.look_at_image(broker, core)

    def _alone(self, broker: BrokerProcess, core: Core) -> None:
        if self._end != broker.incarnation:
            self._end, self._decisions = broker.incarnation, DecisionWatch(self._world, self._tell)
        self._decisions.look(core.image)
        self._fencings.look(core.services.members)

    def _committed(self, life: _Life, broker: BrokerProcess, voter: Voter, term: int) -> None:
        committed = voter.log.committed
        last_term = -1
        for header, data in life.sight.up_to(broker.device, voter.log.log, committed):
            base, last, last_term = header.base_offset, header.last_offset, header.leader_epoch
            self._tell(Recorded(broker.name, broker.incarnation, base, last, last_term, header.crc, term))
            if base == self._end:
                self.image.apply(decode(record.value or b"") for record in decode_records(data, 0))
                self._end = header.next_offset
                self._decisions.look(self.image)
            elif base > self._end:
                self._world.fail(f"metadata: {broker.name} has committed offset {base}, and nobody {self._end}")
        if life.leads and last_term >= 0:
            self._tell(Raised(broker.name, life.term, last_term))


class _Life:
    """What was seen of one life of one broker."""

    def __init__(self, broker: BrokerProcess, tell: Tell) -> None:
        self.incarnation = broker.incarnation
        self.sight = Sight()
        self.term = -1
        self.leads = False
        self._world = broker.machine.world
        self._tell = tell
        self._role = Role.UNATTACHED
        self._stands = (0, 0, 0)
        self._cuts = -1
        self._seen: tuple[object, ...] = ()
        self._image = -1
        self._counted: dict[int, int] = {}
        self._parted = False

    def look(self, broker: BrokerProcess, voter: Voter, raft: Raft, peers: Peers) -> None:
        """A turn is over."""
        log = voter.log.log
        seen = raft.role, raft.kept.epoch, voter.log.start.end, log.high_watermark, log.log_end_offset, log.cuts
        if seen != self._seen or self.leads is not (raft.leading is not None):
            self._seen = seen
            self._changed(broker, voter, raft)
        if raft.leading is not None and raft.leading.ends != self._counted:
            self._look_at_counted(broker, raft.leading.ends, peers)
        if raft.fault is not None:
            self._part(broker, raft.fault)

    def _changed(self, broker: BrokerProcess, voter: Voter, raft: Raft) -> None:
        log = voter.log
        leads, begun = raft.leading is not None, log.log.epochs.latest == raft.epoch
        if leads and begun and (not self.leads or self.term != raft.epoch):
            self._world.count("controller elections")
            start = log.log.epochs.entries[-1][1]
            self._tell(Elected(broker.name, broker.incarnation, raft.epoch, start))
            self._counted.clear()
        self._world.count("controllers that resign", raft.role is Role.RESIGNED and self._role is Role.LEADER)
        self.leads, self.term, self._role = leads, raft.epoch, raft.role
        stands = (log.start.end, log.committed, log.log.log_end_offset)
        begins_anew = self._stands[2] < stands[0]
        self._world.count("snapshots of metadata installed", begins_anew and self._cuts >= 0)
        self._world.count("cuts of the metadata log", log.log.cuts > self._cuts >= 0 and not begins_anew)
        self._cuts = log.log.cuts
        if stands != self._stands:
            self._stands = stands
            self._tell(Stands(broker.name, *stands))

    def _look_at_counted(self, broker: BrokerProcess, ends: dict[int, int], peers: Peers) -> None:
        for node_id, end in ends.items():
            if self._counted.get(node_id) == end:
                continue
            self._counted[node_id] = end
            peer = peers(node_id)
            voter = None if peer.core is None else peer.core.voter
            if voter is not None and voter.raft is not None and voter.log.log.log_end_offset >= end > 0:
                synced = max(synced_end(peer.device, voter.log.log), voter.log.start.end)
                self._tell(Counted(broker.name, METADATA, peer.name, end, synced))

    def look_at_image(self, broker: BrokerProcess, core: Core) -> None:
        """The broker's own image may have more."""
        assert core.member is not None
        observer = core.member.observer
        if observer.fault is not None:
            self._part(broker, observer.fault)
        if observer.end_offset != self._image:
            self._image = observer.end_offset
            told = sorted(f"{type(one).__name__} {one}" for one in observer.image.to_records())
            digest = blake2b("\n".join(told).encode(), digest_size=8).hexdigest()
            self._tell(Imaged(broker.name, observer.end_offset, digest))

    def _part(self, broker: BrokerProcess, fault: Exception) -> None:
        faults = broker.device.faults
        if not (self._parted or faults.broken):
            self._parted = True
            self._tell(Parted(broker.name, str(fault)))

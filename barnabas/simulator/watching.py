"""What is looked at while a run goes on: partitions and parked operations after each turn, frames on the wire."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, Final

from barnabas.broker.delayed import DelayedOperation
from barnabas.broker.log import Log
from barnabas.broker.node.core import Core
from barnabas.broker.node.startup import Phase
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.kafka import codec
from barnabas.simulator.broker import BrokerProcess
from barnabas.simulator.group_watch import GroupWatch, OffsetFrames
from barnabas.simulator.history import Answered, Asked, Completed, Gone, Looked, Parked, Tell
from barnabas.simulator.metadata_watch import MetadataWatch
from barnabas.simulator.proposal_watch import ProposalFrames
from barnabas.simulator.replica_watch import Peers, ReplicaWatch
from barnabas.simulator.vote_watch import VoteFrames
from barnabas.simulator.wire import Wire
from barnabas.simulator.world import World

_LOOKED_AT: Final = (Phase.HOSTING, Phase.READY, Phase.STOPPING)
"""A broker follows as soon as its logs are open, which is before it takes part, and goes on while it stops."""
RECOGNISED: Final = "retries recognised after a failover"
NEVER_MS: Final = 2**62
_LENGTH: Final = Struct(">i")
_REQUEST: Final = Struct(">hhi")  # API key | version | correlation id
_CORRELATION: Final = Struct(">i")
COUNTED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    }
)
"""Errors that replicas lead to; a search is to meet each of them."""


class BrokerWatch:
    """Looks at one broker after each of its turns, and tells of what has changed."""

    def __init__(self, tell: Tell, metadata: MetadataWatch, peers: Peers | None = None) -> None:
        """`metadata` looks at all brokers; `peers` as in `ReplicaWatch`."""
        self._tell = tell
        self._metadata = metadata
        self._peers = peers
        self._incarnation = 0
        self._stands: dict[TopicPartition, tuple[int, int]] = {}
        self._logs: dict[TopicPartition, Log] = {}
        self._replicas = ReplicaWatch(tell, peers)
        self._groups = GroupWatch(tell)
        self._parked: dict[DelayedOperation, int] = {}
        self._count = 0
        self._counts: list[tuple[int, int]] = []
        self._due_ms = 0
        self._knows_losses = False

    def look(self, broker: BrokerProcess) -> None:
        """A turn is over."""
        core = broker.core
        if core is None or core.phase is Phase.NEW:
            return
        if broker.incarnation != self._incarnation:
            self._incarnation = broker.incarnation
            self._stands.clear()
            self._logs.clear()
            self._replicas = ReplicaWatch(self._tell, self._peers)
            self._groups = GroupWatch(self._tell)
            self._parked.clear()
            self._counts = []
            self._knows_losses = False
        self._metadata.look(broker, core)  # first: an ISR that is smaller lets more be committed
        if core.phase not in _LOOKED_AT:
            return
        if core.ready:
            if not self._knows_losses:
                self._knows_losses = True
                broker.machine.world.count("starts that found a loss", core.logs.losses.count > 0)
            self._groups.look(broker, core)
        if core.phase is not Phase.HOSTING:  # while it stops it leads until the others have taken over
            self._replicas.look(broker, core)
        known, open_logs = self._stands, self._logs
        if len(open_logs) > len(core.logs.logs):
            for partition in [one for one in open_logs if one not in core.logs.logs]:
                self._forget(broker, partition)
        for partition, log in core.logs.logs.items():
            if open_logs.get(partition) is not log:
                self._forget(broker, partition)
                open_logs[partition] = log
            stands = (log.high_watermark, log.log_end_offset)
            if known.get(partition) != stands:
                known[partition] = stands
                self._tell(Looked(broker.name, self._incarnation, partition, *stands))
                self._replicas.moved(broker, core, partition, log)
        self._look_at_parked(broker, core)

    def _forget(self, broker: BrokerProcess, partition: TopicPartition) -> None:
        if self._logs.pop(partition, None) is not None:
            self._stands.pop(partition, None)
            self._replicas.forget(partition)
            broker.machine.world.count("replicas deleted")
            self._tell(Gone(broker.name, partition))

    def _look_at_parked(self, broker: BrokerProcess, core: Core) -> None:
        now_ms = broker.machine.clock.mono_ns() // 1_000_000
        counts = [(one.timer.size, one.estimated_total) for one in core.replicas.shared.purgatories]
        if counts == self._counts and now_ms < self._due_ms:
            return  # nobody came, nobody went, nobody is late
        self._counts = counts
        waiting: dict[DelayedOperation, None] = {}
        for purgatory in core.replicas.shared.purgatories:
            waiting.update((one, None) for one in purgatory.timer.tasks() if isinstance(one, DelayedOperation))
        for operation in [one for one in self._parked if one not in waiting]:
            number = self._parked.pop(operation)
            broker.machine.world.count("operations that expired", operation.deadline_ms <= now_ms)
            self._tell(Completed(broker.name, self._incarnation, number, operation.completed))
        for operation in waiting:
            if operation not in self._parked:
                self._count += 1
                broker.machine.world.count("operations parked")
                self._parked[operation] = self._count
            elif operation.deadline_ms >= now_ms:
                continue
            number = self._parked[operation]
            self._tell(Parked(broker.name, self._incarnation, number, operation.deadline_ms, now_ms))
        self._due_ms = min((one.deadline_ms for one in waiting), default=NEVER_MS)


class FrameWatch:
    """Cuts what a broker reads and writes into frames, tells of each, and counts the errors that brokers answer."""

    def __init__(self, world: World, tell: Tell, offsets: OffsetFrames, peers: Peers) -> None:
        self._world = world
        self._tell = tell
        self._offsets = offsets
        self._asked: dict[tuple[str, int], tuple[int, int]] = {}
        self._begun: dict[tuple[str, bool], bytearray] = {}
        self._proposals = ProposalFrames(world, tell)
        self._votes = VoteFrames(world, tell, peers)
        self._lives: dict[bytes, int] = {}

    def tap(self, wire: Wire, read: bool, data: bytes) -> None:
        """Bytes of one direction, in order."""
        begun = self._begun.setdefault((wire.name, read), bytearray())
        begun += data
        told = self._read if read else self._written
        at = 0
        while len(begun) - at >= _LENGTH.size:
            end = at + _LENGTH.size + _LENGTH.unpack_from(begun, at)[0]
            if end > len(begun):
                break
            told(wire.name, bytes(begun[at + _LENGTH.size : end]))
            at = end
        del begun[:at]

    def _read(self, name: str, frame: bytes) -> None:
        key, version, correlation_id = _REQUEST.unpack_from(frame)
        if key in (ApiKey.PRODUCE, ApiKey.FETCH):
            self._asked[name, correlation_id] = key, version
        elif key in OffsetFrames.KEYS:
            self._offsets.read(name, frame)
        elif key == ApiKey.ALTER_PARTITION:
            self._proposals.read(name, frame)
        elif key == ApiKey.VOTE:
            self._votes.read(name, frame)
        elif key == ApiKey.BROKER_REGISTRATION:
            self._registers(frame)
        self._tell(Asked(name, correlation_id))

    def _registers(self, frame: bytes) -> None:
        _, request = codec.decode_request(memoryview(frame))
        if request.incarnation_id not in self._lives:  # it may ask again
            self._lives[request.incarnation_id] = request.broker_id
            before = sum(1 for one in self._lives.values() if one == request.broker_id) > 1
            self._world.count("returns with proof", before and request.previous_broker_epoch >= 0)
            self._world.count("returns without proof", before and request.previous_broker_epoch < 0)

    def _written(self, name: str, frame: bytes) -> None:
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        asked = self._asked.pop((name, correlation_id), None)
        writes = False
        if asked is not None:
            writes = asked[0] == ApiKey.PRODUCE
            _, response = codec.decode_response(*asked, memoryview(frame))
            if asked[0] == ApiKey.PRODUCE:
                self._world.count(RECOGNISED, sum(1 for _ in self._recognised(name, response)))
            for code in _errors(response):
                if code in COUNTED:
                    self._world.count(f"error {code} {ErrorCode(code).name}")
        else:
            writes = self._offsets.written(name, correlation_id, frame)
            self._proposals.written(name, correlation_id, frame, self._offsets)
            self._votes.written(name, correlation_id, frame)
        self._tell(Answered(name, correlation_id, writes))

    def _recognised(self, name: str, response: Any) -> Iterator[int]:
        """Offsets below the leader's epoch: another leader has written there, and this one knows it."""
        core = self._offsets.core(name)
        assert core is not None
        for topic in response.responses:
            known = core.image.topics_by_id.get(topic.topic_id)
            for part in topic.partition_responses:
                key = TopicPartition(known.name if known is not None else topic.name, part.index)
                hosted = core.replicas.hosted.online.get(key)
                if hosted is not None and hosted.is_leader and 0 <= part.base_offset < hosted.epoch_start_offset:
                    yield part.base_offset


def _errors(response: Any) -> Iterator[int]:
    for topic in response.responses:
        for part in getattr(topic, "partition_responses", None) or topic.partitions:
            yield part.error_code

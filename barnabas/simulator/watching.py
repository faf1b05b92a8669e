"""What is looked at while a run goes on: partitions after each turn of a broker, frames on the wire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from struct import Struct
from typing import Any, Final

from barnabas.broker.config.topics import METADATA_TOPIC_ID
from barnabas.broker.log import Log
from barnabas.broker.node.core import Core
from barnabas.broker.node.startup import Phase
from barnabas.broker.replica.damage import NOT_HERE
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.kafka import codec
from barnabas.simulator.broker import BrokerProcess
from barnabas.simulator.group_watch import GroupWatch, OffsetFrames
from barnabas.simulator.history import Answered, Asked, Gone, Looked, Tell
from barnabas.simulator.memory_watch import MemoryWatch
from barnabas.simulator.metadata_watch import MetadataWatch
from barnabas.simulator.parked_watch import ParkedWatch
from barnabas.simulator.proposal_watch import ProposalFrames
from barnabas.simulator.replica_watch import Peers, ReplicaWatch
from barnabas.simulator.vote_watch import VoteFrames
from barnabas.simulator.wire import Wire
from barnabas.simulator.world import World

_LOOKED_AT: Final = (Phase.HOSTING, Phase.READY, Phase.STOPPING)
"""A broker follows as soon as its logs are open, which is before it takes part, and goes on while it stops."""
_UNSEEN: Final = (None, -1, -1)
_FROM_ITS_LEADER: Final = NOT_HERE.partition("{")[0]
RECOGNISED: Final = "retries recognised after a failover"
PARTED: Final = "followers told where their logs part"
_LENGTH: Final = Struct(">i")
_REQUEST: Final = Struct(">hhi")  # API key | version | correlation id
_CORRELATION: Final = Struct(">i")
_OF_RECORDS: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
_SMALL_BYTES: Final = 500
"""Answers that may come again in the same words."""
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
        self._seen: dict[TopicPartition, tuple[Log, int, int]] = {}
        """Of each partition its log, its high watermark and its end."""
        self._replicas = ReplicaWatch(tell, peers)
        self._groups = GroupWatch(tell)
        self._parked = ParkedWatch(tell)
        self._memory = MemoryWatch(tell)
        self._knows_losses = False
        self._losses = 0

    def look(self, broker: BrokerProcess) -> None:
        """A turn is over."""
        core = broker.core
        if core is None or core.phase is Phase.NEW:
            return
        if broker.incarnation != self._incarnation:
            self._incarnation = broker.incarnation
            self._seen.clear()
            self._replicas = ReplicaWatch(self._tell, self._peers)
            self._groups = GroupWatch(self._tell)
            self._parked.begin()
            self._memory = MemoryWatch(self._tell)
            self._knows_losses = False
            self._losses = 0
        self._metadata.look(broker, core)  # first: an ISR that is smaller lets more be committed
        if core.phase not in _LOOKED_AT:
            return
        if core.ready:
            if not self._knows_losses:
                self._knows_losses = True
                found = core.logs.losses.count > 0
                broker.machine.world.count("starts that found a loss", found)
                broker.machine.world.count("flips found", found and broker.flipped)
                broker.flipped = False
            self._groups.look(broker, core)
        led: list[TopicPartition] = []
        if core.phase is not Phase.HOSTING:  # while it stops it leads until the others have taken over
            led = self._replicas.look(broker, core)
        seen, logs = self._seen, core.logs.logs
        rose: list[TopicPartition] = []
        if len(seen) > len(logs):
            for partition in [one for one in seen if one not in logs]:
                self._forget(broker, partition)
        for partition, log in logs.items():
            known, watermark, end = seen.get(partition, _UNSEEN)
            if known is log and end == log.log_end_offset and watermark == log.high_watermark and partition not in led:
                continue
            if known is not log:
                self._forget(broker, partition)
            elif log.high_watermark < watermark and self._is_repaired(core, partition):
                self._replicas.forget(partition)
                self._tell(Gone(broker.name, broker.machine.world.incarnations.key(log.topic_id, partition)))
            stands = log.high_watermark, log.log_end_offset
            if log.high_watermark > watermark:
                rose.append(partition)
            seen[partition] = log, *stands
            key = broker.machine.world.incarnations.key(log.topic_id, partition)
            self._tell(Looked(broker.name, self._incarnation, key, *stands))
            self._replicas.moved(broker, core, partition, log)
        self._losses = core.logs.losses.count
        self._parked.look(broker, core, rose)
        self._memory.look(broker, core)

    def _is_repaired(self, core: Core, partition: TopicPartition) -> bool:
        """Whether this turn has cut a log where it was damaged, and said so: what is there comes from its leader."""
        losses, name = core.logs.losses, str(partition)
        new = list(losses.last)[-(losses.count - self._losses) :] if losses.count > self._losses else []
        return any(one.partition == name and one.reason.startswith(_FROM_ITS_LEADER) for one in new)

    def _forget(self, broker: BrokerProcess, partition: TopicPartition) -> None:
        log, _, _ = self._seen.pop(partition, _UNSEEN)
        if log is not None:
            self._replicas.forget(partition)
            world = broker.machine.world
            world.count("replicas deleted")
            self._tell(Gone(broker.name, world.incarnations.key(log.topic_id, partition)))


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
        self._readers: dict[int, Callable[[str, bytes], None]] = {
            **dict.fromkeys(OffsetFrames.KEYS, offsets.read),
            ApiKey.ALTER_PARTITION: self._proposals.read,
            ApiKey.VOTE: self._votes.read,
            ApiKey.BROKER_REGISTRATION: self._registers,
        }

    def tap(self, wire: Wire, read: bool, data: bytes) -> None:
        """Bytes of one direction, in order."""
        name = wire.name
        begun = self._begun.get((name, read))
        if begun:
            begun += data
        there = begun or data  # mostly it is one whole frame
        told = self._read if read else self._written
        at, size = 0, len(there)
        while size - at >= _LENGTH.size:
            end = at + _LENGTH.size + _LENGTH.unpack_from(there, at)[0]
            if end > size:
                break
            told(name, bytes(there[at + _LENGTH.size : end]))
            at = end
        if begun:
            del begun[:at]
        elif at < size:
            self._begun[name, read] = bytearray(data[at:])

    def _read(self, name: str, frame: bytes) -> None:
        key, version, correlation_id = _REQUEST.unpack_from(frame)
        if key in _OF_RECORDS:
            self._asked[name, correlation_id] = key, version
        elif (reader := self._readers.get(key)) is not None:
            reader(name, frame)
        self._tell(Asked(name, correlation_id))

    def _registers(self, name: str, frame: bytes) -> None:
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
            key, version = asked
            writes = key == ApiKey.PRODUCE
            if writes:
                _, response = codec.decode_response(key, version, memoryview(frame))
                self._world.count(RECOGNISED, sum(1 for _ in self._recognised(name, response)))
                told = _told(response)
            elif len(frame) > _SMALL_BYTES:
                told = _told_by(version, frame)
            else:
                told = _told_again(version, frame[_CORRELATION.size :])
            for what in told:
                self._world.count(what)
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


@lru_cache(maxsize=1000)
def _told_again(version: int, told: bytes) -> tuple[str, ...]:
    """Of an answer to Fetch without its first field: most have nothing to give, and say it in the same words."""
    return _told_by(version, bytes(_CORRELATION.size) + told)


def _told_by(version: int, frame: bytes) -> tuple[str, ...]:
    return _told(codec.decode_response(ApiKey.FETCH, version, memoryview(frame))[1])


def _told(response: Any) -> tuple[str, ...]:
    """What is to be counted of its partitions: some errors, and where a log parts from its leader's."""
    found = []
    for topic in response.responses:
        for part in getattr(topic, "partition_responses", None) or topic.partitions:
            if part.error_code in COUNTED:
                found.append(f"error {part.error_code} {ErrorCode(part.error_code).name}")
            elif getattr(part, "diverging_epoch", None) is not None and topic.topic_id != METADATA_TOPIC_ID:
                found.append(PARTED)
    return tuple(found)

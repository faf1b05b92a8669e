"""A broker's side of a snapshot of the metadata: it is taken in piece by piece, on the side, and put in force whole.

    request()        what to ask for next: the piece behind what has come
    take(answer)     a piece comes; True once it was the last
    install()        the image is what the snapshot says; the Delta is what is different by it
    let_go()         what it was before is freed

Every batch's sum is checked as it comes, and its records are compared with the image, so that no step is longer than
its piece. Until the last has come nobody sees anything of it: one that is damaged, or cut short, changes nothing.

Source: `KafkaRaftClient.handleFetchSnapshotResponse`, `MetadataLoader.handleLoadSnapshot` of Apache Kafka.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, Final

from barnabas.broker.cluster.image import BROKER_RESOURCE, TOPIC_RESOURCE, Delta, Image
from barnabas.broker.cluster.records import decode
from barnabas.broker.config.topics import METADATA_TOPIC
from barnabas.broker.jobs import Job
from barnabas.protocol.batch import batches, crc_ok
from barnabas.protocol.errors import ErrorCode, ProtocolError
from barnabas.protocol.records import decode_records
from barnabas.protocol.requests.fetch import SnapshotId as ToldId
from barnabas.protocol.requests.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    PartitionSnapshot,
    PartitionSnapshotResult,
    SnapshotId,
    TopicSnapshot,
)

PIECE_BYTES: Final = 32 * 1024
"""Of an answer. All of it is taken in within one step: 800 partitions, 10 to 20 ms on a slow core."""
LOOKED_AT_PER_STEP: Final = 1000
"""Topics, or settings of one: 2 to 5 ms."""


class SnapshotRefused(ProtocolError):
    """What came is of no use; the text says why. It is to be asked for again, from its beginning."""


class Intake:
    """One snapshot on its way to `image`, which is not to change meanwhile."""

    def __init__(self, node_id: int, cluster_id: str, told: ToldId, image: Image) -> None:
        self.end_offset = told.end_offset
        self.epoch = told.epoch
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._image = image
        self._side = Image()
        self._delta = Delta()
        self._position = 0
        self._rest = b""
        self._before: tuple[dict[Any, Any], ...] = ()

    def request(self) -> FetchSnapshotRequest:
        """Ask for the piece behind what has come."""
        part = PartitionSnapshot(0, -1, SnapshotId(self.end_offset, self.epoch), self._position)
        return FetchSnapshotRequest(
            self._cluster_id, self._node_id, PIECE_BYTES, [TopicSnapshot(METADATA_TOPIC, [part])]
        )

    def take(self, response: FetchSnapshotResponse) -> bool:
        """Take a piece in; whether it was the last.

        Raises:
            SnapshotRefused: it begins anew.
            UnknownRecord: a newer release wrote it.
        """
        piece = self._piece(response)
        records = piece.unaligned_records
        data = b"".join(records) if isinstance(records, list) else bytes(records or b"")
        if piece.position != self._position or not data or self._position + len(data) > piece.size:
            raise SnapshotRefused(f"a piece at byte {piece.position} of {piece.size} came, not at {self._position}")
        begin = self._position - len(self._rest)
        data = self._rest + data
        at = 0
        try:
            for position, size in batches(data):
                if not crc_ok(data, position, size):
                    raise SnapshotRefused(f"it is damaged at byte {begin + position}")
                self._compare([decode(one.value or b"") for one in decode_records(data, position)])
                at = position + size
        except SnapshotRefused:
            raise
        except ProtocolError as fault:
            raise SnapshotRefused(f"it is damaged at byte {begin + at}: {fault}") from fault
        self._rest = data[at:]
        self._position = begin + len(data)
        if self._position < piece.size:
            return False
        if self._rest:
            raise SnapshotRefused(f"it is cut short in the batch at byte {begin + at}")
        return True

    def install(self) -> Job[Delta]:
        """All has come: look in bounded steps what goes, and put it in force at once."""
        image, side, delta = self._image, self._side, self._delta
        for number, (topic_id, topic) in enumerate(image.topics_by_id.items(), 1):
            if topic_id not in side.topics_by_id:
                delta.removed.update(dict.fromkeys(topic.keys.values(), topic_id))
            if number % LOOKED_AT_PER_STEP == 0:
                yield None
        for number, key in enumerate(chain(side.configs, image.configs), 1):
            if image.configs.get(key) != side.configs.get(key):
                kind, name = key
                if kind == TOPIC_RESOURCE and name in side.topics:
                    delta.topic_configs[name] = None
                delta.broker_configs |= kind == BROKER_RESOURCE
            if number % LOOKED_AT_PER_STEP == 0:
                yield None
        delta.brokers = True
        self._before = image.topics_by_id, image.configs
        image.become(side)
        return delta

    def let_go(self) -> Job[None]:
        """Free what the image was before, which takes as long, once all have heard of what it is now."""
        for held in self._before:
            while held:
                for _ in range(min(len(held), LOOKED_AT_PER_STEP)):
                    held.popitem()
                yield None

    def _compare(self, records: list[object]) -> None:
        """Apply a batch on the side, and note which partitions the image has otherwise."""
        found = self._side.apply(records)  # type: ignore[arg-type]
        for key, state in found.partitions.items():
            if self._image.partition(*key) != state:
                self._delta.partitions[key] = state

    def _piece(self, response: FetchSnapshotResponse) -> PartitionSnapshotResult:
        parts = [part for topic in response.topics if topic.name == METADATA_TOPIC for part in topic.partitions]
        code = response.error_code or (parts[0].error_code if len(parts) == 1 else ErrorCode.INVALID_REQUEST)
        if code == ErrorCode.SNAPSHOT_NOT_FOUND:
            raise SnapshotRefused("the controller has a newer one by now")
        if code:
            raise SnapshotRefused(f"the controller answers {code}")
        return parts[0]

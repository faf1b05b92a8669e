"""A broker's side of carrying the metadata: it asks the controller for records, and its image follows, in order.

    request(now_ms)              what to send, or None: at the start, after each answer, at `next_deadline_ms`
    answered(response, now_ms)   a job, for one change may concern thousands of partitions; its result is the Delta:
                                 what is different now, and the image has it already; None for nothing

An image at an offset is the same on every broker, for it is made of the same records in the same order. Nothing is ever
taken back: the controller gives committed records alone. What can never be (the controller's log has lost records that
were committed, or is another cluster's) ends the observer with one sentence; the broker is not to act on it.

The image is in memory: a start asks from offset 0. Where the controller's log begins later, a snapshot comes first
(`snapshot_intake`), as for who was away for long. Source: observers of `KafkaRaftClient`, `MetadataLoader`.
"""

from __future__ import annotations

import logging
from typing import Final

from barnabas.broker.cluster.image import Delta, Image
from barnabas.broker.cluster.records import MetadataRecord, Partition, UnknownRecord, decode
from barnabas.broker.cluster.snapshot_intake import Intake, SnapshotRefused
from barnabas.broker.cluster.turns import SMALL_MAX
from barnabas.broker.cluster.writing import aside
from barnabas.broker.jobs import Job
from barnabas.protocol.batch import batches, crc_ok, read_header
from barnabas.protocol.errors import BarnabasError, ErrorCode, ProtocolError, error_name
from barnabas.protocol.ids import Buffer
from barnabas.protocol.records import decode_records, decode_slices
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from barnabas.protocol.requests.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse

BACKOFF_MS: Final = 100
"""After an error, or no answer: a broker without metadata can do nothing else."""
WAIT_MS: Final = 500
"""How long the controller may wait for news. Kafka's `controller.quorum.fetch.timeout.ms` must be larger."""
OWN_WAIT_MS: Final = 5000
"""The same where the controller is of this very node, and cannot be away: an idle node is not woken for nothing."""
BYTES_MAX: Final = 64 * 1024
"""Of an answer; a first batch comes whole, and is taken in in steps. All others are in one step, 10 ms."""

logger = logging.getLogger(__name__)


class MetadataRefused(BarnabasError):
    """This broker can follow the controller no further; the text says why, and what can be done."""


class Observer:
    """Follows the metadata of one controller.

    `end_offset` is the offset after the last record that `image` has, `epoch` that record's; `committed` what the
    controller had when it last answered (-1: it has not); `applied_ms` when that record was written, by the
    controller's clock (wall ms, -1: nobody said); `heard_ms` when it last answered (monotonic ms, -1: it has not).
    `fault` says why it has ended.
    """

    def __init__(self, node_id: int, cluster_id: str, topic_id: bytes, image: Image, wait_ms: int = WAIT_MS) -> None:
        self._wait_ms = wait_ms
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._topic_id = topic_id
        self._in_flight = False
        self._not_before_ms = 0
        self._said = ""
        self._intake: Intake | None = None
        self._installed: Intake | None = None
        self.image = image
        self.end_offset = 0
        self.epoch = -1
        self.committed = -1
        self.applied_ms = -1
        self.heard_ms = -1
        self.fault: MetadataRefused | None = None

    @property
    def caught_up(self) -> bool:
        """Whether the image had all that was committed when the controller last answered."""
        return 0 <= self.committed <= self.end_offset

    def request(self, now_ms: int) -> FetchRequest | FetchSnapshotRequest | None:
        """What to send; None while an answer is under way, or it is too early, or all is over."""
        if self._in_flight or self.fault is not None or now_ms < self._not_before_ms:
            return None
        self._in_flight = True
        self._not_before_ms = now_ms + BACKOFF_MS  # but for one that is given records
        if self._intake is not None:
            return self._intake.request()
        part = FetchPartition(0, -1, self.end_offset, self.epoch, 0, BYTES_MAX)
        return FetchRequest(
            cluster_id=self._cluster_id,
            replica_state=ReplicaState(self._node_id, -1),
            max_wait_ms=self._wait_ms,
            max_bytes=BYTES_MAX,
            topics=[FetchTopic("", self._topic_id, [part])],
        )

    def next_deadline_ms(self) -> int | None:
        """When `request` has something to say again (monotonic ms)."""
        return None if self._in_flight or self.fault is not None else self._not_before_ms

    def answered(self, response: FetchResponse | FetchSnapshotResponse | None, now_ms: int) -> Job[Delta | None]:
        """Take an answer in; None says that there was none. Nothing is asked for until that is over.

        Raises:
            MetadataRefused: it cannot go on; `fault` is that from now on.
        """
        delta = yield from self._take_in(response, now_ms)
        self._in_flight = False
        return delta

    def let_go(self) -> Job[None]:
        """To be called when all have heard of what `answered` told: a snapshot that came frees what was before it."""
        if self._installed is not None:
            intake, self._installed = self._installed, None
            yield from intake.let_go()

    def _take_in(self, response: FetchResponse | FetchSnapshotResponse | None, now_ms: int) -> Job[Delta | None]:
        if response is None:
            return self._again(None, "the controller does not answer", now_ms)
        if response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            raise self._end(f"the controller is another cluster's than {self._cluster_id}")
        if isinstance(response, FetchSnapshotResponse):
            return (yield from self._take_piece(response, now_ms))
        parts = [part for topic in response.responses if topic.topic_id == self._topic_id for part in topic.partitions]
        if response.error_code or len(parts) != 1:
            return self._again(
                None, f"the controller refuses to be followed ({error_name(response.error_code)})", now_ms
            )
        (part,) = parts
        diverging = part.diverging_epoch
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE or (diverging is not None and diverging.epoch >= 0):
            raise self._end(
                f"this broker has metadata up to offset {self.end_offset}, epoch {self.epoch}, which the controller "
                "does not have: it has lost what it announced"
            )
        if part.error_code:
            return self._again(None, f"the controller answers {error_name(part.error_code)}", now_ms)
        self.heard_ms = now_ms
        self.committed = max(self.committed, part.high_watermark)
        if part.snapshot_id is not None and part.snapshot_id.end_offset > self.end_offset:
            self._intake = Intake(self._node_id, self._cluster_id, part.snapshot_id, self.image)
            self._not_before_ms = now_ms
            return None
        return (yield from self._apply(part.records, now_ms))

    def _apply(self, records: Buffer | list[Buffer] | None, now_ms: int) -> Job[Delta | None]:
        data = b"".join(records) if isinstance(records, list) else bytes(records or b"")
        delta: Delta | None = None
        try:
            for position, size in batches(data):
                header = read_header(data, position)
                if not crc_ok(data, position, size):
                    return self._again(delta, f"the batch at offset {header.base_offset} came damaged", now_ms)
                if header.base_offset != self.end_offset or header.leader_epoch < self.epoch:
                    return self._again(delta, f"offset {header.base_offset} came after {self.end_offset - 1}", now_ms)
                if header.record_count > SMALL_MAX:
                    if delta is not None:  # in force, and nobody acts on it before this is over: it is asked for again
                        break
                    delta = yield from self._apply_large(data, position)
                else:
                    changes = [decode(record.value or b"") for record in decode_records(data, position)]
                    delta = self.image.apply(changes, delta)
                self.end_offset, self.epoch = header.next_offset, header.leader_epoch
                self.applied_ms = header.max_timestamp
        except UnknownRecord as error:
            raise self._end(str(error)) from error
        except ProtocolError as error:
            return self._again(delta, f"the records cannot be read: {error}", now_ms)
        self._said = ""
        if delta is not None:
            self._not_before_ms = now_ms
        return delta

    def _apply_large(self, data: bytes, position: int) -> Job[Delta]:
        """A change of many things: read in steps, made on the side where partitions are made, in force as a whole."""
        records: list[MetadataRecord] = []
        delta = Delta()
        for some in decode_slices(data, position, SMALL_MAX):
            records += [decode(record.value or b"") for record in some]
            yield None
        if not any(isinstance(one, Partition) for one in records):
            return self.image.apply(records, delta)
        self.image.take((yield from aside(self.image, records, delta)))
        return delta

    def _take_piece(self, response: FetchSnapshotResponse, now_ms: int) -> Job[Delta | None]:
        intake = self._intake
        assert intake is not None, "nobody else asks for a snapshot"
        try:
            whole = intake.take(response)
        except UnknownRecord as error:
            raise self._end(str(error)) from error
        except SnapshotRefused as refusal:
            self._intake = None
            return self._again(None, f"the snapshot at {intake.end_offset} cannot be taken in: {refusal}", now_ms)
        self._not_before_ms = self.heard_ms = now_ms
        if not whole:
            return None
        delta = yield from intake.install()
        self._intake, self._installed = None, intake
        self._said = ""
        self.end_offset, self.epoch = intake.end_offset, intake.epoch
        logger.info("the metadata up to offset %d came as a snapshot", self.end_offset)
        return delta

    def _again(self, delta: Delta | None, reason: str, now_ms: int) -> Delta | None:
        """What came before the fault counts; the rest is asked for again, after a while."""
        self._not_before_ms = now_ms + BACKOFF_MS
        if reason != self._said:
            self._said = reason
            logger.warning("metadata: %s; it is asked again every %d ms", reason, BACKOFF_MS)
        return delta

    def _end(self, reason: str) -> MetadataRefused:
        self.fault = MetadataRefused(reason)
        return self.fault

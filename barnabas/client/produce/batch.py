"""A batch while it is filled, sent, sent again and answered (Kafka's `ProducerBatch` and `MemoryRecordsBuilder`).

Records are written straight into the pooled buffer behind room for the header, so that an uncompressed batch goes to
the socket from where it was built. `batch.size` bounds the bytes before compression: memory is what the pool says.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, repeat
from operator import sub
from types import MethodType
from typing import Any, Final

from barnabas.client.produce.records import Headers, OnDelivery, RecordMetadata
from barnabas.net.errors import ClientClosed
from barnabas.protocol import batch as layout
from barnabas.protocol.compression import compress
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, Buffer, TopicPartition
from barnabas.protocol.primitives import varint

log = logging.getLogger(__name__)

_REMEMBERED_MAX: Final = 65536
_NULL: Final = varint(-1)
_HEADER: Final = layout.HEADER_SIZE
RECORD_OVERHEAD_MAX: Final = 21 + 5 + 5
"""Most bytes a record needs besides key, value and headers: its own length, attributes, deltas, and the two lengths."""


class _Varints(dict[int, bytes]):
    """Zig-zag varints, each computed once; lengths and deltas of a producer are few and small."""

    def __missing__(self, value: int) -> bytes:
        encoded = varint(value)
        if len(self) < _REMEMBERED_MAX:
            self[value] = encoded
        return encoded


_VARINT: Final = _Varints()


def record_size_bound(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """An upper bound of the bytes that a batch of just this record takes, header included."""
    size = _HEADER + RECORD_OVERHEAD_MAX + (len(key) if key else 0) + (len(value) if value else 0)
    for name, data in headers:
        size += 10 + 4 * len(name) + (len(data) if data else 0)
    return size


def encode_record(offset: int, delta_ms: int, key: bytes | None, value: bytes | None, headers: Headers) -> bytes:
    """One record, length first. The layout stands in `barnabas.protocol.records`."""
    known = _VARINT
    parts = [b"\0", known[delta_ms], known[offset]]
    for data in (key, value):
        if data is None:
            parts.append(_NULL)
        else:
            parts += (known[len(data)], data)
    parts.append(encode_headers(headers) if headers else b"\0")
    body = b"".join(parts)
    return known[len(body)] + body


def encode_headers(headers: Headers) -> bytes:
    """A record's last field: their number, and each one."""
    known = _VARINT
    parts = [known[len(headers)]]
    for name, data in headers:
        encoded = name.encode()
        parts += (known[len(encoded)], encoded)
        parts += (_NULL,) if data is None else (known[len(data)], data)
    return b"".join(parts)


class BatchResult:
    """The outcome that a batch's records share. Read it after `done`; a split batch's outcome is in its `parts`.

    `watch` may be called from another thread than `finish`: the flag is set before the watchers are taken, and looked
    at again after one was added, so none is lost and each runs once.
    """

    __slots__ = (
        "base_offset",
        "calling",
        "calling_ms",
        "deliveries",
        "done",
        "error",
        "log_append_ms",
        "looked_at",
        "parts",
        "record_errors",
        "watchers",
        "where",
        "why",
    )

    def __init__(self, where: TopicPartition) -> None:
        self.where = where
        self.why: Callable[[], str] = str
        self.done = False
        self.looked_at = False
        self.base_offset = -1
        self.log_append_ms = NO_TIMESTAMP
        self.error: BarnabasError | None = None
        self.record_errors: dict[int, str] = {}
        self.parts: list[tuple[int, BatchResult]] = []
        self.watchers: list[tuple[int, Callable[[], None]]] = []
        self.calling: OnDelivery | None = None  # the last record's callback
        self.calling_ms = NO_TIMESTAMP
        self.deliveries: list[Any] = []  # first index, timestamp, callback of each run of records that share the latter

    def __del__(self) -> None:
        """A failure that nobody can learn of any more is said once; what a close left behind, the close has said."""
        if self.error is not None and not self.looked_at and not isinstance(self.error, ClientClosed):
            log.error("what was sent to %s failed, and nobody looked: %s", self.where, self.error)

    def watch(self, index: int, call: Callable[[], None]) -> None:
        """Call once the record `index` has its outcome; at once if it has."""
        target, index = self.part_of(index)
        entry = (index, call)
        target.watchers.append(entry)
        if target.done or target.parts:
            try:
                target.watchers.remove(entry)
            except ValueError:
                return  # whoever finished the batch has taken it, and calls it
            if target.done:
                call()
            else:
                target.watch(index, call)

    def deliver_to(self, index: int, timestamp_ms: int, call: OnDelivery | None) -> None:
        """The record `index`, the batch's last, has this callback (or none). Under the guard."""
        if timestamp_ms == self.calling_ms or call is None:
            if call is self.calling:
                return
            if type(call) is MethodType and call == self.calling:  # `self.told` is made anew at each mention
                return
        self.deliveries += (index, timestamp_ms, call)
        self.calling, self.calling_ms = call, timestamp_ms

    def callbacks(self, count: int) -> tuple[range, Iterator[int], Iterator[OnDelivery | None]]:
        """Indexes, timestamps (ms) and callbacks of the batch's `count` records, but for the first that have none.

        Nothing here, and in `_told`, is a line of Python for each record, for there may be half a million a second.
        """
        starts, stamps, calls = self.deliveries[::3], self.deliveries[1::3], self.deliveries[2::3]
        lengths = list(map(sub, [*starts[1:], count], starts))
        all_stamps = chain.from_iterable(map(repeat, stamps, lengths))
        all_calls = chain.from_iterable(map(repeat, calls, lengths))
        return range(starts[0] if starts else count, count), all_stamps, all_calls

    def deliver(self, count: int) -> None:
        """Call the callbacks of the batch's `count` records, in order. What one raises keeps none from the others.

        Raises:
            BaseException: what was no `Exception` (`sys.exit` in a callback), the first of them, once all are told.
        """
        self.looked_at = True
        leaving: BaseException | None = None
        for call, metadata, error in self._told(count):
            if call is not None:
                try:
                    call(metadata, error)
                except Exception:
                    log.exception("a delivery callback failed")
                except BaseException as problem:
                    leaving = leaving or problem
        self.deliveries = []
        if leaving is not None:
            raise leaving

    def _told(self, count: int) -> Iterator[tuple[OnDelivery | None, RecordMetadata | None, BarnabasError | None]]:
        indexes, stamps, calls = self.callbacks(count)
        if self.error is not None:
            return zip(calls, repeat(None), map(self.error_of, indexes))
        (topic, partition), base = self.where, self.base_offset
        offsets = range(base + indexes.start, base + count) if base >= 0 else repeat(-1)
        at_ms = stamps if self.log_append_ms < 0 else repeat(self.log_append_ms)
        made = map(tuple.__new__, repeat(RecordMetadata), zip(repeat(topic), repeat(partition), offsets, at_ms))
        return zip(calls, made, repeat(None))

    def part_of(self, index: int) -> tuple[BatchResult, int]:
        """The result that holds the record's outcome, and the record's index in it."""
        result = self
        while result.parts:
            first, found = result.parts[0]
            for start, part in result.parts:
                if start <= index:
                    first, found = start, part
            result, index = found, index - first
        return result, index

    def error_of(self, index: int) -> BarnabasError | None:
        """Why the record failed, None when it did not."""
        if self.error is None or not self.record_errors:
            return self.error
        if index in self.record_errors:
            return KafkaError(ErrorCode.INVALID_RECORD, self.record_errors[index] or "the record was refused")
        return KafkaError(ErrorCode.INVALID_RECORD, "another record of the batch was refused, this one was not written")


class ProducerBatch:
    """Records for one partition, and what became of them. Times are absolute ms.

    `size` counts the bytes so far, header included, before compression.
    """

    __slots__ = (
        "_base_timestamp_ms",
        "_max_timestamp_ms",
        "_room",
        "_sealed",
        "attempts",
        "base_sequence",
        "buffer",
        "closed",
        "created_ms",
        "in_flight",
        "leader_epoch",
        "pooled",
        "producer_epoch",
        "producer_id",
        "record_count",
        "result",
        "retry",
        "retry_at_ms",
        "sequence_reset",
        "size",
        "where",
    )

    def __init__(self, where: TopicPartition, buffer: bytearray, now_ms: int, *, pooled: bool = True) -> None:
        self.where = where
        self.pooled = pooled
        self.buffer: bytearray | None = buffer
        self.created_ms = now_ms
        self.retry_at_ms = now_ms
        self.attempts = 0
        self.retry = False
        self.closed = False
        self.in_flight = False
        self.leader_epoch = -1
        self.record_count = 0
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        self.sequence_reset = False
        self.result = BatchResult(where)
        self.size = _HEADER
        self._room = len(buffer)
        self._base_timestamp_ms = NO_TIMESTAMP
        self._max_timestamp_ms = NO_TIMESTAMP
        self._sealed: list[Buffer] | None = None

    # ---- filling --------------------------------------------------------------------------------------------------

    def try_append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers) -> int:
        """Write one record; returns its index in the batch, or -1 when there is no room. The hottest code of all."""
        if self.closed:
            return -1
        count = self.record_count
        if count:
            delta_ms = timestamp_ms - self._base_timestamp_ms
        else:
            self._base_timestamp_ms = timestamp_ms
            delta_ms = 0
        if key is None and value is not None and not headers:
            known = _VARINT
            delta, offset, length = known[delta_ms], known[count], known[len(value)]
            size = known[len(delta) + len(offset) + len(length) + len(value) + 3]
            record = b"".join((size, b"\0", delta, offset, b"\1", length, value, b"\0"))
        else:
            record = encode_record(count, delta_ms, key, value, headers)
        start = self.size
        end = start + len(record)
        if end > self._room:
            self.closed = True
            return -1
        self.buffer[start:end] = record  # type: ignore[index]  # a batch that is not closed has its buffer
        self.size = end
        if timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms = timestamp_ms
        self.record_count = count + 1
        return count

    def fill(self, records: Buffer, count: int, base_timestamp_ms: int, max_timestamp_ms: int) -> None:
        """Take records that are encoded, and no more."""
        assert self.buffer is not None
        self.size = _HEADER + len(records)
        self.buffer[_HEADER : self.size] = records
        self.record_count = count
        self._base_timestamp_ms, self._max_timestamp_ms = base_timestamp_ms, max_timestamp_ms
        self.closed = True

    @property
    def full(self) -> bool:
        """Whether nothing more will go in."""
        return self.closed or self.size >= self._room

    @property
    def has_sequence(self) -> bool:
        """Whether producer id, epoch and sequence are fixed."""
        return self.base_sequence != NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; after 2**31 - 1 comes 0."""
        return layout.add_sequence(self.base_sequence, self.record_count - 1)

    # ---- sending --------------------------------------------------------------------------------------------------

    def set_producer(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Fix, or after an epoch bump replace, the producer's state; the bytes follow at the next `seal`."""
        self.sequence_reset = self.has_sequence
        self.producer_id = producer_id
        self.producer_epoch = epoch
        self.base_sequence = sequence
        self._sealed = None

    def seal(self, codec: int, level: int | None = None) -> list[Buffer]:
        """The batch as it goes on the wire; the same bytes again on a retry, unless the producer's state changed."""
        if self._sealed is not None:
            return self._sealed
        assert self.buffer is not None
        self.closed = True
        data: list[Buffer]
        head: bytearray
        body = memoryview(self.buffer)[_HEADER : self.size]
        if codec:
            packed = bytearray(_HEADER) + compress(codec, body, level)
            data, head, size = [packed], packed, len(packed)
        else:
            data, head, size = [memoryview(self.buffer)[: self.size]], self.buffer, self.size
        layout.write_header(
            head,
            0,
            layout.BatchHeader(
                base_offset=0,
                length=size - layout.LOG_OVERHEAD,
                leader_epoch=-1,
                magic=layout.MAGIC,
                crc=0,
                attributes=codec,
                last_offset_delta=self.record_count - 1,
                base_timestamp=self._base_timestamp_ms,
                max_timestamp=self._max_timestamp_ms,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=self.base_sequence,
                record_count=self.record_count,
            ),
        )
        layout.set_crc(head, 0, size)
        self._sealed = data
        return data

    def unseal(self) -> None:
        """Forget the wire form (the views into the buffer), so that the buffer can go back to the pool."""
        self._sealed = None

    def finish(self, base_offset: int, log_append_ms: int, error: BarnabasError | None) -> list[Callable[[], None]]:
        """Fix the outcome; returns the watchers, to be called by who may. The first outcome stands."""
        result = self.result
        if result.done:
            return []
        result.base_offset = base_offset
        result.log_append_ms = log_append_ms
        result.error = error
        result.done = True
        calls: list[Callable[[], None]] = []
        if result.deliveries:
            calls.append(partial(result.deliver, self.record_count))
        while result.watchers:
            calls.append(result.watchers.pop(0)[1])
        return calls

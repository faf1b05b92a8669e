"""A batch while it is filled, sent, sent again and answered (Kafka's `ProducerBatch` and `MemoryRecordsBuilder`).

Records are written straight into the pooled buffer behind room for the header, so that an uncompressed batch goes to
the socket from where it was built. `batch.size` bounds the bytes before compression: memory is what the pool says.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from barnabas.client.produce.records import Headers
from barnabas.client.produce.result import BatchResult
from barnabas.protocol import batch as layout
from barnabas.protocol.compression import compress
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    ZERO_UUID,
    Buffer,
    TopicPartition,
)
from barnabas.protocol.primitives import varint

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
        "topic_id",
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
        self.topic_id = ZERO_UUID
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

"""Record batches to columns, without a Python object per record.

A plain decoder costs 2 us a record in Python. Here every field is read for all records of all batches at once with
numpy (`record_scan` finds where the records start), and pyarrow gathers keys and values: 0.1 us a record. A call costs
0.1 ms whatever it holds: small partitions are decoded together.

    record: varint length | i8 attributes | varlong timestampDelta | varint offsetDelta
            | varint keyLength (-1: null) | key | varint valueLength | value | varint headerCount | headers
    header: varint keyLength | key | varint valueLength (-1: null) | value

numpy and pyarrow are imported on first use (extras `arrow`, `spark`, `spark-worker`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.client.consume.batches import Batch
from barnabas.client.consume.record_scan import VARINT_BYTES_MAX, VARLONG_BYTES_MAX, find_records, pieces, varints
from barnabas.protocol.batch import BatchHeader
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.ids import Buffer, TopicPartition

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Columns:
    """Records of one partition as Arrow arrays of equal length, in offset order.

    `key` and `value` are binary with nulls, `offset` int64, `timestamp` timestamp[ms, UTC], `timestamp_type` int32
    (0 CreateTime, 1 LogAppendTime), `headers` list<struct<key: string, value: binary>> when they were asked for.
    `leader_epoch` is that of the leader that gave them, which may have them from an earlier one; -1 if not told.
    """

    topic: str
    partition: int
    key: pa.Array
    value: pa.Array
    offset: pa.Array
    timestamp: pa.Array
    timestamp_type: pa.Array
    headers: pa.Array | None = None
    leader_epoch: int = -1

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def where(self) -> TopicPartition:
        """The partition they were read from."""
        return TopicPartition(self.topic, self.partition)

    def slice(self, start: int, length: int) -> Columns:
        """The records `start` to `start + length`, without a copy."""
        return Columns(
            self.topic,
            self.partition,
            self.key.slice(start, length),
            self.value.slice(start, length),
            self.offset.slice(start, length),
            self.timestamp.slice(start, length),
            self.timestamp_type.slice(start, length),
            None if self.headers is None else self.headers.slice(start, length),
            self.leader_epoch,
        )

    def to_arrow(self) -> pa.RecordBatch:
        """One record batch: key, value, topic, partition, offset, timestamp, timestamp_type and, if asked, headers."""
        import pyarrow as pa

        columns = {
            "key": self.key,
            "value": self.value,
            "topic": same_string(self.topic, len(self)),
            "partition": same_int32(self.partition, len(self)),
            "offset": self.offset,
            "timestamp": self.timestamp,
            "timestamp_type": self.timestamp_type,
        }
        if self.headers is not None:
            columns["headers"] = self.headers
        return pa.RecordBatch.from_pydict(columns)


@dataclass(slots=True, eq=False)
class Area:
    """Records of one batch, decompressed. What came uncompressed is the part of `source` from byte `at` on."""

    header: BatchHeader
    data: Buffer
    source: memoryview | None = None
    at: int = 0


class Part(NamedTuple):
    """Areas of one partition, in order; records below `position` are left out, refused if the part `goes_on`."""

    topic: str
    partition: int
    areas: list[Area]
    position: int
    goes_on: bool = False
    leader_epoch: int = -1


def areas_of(batch: Batch, count_max: int) -> Iterator[Area]:
    """A batch's records, in pieces of at most `count_max`.

    Raises:
        ProtocolError: broken data, or lengths that do not lead to records.
        IndexError: lengths that lead out of the data.
    """
    data = batch.open()
    source = None if batch.header.compression else batch.source
    if batch.header.record_count <= count_max:
        yield Area(batch.header, data, source, batch.at)
        return
    view = memoryview(data)
    for start, end, count in pieces(data, batch.header.record_count, count_max):
        yield Area(batch.header._replace(record_count=count), view[start:end], source, batch.at + start)


def _refuse_if(wrong: NDArray[np.bool_], why: str) -> None:
    if wrong.any():
        raise ProtocolError(why)


def decode_group(parts: Sequence[Part], with_headers: bool, only: Collection[str] | None = None) -> list[Columns]:
    """Decodes several partitions' areas together: what remains of each part is one `Columns`.

    Args:
        parts: what was fetched; its framing is checked, whatever of it is wanted.
        with_headers: headers are wanted, too.
        only: of key, value and timestamp, those that are wanted (None: all); the others are all null.

    Raises:
        ProtocolError: a record breaks its batch's framing.
        IndexError: a field runs past the end or is no varint.
    """
    import numpy as np
    import pyarrow as pa

    areas = [area for part in parts for area in part.areas]
    headers = [area.header for area in areas]
    counts = [header.record_count for header in headers]
    data, places = _one_source(areas)
    starts, ends = find_records(data, places, counts, [len(area.data) for area in areas])
    raw = np.frombuffer(data, np.uint8)

    timestamp, at = varints(raw, starts + 1, VARLONG_BYTES_MAX)
    offset, at = varints(raw, at, VARINT_BYTES_MAX)
    last_delta = np.repeat(np.array([header.last_offset_delta for header in headers], np.int64), counts)
    _refuse_if((offset < 0) | (offset > last_delta), "an offset outside of its batch")
    offset += np.repeat(np.array([header.base_offset for header in headers], np.int64), counts)
    stamped = only is None or "timestamp" in only
    log_append = np.zeros(len(offset), np.int32)
    if any(header.is_log_append_time for header in headers):
        log_append = np.repeat(np.array([header.is_log_append_time for header in headers], np.int32), counts)
    if stamped:
        timestamp = _times(timestamp, log_append, headers, counts)

    key_length, key_start = varints(raw, at, VARINT_BYTES_MAX)
    _refuse_if(key_length < -1, "a key of negative length")
    key_end = key_start + np.maximum(key_length, 0)
    _refuse_if(key_end >= ends, "a key longer than its record")
    value_length, value_start = varints(raw, key_end, VARINT_BYTES_MAX)
    _refuse_if(value_length < -1, "a value of negative length")
    value_end = value_start + np.maximum(value_length, 0)
    _refuse_if(value_end >= ends, "a value longer than its record")
    header_count, at = varints(raw, value_end, VARINT_BYTES_MAX)
    _refuse_if(header_count < 0, "a negative count of headers")
    _refuse_if((at > ends) | ((header_count == 0) & (at != ends)), "a record longer than its fields")

    buffer = pa.py_buffer(data)
    binary, stamp, count = pa.binary(), pa.timestamp("ms", tz="UTC"), len(offset)
    keyed, valued = (only is None or name in only for name in ("key", "value"))
    joined = Columns(
        "",
        -1,
        key=_gather(buffer, key_start, key_end, key_length) if keyed else pa.nulls(count, binary),
        value=_gather(buffer, value_start, value_end, value_length) if valued else pa.nulls(count, binary),
        offset=fixed(offset, pa.int64()),
        timestamp=fixed(timestamp, stamp) if stamped else pa.nulls(count, stamp),
        timestamp_type=fixed(log_append, pa.int32()),
        headers=_headers(data, header_count, at, ends) if with_headers else None,
    )
    return _split(joined, offset, parts)


def _times(deltas: Ints, log_append: NDArray[np.int32], headers: Sequence[BatchHeader], counts: Sequence[int]) -> Ints:
    """The timestamps (ms): the batch's where the broker sets them, else its base and the record's delta."""
    import numpy as np

    found: Ints = deltas + np.repeat(np.array([header.base_timestamp for header in headers], np.int64), counts)
    if not log_append.any():
        return found
    stamps = np.repeat(np.array([header.max_timestamp for header in headers], np.int64), counts)
    return np.where(log_append, stamps, found)


def _one_source(areas: Sequence[Area]) -> tuple[bytes | bytearray, list[int]]:
    """Bytes that hold all record areas, and where each begins in them.

    That is the frame they came in, without a copy, unless an area was compressed, or they came in several frames, or in
    another order.
    """
    import numpy as np

    frame = None if areas[0].source is None else areas[0].source.obj
    if isinstance(frame, bytes | bytearray):
        first = np.frombuffer(frame, np.uint8).__array_interface__["data"][0]
        places: list[int] = []
        source: memoryview | None = None
        offset = 0
        for area in areas:
            if area.source is not source:
                source = area.source
                if source is None or source.obj is not frame:
                    break
                offset = np.frombuffer(source, np.uint8).__array_interface__["data"][0] - first
            if places and offset + area.at < places[-1]:
                break  # partitions are handed out in another order than they came: Arrow's offsets must rise
            places.append(offset + area.at)
        else:
            return frame, places
    parts = [area.data for area in areas]
    return b"".join(parts), [0, *accumulate(map(len, parts[:-1]))]


def _split(joined: Columns, offset: Ints, parts: Sequence[Part]) -> list[Columns]:
    """Each partition's own columns, from its position on: a view of all."""
    import numpy as np

    found: list[Columns] = []
    start = 0
    for part in parts:
        end = start + sum(area.header.record_count for area in part.areas)
        own = offset[start:end]
        _refuse_if(own[1:] <= own[:-1], "offsets that do not rise")
        if part.goes_on:
            _refuse_if(own[:1] < part.position, "offsets that do not rise")
        # The batch that contains the position is sent whole: its first records may lie below, as with Kafka.
        first = start + int(np.searchsorted(own, part.position))
        if first < end:
            columns = joined.slice(first, end - first) if end - first < len(joined) else joined
            columns.topic, columns.partition, columns.leader_epoch = part.topic, part.partition, part.leader_epoch
            found.append(columns)
        start = end
    return found


def fixed(values: NDArray[Any], kind: pa.DataType, present: pa.Buffer | None = None) -> pa.Array:
    """A numpy array as an Arrow array, without a copy where it is contiguous; `present` is the validity bitmap.

    `pa.array` would do, but imports pandas wherever that is installed: a third of a second in every Spark worker.
    """
    import numpy as np
    import pyarrow as pa

    return pa.Array.from_buffers(kind, len(values), [present, pa.py_buffer(np.ascontiguousarray(values))])


def same_int32(value: int, count: int) -> pa.Array:
    """`count` times the same number."""
    import numpy as np
    import pyarrow as pa

    return fixed(np.full(count, value, np.int32), pa.int32())


def same_string(text: str, count: int) -> pa.Array:
    """`count` times the same text."""
    import numpy as np
    import pyarrow as pa

    data = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(data))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data * count)])


def _gather(buffer: pa.Buffer, start: Ints, end: Ints, length: Ints) -> pa.Array:
    """The bytes from start to end of every record as a binary array, null where the length is -1.

    Over the raw bytes lies an array of 2n - 1 slots whose offsets alternate value, gap, value; `take` keeps the values.
    """
    import numpy as np
    import pyarrow as pa

    count = len(start)
    null = length < 0
    if null.all():
        return pa.nulls(count, pa.binary())
    offsets = np.empty(2 * count, np.int32)
    offsets[0::2] = start
    offsets[1::2] = end
    slots = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(offsets), buffer])
    present = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
    indices = fixed(np.arange(0, 2 * count - 1, 2, dtype=np.int32), pa.int32(), present)
    return slots.take(indices)


def _headers(data: bytes | bytearray, counts: Ints, at: Ints, ends: Ints) -> pa.Array:
    """The headers of every record: all first headers at once, then all second ones, then put back in record order."""
    import numpy as np
    import pyarrow as pa

    raw = np.frombuffer(data, np.uint8)
    rows = np.flatnonzero(counts)
    at = at.copy()
    # A header has two bytes at least: a count that the record cannot hold must not make arrays of its size.
    _refuse_if(counts * 2 > ends - at, "more headers than its record can hold")
    total = int(counts.sum())
    places = np.concatenate(([0], np.cumsum(counts)))
    fields = [np.zeros(total, np.int64) for _ in range(6)]
    turn = 0
    while len(rows):
        key_length, key_start = varints(raw, at[rows], VARINT_BYTES_MAX)
        _refuse_if(key_length < 0, "a header without a key")
        key_end = key_start + key_length
        _refuse_if(key_end >= ends[rows], "a header's key longer than its record")
        value_length, value_start = varints(raw, key_end, VARINT_BYTES_MAX)
        _refuse_if(value_length < -1, "a header of negative length")
        value_end = value_start + np.maximum(value_length, 0)
        _refuse_if(value_end > ends[rows], "a header longer than its record")
        slot = places[rows] + turn
        for field, found in zip(
            fields, (key_start, key_end, key_length, value_start, value_end, value_length), strict=True
        ):
            field[slot] = found
        at[rows] = value_end
        turn += 1
        rows = rows[counts[rows] > turn]
    _refuse_if(at != ends, "a record longer than its headers")
    buffer = pa.py_buffer(data)
    if total:
        keys = _gather(buffer, *fields[:3])
        values = _gather(buffer, *fields[3:])
        try:
            keys = keys.cast(pa.string())
        except pa.ArrowInvalid:
            # As Kafka's own client reads it; the surrogates that keep the bytes in a Python string are no Arrow string.
            keys = pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
    else:
        keys, values = pa.nulls(0, pa.string()), pa.nulls(0, pa.binary())
    entries = pa.StructArray.from_arrays([keys, values], ["key", "value"])
    return pa.ListArray.from_arrays(fixed(places.astype(np.int32), pa.int32()), entries)

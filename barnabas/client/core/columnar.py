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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.client.core.batches import Batch
from barnabas.client.core.record_scan import VARINT_BYTES_MAX, VARLONG_BYTES_MAX, find_records, varints
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError, ProtocolError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

AREA_BYTES_MAX: Final = 1 << 28
"""One piece of columns holds at most this many record bytes (or one batch): Arrow's offsets have 31 bits."""

GROUP_RECORDS: Final = 4096
"""Parts are decoded together until they have so many records: a call costs 0.1 ms whatever it holds."""

MISSING_EXTRA: Final = "columns need numpy and pyarrow: pip install 'barnabas[arrow]'"


@dataclass(slots=True, eq=False)
class Columns:
    """Records of one partition as Arrow arrays of equal length, in offset order.

    `key` and `value` are binary with nulls, `offset` int64, `timestamp` timestamp[ms, UTC], `timestamp_type` int32
    (0 CreateTime, 1 LogAppendTime), `headers` list<struct<key: string, value: binary>> when they were asked for.
    """

    topic: str
    partition: int
    key: pa.Array
    value: pa.Array
    offset: pa.Array
    timestamp: pa.Array
    timestamp_type: pa.Array
    headers: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.offset)

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


class Part(NamedTuple):
    """Batches of one partition, in order; records below `position` are left out."""

    topic: str
    partition: int
    batches: Sequence[Batch]
    position: int


def require_libraries() -> None:
    """Import what columns need.

    Raises:
        BarnabasError: numpy or pyarrow is absent.
    """
    try:
        import numpy as np  # noqa: F401
        import pyarrow as pa  # noqa: F401
    except ImportError as error:
        raise BarnabasError(MISSING_EXTRA) from error


def decode_columns(
    topic: str, partition: int, batches: Sequence[Batch], position: int, *, headers: bool = False
) -> Iterator[Columns]:
    """Decodes batches of one partition, in order; records below `position` are left out.

    Yields one `Columns` for every 256 MiB of records (nearly always exactly one, none when nothing remains).

    Raises:
        KafkaError: CORRUPT_MESSAGE, a record breaks its batch's framing.
        BarnabasError: numpy or pyarrow is absent.
    """
    yield from decode_parts([Part(topic, partition, batches, position)], headers=headers)


def decode_parts(parts: Iterable[Part], *, headers: bool = False) -> Iterator[Columns]:
    """Decodes several partitions' batches, small parts together; what `decode_columns` says holds for each of them.

    Raises:
        KafkaError: CORRUPT_MESSAGE, once the parts before the corrupt one were yielded.
        BarnabasError: numpy or pyarrow is absent.
    """
    require_libraries()
    for group in _groups(parts):
        try:
            found = _decode_group(group, headers)
        except (IndexError, ProtocolError) as error:
            if len(group) == 1:
                raise _corrupt(group[0], error) from None
            for part in group:  # those before the corrupt one are whole
                yield from decode_parts([part], headers=headers)
        else:
            yield from found


def _groups(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """Cuts parts that are too large, joins those that are too small."""
    group: list[Part] = []
    size = records = 0
    for part in parts:
        start = 0
        for index, batch in enumerate(part.batches):
            if size and size + len(batch.area) > AREA_BYTES_MAX:
                if index > start:
                    group.append(part._replace(batches=part.batches[start:index]))
                yield group
                group, size, records, start = [], 0, 0, index
            size += len(batch.area)
            records += batch.header.record_count
        if start < len(part.batches):
            group.append(part._replace(batches=part.batches[start:]))
        if records >= GROUP_RECORDS:
            yield group
            group, size, records = [], 0, 0
    if group:
        yield group


def _corrupt(part: Part, error: Exception) -> KafkaError:
    why = str(error) if isinstance(error, ProtocolError) else "a field runs past the end or is no varint"
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE,
        f"{part.topic}-{part.partition}, records of the batches from offset "
        f"{part.batches[0].header.base_offset} on: {why}",
    )


def _refuse_if(wrong: NDArray[np.bool_], why: str) -> None:
    if wrong.any():
        raise ProtocolError(why)


def _decode_group(parts: Sequence[Part], with_headers: bool) -> list[Columns]:
    import numpy as np
    import pyarrow as pa

    batches = [batch for part in parts for batch in part.batches]
    headers = [batch.header for batch in batches]
    counts = [header.record_count for header in headers]
    data, places = _one_source(batches)
    starts, ends = find_records(data, places, counts, [len(batch.area) for batch in batches])
    raw = np.frombuffer(data, np.uint8)

    timestamp, at = varints(raw, starts + 1, VARLONG_BYTES_MAX)
    offset, at = varints(raw, at, VARINT_BYTES_MAX)
    last_delta = np.repeat(np.array([header.last_offset_delta for header in headers], np.int64), counts)
    _refuse_if((offset < 0) | (offset > last_delta), "an offset outside of its batch")
    offset += np.repeat(np.array([header.base_offset for header in headers], np.int64), counts)
    timestamp += np.repeat(np.array([header.base_timestamp for header in headers], np.int64), counts)
    log_append = np.zeros(len(offset), np.int32)
    if any(header.is_log_append_time for header in headers):
        log_append = np.repeat(np.array([header.is_log_append_time for header in headers], np.int32), counts)
        stamps = np.repeat(np.array([header.max_timestamp for header in headers], np.int64), counts)
        timestamp = np.where(log_append, stamps, timestamp)

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
    joined = Columns(
        "",
        -1,
        key=_gather(buffer, key_start, key_end, key_length),
        value=_gather(buffer, value_start, value_end, value_length),
        offset=fixed(offset, pa.int64()),
        timestamp=fixed(timestamp, pa.timestamp("ms", tz="UTC")),
        timestamp_type=fixed(log_append, pa.int32()),
        headers=_headers(data, header_count, at, ends) if with_headers else None,
    )
    return _split(joined, offset, parts)


def _one_source(batches: Sequence[Batch]) -> tuple[bytes | bytearray, list[int]]:
    """Bytes that hold all record areas, and where each begins in them.

    That is the frame they came in, without a copy, unless an area was compressed, or they came in several frames, or in
    another order.
    """
    import numpy as np

    frame = None if batches[0].source is None else batches[0].source.obj
    if isinstance(frame, bytes | bytearray):
        first = np.frombuffer(frame, np.uint8).__array_interface__["data"][0]
        places: list[int] = []
        source: memoryview | None = None
        offset = 0
        for batch in batches:
            if batch.source is not source:
                source = batch.source
                if source is None or source.obj is not frame:
                    break
                offset = np.frombuffer(source, np.uint8).__array_interface__["data"][0] - first
            if places and offset + batch.at < places[-1]:
                break  # partitions are handed out in another order than they came: Arrow's offsets must rise
            places.append(offset + batch.at)
        else:
            return frame, places
    areas = [batch.area for batch in batches]
    return b"".join(areas), [0, *accumulate(map(len, areas[:-1]))]


def _split(joined: Columns, offset: Ints, parts: Sequence[Part]) -> list[Columns]:
    """Each partition's own columns, from its position on: a view of all."""
    import numpy as np

    found: list[Columns] = []
    start = 0
    for part in parts:
        end = start + sum(batch.header.record_count for batch in part.batches)
        own = offset[start:end]
        _refuse_if(own[1:] <= own[:-1], "offsets that do not rise")
        # The batch that contains the position is sent whole: its first records may lie below, as with Kafka.
        first = start + int(np.searchsorted(own, part.position))
        if first < end:
            columns = joined.slice(first, end - first) if end - first < len(joined) else joined
            columns.topic, columns.partition = part.topic, part.partition
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

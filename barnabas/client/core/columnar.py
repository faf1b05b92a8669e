"""Record batches to columns, without a Python object per record.

A plain decoder costs 2 us a record in Python. Here one tight loop only finds where each record starts (its length
varint, 0.1 us a record); every other field is read for all records of all batches at once with numpy, and pyarrow
gathers keys and values. A call costs 0.1 ms whatever it holds: give it a partition's whole answer, not one batch.

    record: varint length | i8 attributes | varlong timestampDelta | varint offsetDelta
            | varint keyLength (-1: null) | key | varint valueLength | value | varint headerCount | headers
    header: varint keyLength | key | varint valueLength (-1: null) | value

numpy and pyarrow are imported on first use (extras `arrow`, `spark`, `spark-worker`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from barnabas.client.core.batches import Batch
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.ids import Buffer
from barnabas.protocol.primitives import read_varint
from barnabas.protocol.records import RECORD_SIZE_MIN

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

AREA_BYTES_MAX: Final = 1 << 28
"""One piece of columns holds at most this many record bytes (or one batch): Arrow's offsets have 31 bits."""

RUN_RECORDS_MIN: Final = 256
"""Testing for records of one length pays from about this many on."""

VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10

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


def decode_columns(
    topic: str, partition: int, batches: Sequence[Batch], position: int, *, headers: bool = False
) -> Iterator[Columns]:
    """Decodes batches of one partition, in order; records below `position` are left out.

    Yields one `Columns` for every 256 MiB of records (nearly always exactly one, none when nothing remains).

    Raises:
        KafkaError: CORRUPT_MESSAGE, a record breaks its batch's framing.
        BarnabasError: numpy or pyarrow is absent.
    """
    try:
        import numpy as np  # noqa: F401
        import pyarrow as pa  # noqa: F401
    except ImportError as error:
        raise BarnabasError(MISSING_EXTRA) from error
    start = 0
    while start < len(batches):
        end, size = start, 0
        while end < len(batches) and (end == start or size + len(batches[end].area) <= AREA_BYTES_MAX):
            size += len(batches[end].area)
            end += 1
        try:
            columns = _decode_piece(topic, partition, batches[start:end], position, headers)
        except (IndexError, ProtocolError):
            raise _corrupt(topic, partition, batches[start], "a field runs past the end or is no varint") from None
        if columns is not None:
            yield columns
        start = end


def _corrupt(topic: str, partition: int, batch: Batch, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE,
        f"{topic}-{partition}, records of the batches from offset {batch.header.base_offset} on: {why}",
    )


def _decode_piece(
    topic: str, partition: int, batches: Sequence[Batch], position: int, with_headers: bool
) -> Columns | None:
    import numpy as np
    import pyarrow as pa

    def refuse_if(wrong: NDArray[np.bool_], why: str) -> None:
        if wrong.any():
            raise _corrupt(topic, partition, batches[0], why)

    data = batches[0].area if len(batches) == 1 else b"".join([batch.area for batch in batches])
    starts, ends = _find_records(topic, partition, batches, data)
    if not len(starts):
        return None
    raw = np.frombuffer(data, np.uint8)
    headers = [batch.header for batch in batches]
    counts = np.array([header.record_count for header in headers])

    timestamp, at = _varints(raw, starts + 1, VARLONG_BYTES_MAX)
    offset, at = _varints(raw, at, VARINT_BYTES_MAX)
    last_delta = np.repeat(np.array([header.last_offset_delta for header in headers], np.int64), counts)
    refuse_if((offset < 0) | (offset > last_delta), "an offset outside of its batch")
    offset += np.repeat(np.array([header.base_offset for header in headers], np.int64), counts)
    log_append = np.array([header.is_log_append_time for header in headers])
    timestamp += np.repeat(np.array([header.base_timestamp for header in headers], np.int64), counts)
    if log_append.any():
        stamps = np.repeat(np.array([header.max_timestamp for header in headers], np.int64), counts)
        timestamp = np.where(np.repeat(log_append, counts), stamps, timestamp)

    key_length, key_start = _varints(raw, at, VARINT_BYTES_MAX)
    refuse_if(key_length < -1, "a key of negative length")
    key_end = key_start + np.maximum(key_length, 0)
    refuse_if(key_end >= ends, "a key longer than its record")
    value_length, value_start = _varints(raw, key_end, VARINT_BYTES_MAX)
    refuse_if(value_length < -1, "a value of negative length")
    value_end = value_start + np.maximum(value_length, 0)
    refuse_if(value_end >= ends, "a value longer than its record")
    header_count, at = _varints(raw, value_end, VARINT_BYTES_MAX)
    refuse_if(header_count < 0, "a negative count of headers")
    refuse_if((at > ends) | ((header_count == 0) & (at != ends)), "a record longer than its fields")
    refuse_if(np.diff(offset) <= 0, "offsets that do not rise")

    # The batch that contains the position is sent whole: its first records may lie below (SEMANTICS: Kafka's read).
    first = int(np.searchsorted(offset, position))
    if first == len(offset):
        return None
    if log_append.any():
        types = fixed(np.repeat(log_append, counts)[first:].astype(np.int32), pa.int32())
    else:
        types = fixed(np.zeros(len(offset) - first, np.int32), pa.int32())
    buffer = pa.py_buffer(data)
    return Columns(
        topic,
        partition,
        key=_gather(buffer, key_start[first:], key_end[first:], key_length[first:]),
        value=_gather(buffer, value_start[first:], value_end[first:], value_length[first:]),
        offset=fixed(offset[first:], pa.int64()),
        timestamp=fixed(timestamp[first:], pa.timestamp("ms", tz="UTC")),
        timestamp_type=types,
        headers=_headers(data, header_count[first:], at[first:], ends[first:], refuse_if) if with_headers else None,
    )


def _find_records(topic: str, partition: int, batches: Sequence[Batch], data: Buffer) -> tuple[Ints, Ints]:
    """Where each record's attributes stand and where it ends: the one step that may cost something per record.

    Where many records in a row have one length they stand at one distance, which numpy tests for all at once; else a
    loop goes from length to length, and tries the other way again after ever more records.
    """
    import numpy as np

    plain = bytes(data)  # indexing bytes is faster than indexing a memoryview, by more than this copy costs
    raw = np.frombuffer(plain, np.uint8)
    found: list[Ints] = []
    walked: list[int] = []
    at = 0
    for batch in batches:
        limit, left = at + len(batch.area), batch.header.record_count
        block = RUN_RECORDS_MIN
        while left:
            if left >= RUN_RECORDS_MIN:
                run, step = _equal_run(raw, at, limit, left)
                if run >= RUN_RECORDS_MIN:
                    found += (np.array(walked, np.int64), np.arange(at, at + run * step, step, dtype=np.int64))
                    walked = []
                    at += run * step
                    left -= run
                    continue
            count = min(left, block)
            at = _walk(plain, at, count, walked)
            left -= count
            block *= 2
        if at != limit:
            raise _corrupt(topic, partition, batch, "its records do not end where the batch ends")
    found.append(np.array(walked, np.int64))
    length, starts = _varints(raw, np.concatenate(found), VARINT_BYTES_MAX)
    if (length < RECORD_SIZE_MIN - 1).any():
        raise _corrupt(topic, partition, batches[0], "a record shorter than its fields")
    return starts, starts + length


def _equal_run(raw: NDArray[np.uint8], at: int, limit: int, count: int) -> tuple[int, int]:
    """How many records from `at` on have the length of the first one, and the distance between them."""
    import numpy as np

    first, second = int(raw[at]), int(raw[at + 1])
    if first < 128:
        step = (first >> 1) + 1
        same = raw[at : min(at + step * count, limit) : step] == first
    elif second < 128:
        step = (first >> 1) + (second << 6) - 62
        same = raw[at : min(at + step * count, limit - 1) : step] == first
        same &= raw[at + 1 : min(at + 1 + step * count, limit) : step] == second
    else:
        return 0, 0  # records of 8 KiB and more: so few that walking costs nothing
    return (len(same) if same.all() else int(np.argmin(same))), step


def _walk(plain: bytes, at: int, count: int, starts: list[int]) -> int:
    """Adds the starts of the next `count` records, from length to length (0.1 us a record); returns the end."""
    add = starts.append
    for _ in range(count):
        add(at)
        byte = plain[at]
        if byte < 128:
            at += (byte >> 1) + 1
            continue
        second = plain[at + 1]
        if second < 128:
            at += (byte >> 1) + (second << 6) - 62
            continue
        length, after = read_varint(plain, at)
        if length < 0:
            raise IndexError
        at = after + length
    return at


def _varints(raw: NDArray[np.uint8], at: Ints, bytes_max: int) -> tuple[Ints, Ints]:
    """Reads the zig-zag varint at every position: values, and the positions behind them.

    Round k reads byte k of those varints that go on; nearly all end in round one or two. The last byte of a varint of
    32 or 64 bits has room for few of its seven: more is an overflow.
    """
    import numpy as np

    last_shift, last_max = 7 * (bytes_max - 1), 15 if bytes_max == VARINT_BYTES_MAX else 1

    byte = raw[at]
    value = (byte & 127).astype(np.uint64)
    after = at + 1
    more = np.flatnonzero(byte > 127)
    shift = 7
    while len(more):
        byte = raw[after[more]]
        if shift == last_shift and (byte > last_max).any():
            raise IndexError
        value[more] |= (byte & 127).astype(np.uint64) << np.uint64(shift)
        after[more] += 1
        more = more[byte > 127]
        shift += 7
    one = np.uint64(1)
    return (value >> one).view(np.int64) ^ -(value & one).view(np.int64), after


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


def _headers(data: Buffer, counts: Ints, at: Ints, ends: Ints, refuse_if: Any) -> pa.Array:
    """The headers of every record: all first headers at once, then all second ones, then put back in record order."""
    import numpy as np
    import pyarrow as pa

    raw = np.frombuffer(data, np.uint8)
    rows = np.flatnonzero(counts)
    at = at.copy()
    # A header has two bytes at least: a count that the record cannot hold must not make arrays of its size.
    refuse_if(counts * 2 > ends - at, "more headers than its record can hold")
    total = int(counts.sum())
    places = np.concatenate(([0], np.cumsum(counts)))
    fields = [np.zeros(total, np.int64) for _ in range(6)]
    turn = 0
    while len(rows):
        key_length, key_start = _varints(raw, at[rows], VARINT_BYTES_MAX)
        refuse_if(key_length < 0, "a header without a key")
        key_end = key_start + key_length
        refuse_if(key_end >= ends[rows], "a header's key longer than its record")
        value_length, value_start = _varints(raw, key_end, VARINT_BYTES_MAX)
        refuse_if(value_length < -1, "a header of negative length")
        value_end = value_start + np.maximum(value_length, 0)
        refuse_if(value_end > ends[rows], "a header longer than its record")
        slot = places[rows] + turn
        for field, found in zip(
            fields, (key_start, key_end, key_length, value_start, value_end, value_length), strict=True
        ):
            field[slot] = found
        at[rows] = value_end
        turn += 1
        rows = rows[counts[rows] > turn]
    refuse_if(at != ends, "a record longer than its headers")
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

"""Rows into chunks, each the records of one batch. Rows keep their order within their partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from barnabas.client.errors import InvalidRecord, RecordTooLarge
from barnabas.client.produce.batch import RECORD_OVERHEAD_MAX, encode_headers
from barnabas.client.produce.checks import checked_headers, checked_partition
from barnabas.client.produce.columns.encode import encode_rows, lengths
from barnabas.client.produce.columns.given import table_of
from barnabas.client.produce.columns.murmur2 import murmur2_of
from barnabas.protocol.batch import HEADER_SIZE

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

CHOSEN: Final = -1
"""No partition was given: the partitioner's turn."""
_ROWS_MAX: Final = 32_768
_BYTES_MAX: Final = 8 << 20
"""What is encoded together: some milliseconds, and little memory on the way."""


@dataclass(slots=True, eq=False)
class Chunk:
    """Records of one batch: `area` is what stands behind its header, `rows` are their places in the table."""

    partition: int
    area: memoryview
    rows: Ints
    base_timestamp_ms: int
    max_timestamp_ms: int

    @property
    def size(self) -> int:
        """Bytes of the batch, header included."""
        return HEADER_SIZE + len(self.area)


class Rows:
    """A table that is to be sent.

    Attributes:
        largest_partition: of those given; -1 if none is.
        all_placed: every row has a partition.
    """

    def __init__(self, columns: Any, partition: int | None, stamp_ms: int) -> None:
        """Take a table; `partition` is for all rows, `stamp_ms` the time of those that have none.

        Raises:
            InvalidRecord: see `given.table_of`; or a partition is given twice.
        """
        import pyarrow.compute as pc

        self._table = table_of(columns)
        self._stamp_ms = stamp_ms
        self._partition = CHOSEN if partition is None else checked_partition(partition)
        self.largest_partition = self._partition
        self.all_placed = partition is not None
        if "partition" in self._table.column_names:
            if partition is not None:
                raise InvalidRecord("partition: given as an argument and as a column; leave one out")
            most = pc.max(self._table["partition"]).as_py()
            self.largest_partition = CHOSEN if most is None else most
            self.all_placed = not self._table["partition"].null_count
        if "headers" in self._table.column_names:
            at = self._table.column_names.index("headers")
            self._table = self._table.set_column(at, "headers", _encoded(self._table["headers"]))

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def check_sizes(self, limits: Mapping[str, int]) -> None:
        """Refuse all of them if one could never leave.

        Raises:
            RecordTooLarge: a record's bound is above one of `limits`, bytes by the setting's name.
        """
        for first, part in self._slices():
            sizes = HEADER_SIZE + _bounds(part)
            worst = int(sizes.argmax())
            for name, limit in limits.items():
                if sizes[worst] > limit:
                    told = f"a record of up to {sizes[worst]} bytes is larger than {name} ({limit})"
                    raise RecordTooLarge(told, row=first + worst)

    def chunks(self, partitions: int, batch_bytes: int) -> Iterator[Chunk]:
        """Everything, a part encoded at a time.

        Args:
            partitions: how many the topic has.
            batch_bytes: of a batch at most, header included, unless one record alone needs more.
        """
        for first, part in self._slices():
            bounds = _bounds(part)
            start = 0
            while start < len(bounds):
                reached = bounds[start:].cumsum()
                count = max(int(reached.searchsorted(_BYTES_MAX, "right")), 1)
                some = self._arrays(part.slice(start, count), first + start, partitions)
                yield from some.chunks(bounds[start : start + count], batch_bytes - HEADER_SIZE)
                start += count

    def _slices(self) -> Iterator[tuple[int, pa.Table]]:
        for first in range(0, len(self), _ROWS_MAX):
            yield first, self._table.slice(first, _ROWS_MAX)

    def _arrays(self, part: pa.Table, first: int, partitions: int) -> _Arrays:
        import numpy as np

        count = part.num_rows
        names = part.column_names
        key = _array(part, "key")
        partition = np.full(count, self._partition, np.int64)
        if "partition" in names:
            partition = part["partition"].fill_null(CHOSEN).to_numpy()
        if key is not None and partitions:
            keyed = (partition == CHOSEN) & (lengths(key, count) >= 0)
            if keyed.any():
                partition = np.where(keyed, (murmur2_of(key) & 0x7FFFFFFF) % partitions, partition)
        stamps = np.full(count, self._stamp_ms, np.int64)
        if "timestamp" in names:
            stamps = part["timestamp"].fill_null(self._stamp_ms).to_numpy()
        return _Arrays(
            np.arange(first, first + count), partition, stamps, key, _array(part, "value"), _array(part, "headers")
        )


@dataclass(slots=True, eq=False)
class _Arrays:
    """Some rows: their places in the table, where each goes, and what it holds."""

    rows: Ints
    partition: Ints
    stamps: Ints
    key: pa.Array | None
    value: pa.Array | None
    headers: pa.Array | None

    def chunks(self, bounds: Ints, area_bytes: int) -> Iterator[Chunk]:
        import numpy as np

        if (self.partition != self.partition[0]).any():
            order = np.argsort(self.partition, kind="stable")
            self._sort(order)
            bounds = bounds[order]
        starts = _cuts(bounds, self.partition, area_bytes)
        ends = np.append(starts[1:], len(bounds))
        counts = ends - starts
        number = np.arange(len(bounds)) - np.repeat(starts, counts)
        delta_ms = self.stamps - np.repeat(self.stamps[starts], counts)
        data, places = encode_rows(number, delta_ms, self.key, self.value, self.headers)
        latest = np.maximum.reduceat(self.stamps, starts)
        for start, end, most in zip(starts.tolist(), ends.tolist(), latest.tolist(), strict=True):
            area = data[int(places[start]) : int(places[end])]
            yield Chunk(int(self.partition[start]), area, self.rows[start:end], int(self.stamps[start]), most)

    def _sort(self, order: Ints) -> None:
        import pyarrow as pa

        at = pa.array(order)
        self.key, self.value, self.headers = (
            None if each is None else each.take(at) for each in (self.key, self.value, self.headers)
        )
        self.rows, self.partition, self.stamps = self.rows[order], self.partition[order], self.stamps[order]


def _array(part: pa.Table, name: str) -> pa.Array | None:
    import pyarrow as pa

    if name not in part.column_names:
        return None
    array = part[name].combine_chunks()
    return array if pa.types.is_binary(array.type) else array.cast(pa.binary())


def _encoded(headers: pa.ChunkedArray) -> pa.ChunkedArray:
    """Count and headers of each row as bytes: one by one, for they are seldom many."""
    import pyarrow as pa

    found = []
    for each in headers.to_pylist():
        pairs = [(one["key"], one["value"]) if isinstance(one, dict) else one for one in each or ()]
        found.append(encode_headers(checked_headers(pairs)))
    return pa.chunked_array([pa.array(found, pa.large_binary())])


def _bounds(part: pa.Table) -> Ints:
    """An upper bound of the bytes of each row's record."""
    import numpy as np
    import pyarrow.compute as pc

    bounds = np.full(part.num_rows, RECORD_OVERHEAD_MAX, np.int64)
    for name in {"key", "value", "headers"} & set(part.column_names):
        bounds += pc.binary_length(part[name]).fill_null(0).to_numpy()
    return bounds


def _cuts(bounds: Ints, partition: Ints, area_bytes: int) -> Ints:
    """Where chunks begin: with another partition, and where the next record might not fit any more."""
    import numpy as np

    reached = bounds.cumsum()
    groups = (np.flatnonzero(np.diff(partition)) + 1).tolist()
    starts: list[int] = []
    for start, end in zip([0, *groups], [*groups, len(bounds)], strict=True):
        at = start
        while at < end:
            starts.append(at)
            before = int(reached[at - 1]) if at else 0
            at = min(max(int(reached.searchsorted(before + area_bytes, "right")), at + 1), end)
    return np.array(starts, np.int64)

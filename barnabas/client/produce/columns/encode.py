"""The bytes of many records at once: heads with numpy, joined to keys and values by pyarrow.

record: varint length | i8 attributes | varlong timestampDelta | varint offsetDelta
        | varint keyLength (-1: null) | key | varint valueLength | value | varint headerCount | headers
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


def encode_rows(
    number: Ints, delta_ms: Ints, key: pa.Array | None, value: pa.Array | None, headers: pa.Array | None
) -> tuple[memoryview, Ints]:
    """All records one behind the other, and where each begins, and the last one ends.

    Args:
        number: offset of each within its batch.
        delta_ms: its time after that of the batch.
        key: a binary array; None means null in every row.
        value: likewise.
        headers: count and headers, encoded; None means none in every row.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    count = len(number)
    key_length, value_length = lengths(key, count), lengths(value, count)
    body = np.maximum(key_length, 0) + np.maximum(value_length, 0)
    body += 1 if headers is None else lengths(headers, count)
    fields = [_zigzag(each) for each in (np.zeros_like(number), delta_ms, number, key_length, value_length)]
    sizes = [_size(each) for each in fields]
    for size in sizes:
        body += size
    head = [_zigzag(body), *fields]
    sizes = [_size(head[0]), *sizes]
    parts: list[Any]
    if key is None:
        parts = [_varints(head, sizes)]
    else:
        parts = [_varints(head[:5], sizes[:5]), key, _varints(head[5:], sizes[5:])]
    parts += [] if value is None else [value]
    parts.append(pa.scalar(b"\0") if headers is None else headers)
    joined = pc.binary_join_element_wise(*parts, b"", null_handling="replace", null_replacement=b"")
    _, offsets, data = joined.buffers()
    places = np.frombuffer(offsets, np.int32)[joined.offset : joined.offset + count + 1].astype(np.int64)
    return memoryview(data), places


def lengths(array: pa.Array | None, count: int) -> Ints:
    """Bytes of each row; -1 stands for null."""
    import numpy as np
    import pyarrow.compute as pc

    if array is None:
        return np.full(count, -1, np.int64)
    found: Ints = pc.binary_length(array).fill_null(-1).to_numpy().astype(np.int64)
    return found


def _zigzag(values: Ints) -> NDArray[np.uint64]:
    import numpy as np

    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def _size(unsigned: NDArray[np.uint64]) -> Ints:
    """Bytes of each varint."""
    import numpy as np

    sizes = np.ones(len(unsigned), np.int64)
    left = int(unsigned.max()) >> 7
    bound = 7
    while left:
        sizes += unsigned >= np.uint64(1 << bound)
        left >>= 7
        bound += 7
    return sizes


def _varints(fields: list[NDArray[np.uint64]], sizes: list[Ints]) -> pa.Array:
    """Numbers of each row as varints, one behind the other: a binary array."""
    import numpy as np
    import pyarrow as pa

    count = len(fields[0])
    widths = [int(size.max()) for size in sizes]
    cells = np.empty((count, sum(widths)), np.uint8)
    used = np.ones(cells.shape, np.bool_)
    column = 0
    for values, size, width in zip(fields, sizes, widths, strict=True):
        for index in range(width):
            part = (values >> np.uint64(7 * index)).astype(np.uint8)
            if width == 1:
                cells[:, column] = part
            else:
                goes_on = (size > index + 1).astype(np.uint8) << np.uint8(7)
                cells[:, column] = (part & np.uint8(0x7F)) | goes_on
                used[:, column] = size > index
            column += 1
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(sum(sizes), out=offsets[1:])
    data = cells.ravel() if used.all() else cells[used]
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])

"""Standard input in pieces: what stands between delimiters, byte for byte, and no piece without bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from barnabas.cli.formats import BadInput

PIECE_BYTES_MAX: Final = 128 * 1024 * 1024
"""More than any broker takes as one record; a delimiter that never comes would fill the memory."""
_CHUNK_BYTES: Final = 64 * 1024


def pieces(read: Callable[[int], bytes], delimiter: bytes, bytes_max: int = PIECE_BYTES_MAX) -> Iterator[bytes]:
    """What stands between delimiters, as soon as it is there; all of it where the delimiter is empty.

    Args:
        read: gives at most so many bytes, none at the end.
        delimiter: what ends a piece; the last one need not have it.
        bytes_max: the longest piece that is waited for.

    Raises:
        BadInput: a piece is longer.
    """
    rest, number = bytearray(), 0
    while chunk := read(_CHUNK_BYTES):
        looked_at = max(len(rest) - len(delimiter) + 1, 0)
        rest += chunk
        if delimiter and rest.find(delimiter, looked_at) >= 0:
            *whole, rest = rest.split(delimiter)
            number += len(whole)
            yield from map(bytes, whole)
        if len(rest) > bytes_max:
            raise BadInput(f"record {number + 1} is longer than {bytes_max} bytes; is the delimiter right (-D)?")
    if rest:
        yield bytes(rest)

"""The four codecs of record batches, through `cramjam` (loaded when the first compressed batch is met).

What every Kafka client reads, and what some of them write:

    gzip     one member or several
    snappy   raw (librdkafka, Go) or xerial-framed (Java); written raw, which all of them read, Java too
    lz4      the frame format; written with independent blocks, the only kind Java reads
    zstd     one frame or several

Decompressed size is capped by bytes and by ratio before memory is spent on it.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from struct import Struct
from types import ModuleType
from typing import Any, Final

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.ids import Buffer

# xerial frame: magic 8 bytes | version i32 | oldest compatible version i32, then blocks of i32 length and raw snappy
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEAD_SIZE: Final = 16
_LENGTH: Final = Struct(">i")

BYTES_MAX: Final = 128 * 1024 * 1024
"""Bytes a batch may decompress to (Kafka's largest request is 100 MiB)."""
RATIO_MAX: Final = 32768
"""Bytes one compressed byte may become; all-zero zstd blocks of honest producers come near it."""
_FREE_BYTES: Final = 1024 * 1024
"""What any batch may decompress to, whatever the ratio."""
PART_BYTES_MIN: Final = 1024
"""Of what a batch may decompress to each of its parts (gzip's members, snappy's blocks) takes so much: it costs 2 to
8 µs though it holds nothing. Gzip is written as one member, snappy in blocks of 32 KiB, less at a flush."""
BLOCK_BYTES: Final = 32 * 1024
"""The same where no more than 1 MiB is wanted: who is in a hurry leaves what lies in smaller parts to others."""
_MEMBER: Final = b"\x1f\x8b\x08"
_MEMBER_BYTES_MIN: Final = 18
_COUNTED_AT_ONCE: Final = 1024 * 1024

LZ4_FAST: Final = 9
"""Kafka's default level of lz4 stands for its fast compressor, not for the slow one's ninth (Lz4BlockOutputStream)."""


class Codec(IntEnum):
    """Codec numbers as the lowest three bits of a batch's attributes hold them."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressionError(ProtocolError):
    """Compressed data that is broken, of an unknown codec, or larger than the caps allow."""


class HoldsTooMuch(DecompressionError):
    """Compressed data that is larger than the caps allow."""


@cache
def _cramjam() -> ModuleType:
    import cramjam

    module: ModuleType = cramjam
    return module


def compress(codec: int, data: Buffer, level: int | None = None) -> Buffer:
    """`data` compressed; `level` is the codec's own (gzip 1 to 9, lz4 1 to 17, zstd -131072 to 22; snappy has none).

    Raises:
        ValueError: an unknown codec.
    """
    if codec == Codec.NONE:
        return data
    cramjam = _cramjam()
    if codec == Codec.GZIP:
        return memoryview(cramjam.gzip.compress(data, level if level is not None else 6))
    if codec == Codec.ZSTD:
        return memoryview(cramjam.zstd.compress(data, level if level is not None else 3))
    if codec == Codec.LZ4:
        stream = CompressStream(codec, level=level)
        stream.add(data if isinstance(data, bytes) else bytes(data))  # it takes nothing else
        return stream.finish()
    if codec == Codec.SNAPPY:
        return memoryview(cramjam.snappy.compress_raw(data))
    raise ValueError(f"codec {codec} is unknown")


class CompressStream:
    """Compresses piece by piece, for who may not take long over one; snappy has no such form and is taken at the end.

    Raises:
        ValueError: an unknown codec, or none.
    """

    __slots__ = ("_codec", "_held", "_stream")

    def __init__(self, codec: int, *, level: int | None = None) -> None:
        cramjam = _cramjam()
        self._codec = codec
        self._held = bytearray()
        self._stream: Any = None
        if codec == Codec.GZIP:
            self._stream = cramjam.gzip.Compressor(level=level if level is not None else 6)
        elif codec == Codec.ZSTD:
            self._stream = cramjam.zstd.Compressor(level=level if level is not None else 3)
        elif codec == Codec.LZ4:
            level = None if level == LZ4_FAST else level
            self._stream = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        elif codec != Codec.SNAPPY:
            raise ValueError(f"codec {codec} cannot be compressed by pieces")

    @property
    def least_bytes(self) -> int:
        """Bytes that this is compressed, at least, where all of it is held until then: snappy's 3 are 64 at most."""
        return len(self._held) * 3 // 64

    def add(self, data: bytes) -> None:
        """Take the next piece."""
        if self._stream is None:
            self._held += data
        else:
            self._stream.compress(data)

    def finish(self) -> Buffer:
        """All of it, compressed."""
        if self._stream is None:
            return compress(self._codec, self._held)
        return memoryview(self._stream.finish())


def decompress(codec: int, data: Buffer, *, bytes_max: int = BYTES_MAX, ratio_max: int = RATIO_MAX) -> Buffer:
    """`data` decompressed.

    Args:
        codec: number of the codec.
        data: the compressed record area of one batch.
        bytes_max: most bytes the result may have.
        ratio_max: most bytes one compressed byte may become (a result of up to 1 MiB always passes).

    Raises:
        HoldsTooMuch: a cap is passed, or the data is in more parts than such a result has.
        DecompressionError: the data is broken, or the codec unknown.
    """
    if codec == Codec.NONE:
        return data
    cap = min(bytes_max, max(len(data) * ratio_max, _FREE_BYTES))
    if codec == Codec.SNAPPY:
        return _decompress_snappy(data, cap)
    cramjam = _cramjam()
    if codec == Codec.GZIP:
        _count_members(data, cap)
        return _grow(cramjam, cramjam.gzip.decompress_into, data, cap)
    if codec == Codec.LZ4:
        return _grow(cramjam, cramjam.lz4.decompress_into, data, cap)
    if codec == Codec.ZSTD:
        return _grow(cramjam, cramjam.zstd.decompress_into, data, cap)
    raise DecompressionError(f"codec {codec} is unknown")


def _grow(cramjam: ModuleType, decompress_into: Any, data: Buffer, cap: int) -> bytearray:
    """Decompress into a buffer that begins small and grows eightfold while the result does not fit."""
    size = min(max(4 * len(data), 16 * 1024), cap)
    while True:
        out = bytearray(size)
        try:
            used: int = decompress_into(data, out)
        except cramjam.DecompressionError as exc:
            if "failed to write whole buffer" not in str(exc):
                raise DecompressionError(f"compressed data is broken: {exc}") from None
            if size >= cap:
                raise _too_large(len(data), cap) from None
            size = min(size * 8, cap)
            continue
        del out[used:]
        return out


def _too_large(size: int, cap: int) -> HoldsTooMuch:
    return HoldsTooMuch(f"{size} compressed bytes hold more than {cap} bytes, the most allowed")


def _in_too_many(size: int, most: int) -> HoldsTooMuch:
    return HoldsTooMuch(f"{size} compressed bytes are in more than {most} parts, the most allowed")


def _parts_max(cap: int) -> int:
    return cap // (PART_BYTES_MIN if cap > _FREE_BYTES else BLOCK_BYTES) + 1


def _count_members(data: Buffer, cap: int) -> None:
    """Look at what may begin a member; 2^24 bytes of honest data look like one by chance.

    Raises:
        HoldsTooMuch: there are too many.
    """
    most = _parts_max(cap)
    if len(data) > most * _MEMBER_BYTES_MIN:
        view = memoryview(data)
        pieces = (bytes(view[at : at + _COUNTED_AT_ONCE]) for at in range(0, len(data), _COUNTED_AT_ONCE))
        if sum(piece.count(_MEMBER) for piece in pieces) > most:
            raise _in_too_many(len(data), most)


def _decompress_snappy(data: Buffer, cap: int) -> Buffer:
    view = memoryview(data)
    if bytes(view[:8]) != _XERIAL_MAGIC:
        return _raw_snappy(view, cap)
    out = bytearray()
    parts, parts_max = 0, _parts_max(cap)
    position = _XERIAL_HEAD_SIZE
    while position < len(view):
        if len(view) - position < 4:
            raise DecompressionError("compressed data is broken: a snappy block has no length")
        length: int = _LENGTH.unpack_from(view, position)[0]
        position += 4
        if not 0 < length <= len(view) - position:
            raise DecompressionError(
                f"compressed data is broken: a snappy block announces {length} bytes, {len(view) - position} are left"
            )
        parts += 1
        if parts > parts_max:
            raise _in_too_many(len(data), parts_max)
        part = _raw_snappy(view[position : position + length], cap - len(out))
        if out:
            out += part
        else:
            out = part
        position += length
    return out


def _raw_snappy(data: memoryview, cap: int) -> bytearray:
    cramjam = _cramjam()
    snappy = cramjam.snappy
    try:
        size: int = snappy.decompress_raw_len(data)
        if size > cap:
            raise _too_large(len(data), cap)
        out = bytearray(size)
        used: int = snappy.decompress_raw_into(data, out)
    except cramjam.DecompressionError as exc:
        raise DecompressionError(f"compressed data is broken: {exc}") from None
    del out[used:]
    return out

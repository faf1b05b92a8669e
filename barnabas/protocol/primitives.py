"""Variable-length integers and the checksum, shared by both dialects and the record format.

An unsigned varint is base 128, least significant group first, high bit set on all bytes but the last (at most five
bytes for 32 bits, ten for 64). A signed one is zig-zagged first: 0, -1, 1, -2 become 0, 1, 2, 3. Source: Kafka's
`ByteUtils`.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import PathFinder
from typing import Final, Protocol

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.ids import Buffer


class _Crc32c(Protocol):
    def __call__(self, data: Buffer, value: int = 0, /) -> int: ...


def _load_crc32c() -> _Crc32c:
    """The extension of the `crc32c` package, without the package: its command line imports cost 50 ms."""
    package = importlib.util.find_spec("crc32c")
    name = "crc32c._crc32c"
    spec = PathFinder.find_spec(name, package.submodule_search_locations) if package else None
    if spec is None or spec.loader is None:
        raise ImportError("the package crc32c is not installed, or has no extension for this platform")
    module = sys.modules.get(name)
    if module is None:
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    function: _Crc32c = module.crc32c
    return function


crc32c: Final = _load_crc32c()
"""CRC-32C of a buffer: `crc32c(data)`; of the next part of one, `crc32c(data, that of what is before it)`."""


class VarintError(ProtocolError):
    """A varint of more bytes or bits than its type has."""


def read_uvarint(data: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits and the position after it.

    Raises:
        VarintError: more than five bytes, or more than 32 bits.
        IndexError: the bytes end within it.
    """
    value = data[position]
    if value < 128:
        return value, position + 1
    second = data[position + 1]
    if second < 128:
        return value & 127 | second << 7, position + 2
    third = data[position + 2]
    value = value & 127 | (second & 127) << 7 | (third & 127) << 14
    if third < 128:
        return value, position + 3
    for size in (4, 5):
        byte = data[position + size - 1]
        value |= (byte & 127) << 7 * (size - 1)
        if byte < 128:
            if value > 0xFFFFFFFF:
                raise VarintError(f"varint at byte {position} is {value}, which is more than 32 bits")
            return value, position + size
    raise VarintError(f"varint at byte {position} is longer than 5 bytes")


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """A zig-zag varint of 32 bits and the position after it; raises like `read_uvarint`."""
    value, position = read_uvarint(data, position)
    return (value >> 1) ^ -(value & 1), position


def read_varlong(data: Buffer, position: int) -> tuple[int, int]:
    """A zig-zag varint of 64 bits and the position after it.

    Raises:
        VarintError: more than ten bytes, or more than 64 bits.
        IndexError: the bytes end within it.
    """
    value = shift = 0
    start = position
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise VarintError(f"varlong at byte {start} is longer than 10 bytes")
    if value > 0xFFFFFFFFFFFFFFFF:
        raise VarintError(f"varlong at byte {start} is more than 64 bits")
    return (value >> 1) ^ -(value & 1), position


def uvarint(value: int) -> bytes:
    """An unsigned number as a varint."""
    if value < 128:
        return bytes((value,))
    if value < 1 << 14:
        return bytes((value & 127 | 128, value >> 7))
    if value < 1 << 21:
        return bytes((value & 127 | 128, value >> 7 & 127 | 128, value >> 14))
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value: int) -> bytes:
    """A signed number of at most 64 bits as a zig-zag varint."""
    return uvarint(value << 1 if value >= 0 else (-value << 1) - 1)

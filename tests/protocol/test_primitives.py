"""Varints and the checksum against known values."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.primitives import (
    VarintError,
    crc32c,
    read_uvarint,
    read_varint,
    read_varlong,
    uvarint,
    varint,
)


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")]
)
def test_unsigned(value: int, encoded: str) -> None:
    assert uvarint(value).hex() == encoded
    assert read_uvarint(bytes.fromhex("ff" + encoded + "ff"), 1) == (value, 1 + len(encoded) // 2)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (-2, "03"), (63, "7e"), (64, "8001"), (-(2**31), "ffffffff0f")],
)
def test_signed(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded
    assert read_varint(bytes.fromhex(encoded), 0) == (value, len(encoded) // 2)


@given(st.integers(-(2**63), 2**63 - 1))
def test_long(value: int) -> None:
    data = varint(value)
    assert read_varlong(data, 0) == (value, len(data))


@pytest.mark.parametrize("data", ["808080808001", "ffffffffff0f", "ffffffff10", "ffffffff7f"])
def test_more_than_32_bits(data: str) -> None:
    for read in (read_uvarint, read_varint):
        with pytest.raises(VarintError, match="at byte 0"):
            read(bytes.fromhex(data), 0)


@pytest.mark.parametrize("data", ["80" * 10 + "01", "ff" * 9 + "02"])
def test_more_than_64_bits(data: str) -> None:
    with pytest.raises(VarintError, match="at byte 0"):
        read_varlong(bytes.fromhex(data), 0)


def test_the_checksum_is_castagnoli() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(memoryview(bytearray(b"x123456789"))[1:]) == 0xE3069283


def test_the_checksum_loads_without_its_package() -> None:
    """Importing the package costs 50 ms of start time, so only its extension is loaded; both may still meet."""
    code = (
        "import sys; import barnabas.protocol.primitives as p; assert 'crc32c' not in sys.modules;"
        "import crc32c; assert crc32c.crc32c(b'123456789') == p.crc32c(b'123456789')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

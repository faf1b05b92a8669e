"""Four codecs both ways, the forms other clients write, and the caps."""

from __future__ import annotations

import gzip
import tracemalloc
from random import Random

import cramjam
import pytest
from aiokafka import codec as other
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol import compression
from barnabas.protocol.compression import Codec, DecompressionError, HoldsTooMuch, compress, decompress

REAL = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"the quick brown fox " * 5000


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("data", [b"", b"x", TEXT, Random(1).randbytes(100_000), bytes(3_000_000)])
def test_round_trip(codec: Codec, data: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, data))) == data
    assert bytes(decompress(codec, memoryview(bytearray(compress(codec, memoryview(data)))))) == data


@settings(max_examples=50)
@given(st.sampled_from(REAL), st.binary(max_size=2000))
def test_round_trip_of_anything(codec: Codec, data: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, data))) == data


def test_what_another_client_writes_is_read() -> None:
    assert bytes(decompress(Codec.GZIP, other.gzip_encode(TEXT))) == TEXT
    assert (
        bytes(decompress(Codec.SNAPPY, other.snappy_encode(TEXT, xerial_compatible=True, xerial_blocksize=1000)))
        == TEXT
    )
    assert bytes(decompress(Codec.SNAPPY, other.snappy_encode(TEXT, xerial_compatible=False))) == TEXT
    assert bytes(decompress(Codec.LZ4, other.lz4_encode(TEXT))) == TEXT
    assert bytes(decompress(Codec.ZSTD, other.zstd_encode(TEXT))) == TEXT


def test_what_we_write_another_client_reads() -> None:
    assert other.gzip_decode(bytes(compress(Codec.GZIP, TEXT))) == TEXT
    assert bytes(other.snappy_decode(bytes(compress(Codec.SNAPPY, TEXT)))) == TEXT
    assert bytes(other.lz4_decode(bytes(compress(Codec.LZ4, TEXT)))) == TEXT
    assert bytes(other.zstd_decode(bytes(compress(Codec.ZSTD, TEXT)))) == TEXT


def test_lz4_blocks_are_independent() -> None:
    """Java refuses linked blocks: the frame's flags say version 1 and independence."""
    head = bytes(compress(Codec.LZ4, TEXT))[:5]
    assert head[:4].hex() == "04224d18"
    assert head[4] & 0b1110_0000 == 0b0110_0000


def test_levels() -> None:
    for codec, low, high in ((Codec.GZIP, 1, 9), (Codec.LZ4, 1, 12), (Codec.ZSTD, 1, 19)):
        small, large = compress(codec, TEXT, high), compress(codec, TEXT, low)
        assert bytes(decompress(codec, small)) == bytes(decompress(codec, large)) == TEXT


@pytest.mark.parametrize("codec", REAL)
def test_the_cap_on_bytes(codec: Codec) -> None:
    data = compress(codec, TEXT)
    assert bytes(decompress(codec, data, bytes_max=len(TEXT))) == TEXT
    with pytest.raises(DecompressionError, match=f"hold more than {len(TEXT) - 1} bytes"):
        decompress(codec, data, bytes_max=len(TEXT) - 1)


@pytest.mark.parametrize("codec", REAL)
def test_the_cap_on_ratio_holds_above_1_mib(codec: Codec) -> None:
    for size in (1024 * 1024, 1024 * 1024 + 1):
        data = compress(codec, bytes(size))
        if size == 1024 * 1024:
            assert len(decompress(codec, data, ratio_max=1)) == size
        else:
            with pytest.raises(DecompressionError, match="the most allowed"):
                decompress(codec, data, ratio_max=1)


def test_a_bomb_costs_no_more_than_the_cap() -> None:
    bomb = cramjam.zstd.compress(bytes(50_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(DecompressionError, match="hold more than 1000000 bytes"):
            decompress(Codec.ZSTD, bytes(bomb), bytes_max=1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


def test_a_xerial_frame_is_capped_as_a_whole() -> None:
    data = other.snappy_encode(TEXT, xerial_compatible=True, xerial_blocksize=1000)
    with pytest.raises(DecompressionError, match="the most allowed"):
        decompress(Codec.SNAPPY, data, bytes_max=len(TEXT) - 1)


XERIAL = b"\x82SNAPPY\x00\0\0\0\1\0\0\0\1"


@pytest.mark.parametrize(
    ("codec", "head", "part"),
    [(Codec.GZIP, b"", gzip.compress(b"x")), (Codec.SNAPPY, XERIAL, b"\0\0\0\3\1\0x")],
    ids=["gzip", "snappy"],
)
def test_the_parts_of_a_batch_are_bounded_by_what_it_may_hold(codec: Codec, head: bytes, part: bytes) -> None:
    """A MB of the smallest took 0.4 s, whatever it held, and 20 MB of snappy's 570 MB."""
    for bytes_max, most in ((2**20, 33), (2**20 + 1, 1_025), (2**21, 2_049)):
        assert bytes(decompress(codec, head + part * most, bytes_max=bytes_max)) == b"x" * most
        with pytest.raises(HoldsTooMuch, match=f"in more than {most} parts"):
            decompress(codec, head + part * (most + 1), bytes_max=bytes_max)


@pytest.mark.parametrize("block_bytes", [1024, 32 * 1024])
def test_the_blocks_of_honest_producers_are_read_up_to_the_cap(block_bytes: int) -> None:
    """A KiB in those of Java before Kafka 0.10, 32 KiB since."""
    data = Random(2).randbytes(32 * block_bytes + 2**20)
    packed = other.snappy_encode(data, xerial_compatible=True, xerial_blocksize=block_bytes)
    assert bytes(decompress(Codec.SNAPPY, packed, bytes_max=len(data))) == data


def test_blocks_of_snappy_are_held_once() -> None:
    packed = other.snappy_encode(bytes(16_000_000), xerial_compatible=True, xerial_blocksize=32 * 1024)
    decompress(Codec.SNAPPY, packed)
    tracemalloc.start()
    try:
        assert len(decompress(Codec.SNAPPY, packed)) == 16_000_000
        assert tracemalloc.get_traced_memory()[1] < 24_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", REAL)
def test_broken_data_is_refused(codec: Codec) -> None:
    good = bytes(compress(codec, TEXT))
    for bad in (b"garbage" * 20, good[: len(good) // 2], b""):
        if codec == Codec.GZIP and not bad:
            continue  # no member at all is an empty result
        with pytest.raises(DecompressionError):
            assert bytes(decompress(codec, bad)) == TEXT


@pytest.mark.parametrize("tail", ["00", "0000000a61", "00000000", "ffffffff", "0000000361ffff"])
def test_broken_xerial_blocks_are_refused(tail: str) -> None:
    with pytest.raises(DecompressionError, match="broken"):
        decompress(Codec.SNAPPY, bytes.fromhex("82534e415050590000000001000000 01" + tail))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs(codec: int) -> None:
    with pytest.raises(DecompressionError, match=f"codec {codec} is unknown"):
        decompress(codec, b"x")
    with pytest.raises(ValueError, match=f"codec {codec} is unknown"):
        compress(codec, b"x")


def test_kafkas_default_level_of_lz4_is_its_fast_compressor() -> None:
    data = b"".join(b"%d " % (number * number) for number in range(5000))
    assert compress(Codec.LZ4, data, 9) == compress(Codec.LZ4, data)
    assert len(compress(Codec.LZ4, data, 10)) < len(compress(Codec.LZ4, data))


def test_unless_told_otherwise_a_batch_has_128_mib_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    caps: list[int] = []

    def grow(_module: object, _into: object, _data: bytes, cap: int) -> bytearray:
        caps.append(cap)
        return bytearray()

    monkeypatch.setattr(compression, "_grow", grow)
    for size in (1, 1000, 1_000_000):
        decompress(Codec.ZSTD, bytes(size))
    assert caps == [1 << 20, 1000 * 32768, 128 << 20]

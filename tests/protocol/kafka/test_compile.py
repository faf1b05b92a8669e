"""Shapes that no table of today uses, on a table made for the test."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import EncodeError, ProtocolError
from barnabas.protocol.kafka.compile import compile_decoder, compile_encoder
from barnabas.protocol.kafka.schema import (
    BOOL,
    BYTES,
    INT8,
    INT16,
    INT32,
    STRING,
    UUID,
    Api,
    Array,
    Field,
    Struct,
    version_range,
)


@dataclass(slots=True)
class Cursor:
    name: str = ""
    at: int = -1


@dataclass(slots=True)
class Probe:
    flag: bool = True
    cursor: Cursor | None = None
    data: bytes | None = b""
    ids: list[bytes] = field(default_factory=list)
    names: list[str] | None = None
    late: int = 5
    tagged_names: list[str] = field(default_factory=list)
    tagged_cursor: Cursor | None = None


PROBE = Struct(
    Probe,
    Field("flag", BOOL, "0+"),
    Field("cursor", Struct(Cursor, Field("name", STRING, "0+"), Field("at", INT32, "0+")), "0+", nullable="0+"),
    Field("data", BYTES, "0+", nullable="1+"),
    Field("ids", Array(UUID), "0+"),
    Field("names", Array(STRING), "0+", nullable="0+"),
    Field("late", INT16, "1-2"),
    Field("tagged_names", Array(STRING), "2+", tag=1),
    Field("tagged_cursor", Struct(Cursor, Field("name", STRING, "2+"), Field("at", INT8, "2+")), "2+", tag=0),
)
API = Api(ApiKey.METADATA, flexible_from=2, request=PROBE, response=PROBE)  # whose number is of no matter here


def round_trip(version: int, probe: Probe) -> bytes:
    data = b"".join(compile_encoder(API, version, response=False)(bytearray(), probe))
    assert compile_decoder(API, version, response=False)(data, 0) == (probe, len(data))
    return data


@pytest.mark.parametrize(
    "probe",
    [
        Probe(),
        Probe(False, Cursor("x", 3), b"abc", [bytes(16), b"u" * 16], ["a", ""]),
        Probe(data=b"d" * 200, names=["n" * 200] * 200),
    ],
)
@pytest.mark.parametrize("version", range(4))
def test_every_shape_comes_back(version: int, probe: Probe) -> None:
    round_trip(version, probe)


def test_a_nullable_struct_has_a_marker() -> None:
    assert round_trip(0, Probe()).hex() == "01" + "ff" + "00000000" + "00000000" + "ffffffff"
    data = round_trip(0, Probe(cursor=Cursor("a", 2))).hex()
    assert data == "01" + "01" + "000161" + "00000002" + "00000000" + "00000000" + "ffffffff"
    assert (
        round_trip(3, Probe(cursor=Cursor("a", 2))).hex()
        == "01" + "01" + "0261" + "00000002" + "00" + "01" + "01" + "00" + "00"
    )


def test_tags_are_elided_at_their_default_and_ascend() -> None:
    probe = Probe(tagged_names=["a"], tagged_cursor=Cursor("b", 1))
    assert round_trip(3, probe).hex().endswith("02" + "00" + "04" + "0262" + "01" + "00" + "01" + "03" + "02" + "0261")
    elided = b"".join(compile_encoder(API, 3, response=False)(bytearray(), Probe(tagged_cursor=Cursor())))
    assert elided == round_trip(3, Probe())


def test_null_where_it_is_not_allowed() -> None:
    with pytest.raises(EncodeError, match="Metadata v0 request: data cannot be written"):
        compile_encoder(API, 0, response=False)(bytearray(), Probe(data=None))
    with pytest.raises(ProtocolError, match="data is null"):
        compile_decoder(API, 0, response=False)(b"\x01\xff\xff\xff\xff\xff", 0)
    round_trip(1, Probe(data=None))


def test_a_value_outside_its_versions_is_refused_unless_default() -> None:
    for version in (0, 3):
        round_trip(version, Probe())
        with pytest.raises(EncodeError, match=r"cannot carry late=6"):
            compile_encoder(API, version, response=False)(bytearray(), Probe(late=6))
    round_trip(1, Probe(late=6))


@pytest.mark.parametrize(("text", "expected"), [("3+", (3, 32767)), ("0-12", (0, 12)), ("8", (8, 8)), ("", (1, 0))])
def test_version_ranges(text: str, expected: tuple[int, int]) -> None:
    assert version_range(text) == expected

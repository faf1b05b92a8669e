"""Serializers by name and by function, and what they refuse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.errors import SerializationFailed
from barnabas.client.serializers import SERIALIZERS, deserializer, serialize, serializer
from barnabas.net.errors import ConfigError

PLAIN = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(PLAIN)
@pytest.mark.parametrize("name", ["json", "msgpack"])
def test_values_come_back(name, value):
    data = serializer(name, "value.serializer")(value)
    assert isinstance(data, bytes)
    assert deserializer(name, "value.deserializer")(data) == value


def test_string_and_bytes():
    assert serializer("string", "k")("grüß") == "grüß".encode()
    assert deserializer("string", "k")("grüß".encode()) == "grüß"
    assert serializer(None, "k")(bytearray(b"x")) == b"x"
    assert serializer("bytes", "k")(memoryview(b"xy")) == b"xy"


@pytest.mark.parametrize("name", SERIALIZERS)
def test_none_stays_none(name):
    assert serializer(name, "k")(None) is None


def test_functions_and_objects():
    class Upper:
        def serialize(self, value):
            return value.upper().encode()

    assert serializer(lambda value: b"<%d>" % value, "k")(3) == b"<3>"
    assert serializer(Upper(), "k")("a") == b"A"


def test_refusals():
    with pytest.raises(ConfigError, match=r"value\.serializer: 'xml' is none of"):
        serializer("xml", "value.serializer")
    with pytest.raises(ConfigError, match="neither a function"):
        serializer(3, "value.serializer")
    with pytest.raises(SerializationFailed, match="value: bytes wanted, not str"):
        serialize(serializer("bytes", "k"), "value", "text")
    with pytest.raises(SerializationFailed, match="returned int, not bytes"):
        serialize(lambda value: value, "key", 3)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("string", b"x", r"value: a string wanted, not bytes; give str\(value\), or set another serializer \(bytes,"),
        (
            "json",
            {1, 2},
            r"value: Object of type set is not JSON serializable; give what JSON can write, or set another",
        ),
        ("msgpack", object(), r"value: can not serialize 'object' object; give what msgpack can write, or set another"),
    ],
)
def test_a_wrong_type_is_told_with_its_remedy(name, value, why):
    with pytest.raises(SerializationFailed, match=why):
        serialize(serializer(name, "value.serializer"), "value", value)

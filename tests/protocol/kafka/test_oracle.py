"""Every message at every version served, byte for byte against an independent implementation, both ways."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from barnabas.protocol.api import REQUESTS, RESPONSES, SPOKEN, ApiKey
from barnabas.protocol.kafka import APIS, codec
from tests.protocol.kafka import oracle

PAIRS = [
    pytest.param(key, version, response, id=f"{ApiKey(key).name}-v{version}-{'response' if response else 'request'}")
    for key, (first, last) in SPOKEN.items()
    for version in range(first, last + 1)
    for response in (False, True)
]


def body(key: int, version: int, response: bool, message: Any) -> bytes:
    """Our bytes behind the header."""
    if response:
        frame = b"".join(codec.encode_response(key, version, 1, message))
        head = 9 if APIS[key].is_flexible(version) and key != ApiKey.API_VERSIONS else 8
    else:
        frame = b"".join(codec.encode_request(key, version, 1, None, message))
        head = 15 if APIS[key].is_flexible(version) else 14
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return frame[head:]


def parse(key: int, version: int, response: bool, data: bytes) -> Any:
    """Our message from the oracle's bytes, through whole frames."""
    flexible = APIS[key].is_flexible(version)
    if response:
        head = b"\0\0\0\1" + (b"\0" if flexible and key != ApiKey.API_VERSIONS else b"")
        return codec.decode_response(key, version, memoryview(head + data))[1]
    head = key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1\xff\xff" + (b"\0" if flexible else b"")
    return codec.decode_request(memoryview(head + data))[1]


@pytest.mark.parametrize(("key", "version", "response"), PAIRS)
def test_bytes_agree_with_the_oracle(key: int, version: int, response: bool) -> None:
    cls = (RESPONSES if response else REQUESTS)[key]
    theirs = oracle.kio_class(key, version, response=response)
    # Trap: an empty fetch is zero-length records, never null, so ours never writes what the oracle would for None.
    nulls = not (key == ApiKey.FETCH and response)
    for seed in range(12):
        random = Random(seed)
        entity = oracle.generate(random, theirs, nulls=nulls)
        expected = oracle.write(entity)
        message = oracle.ours(entity, cls)
        assert body(key, version, response, message) == expected, f"seed {seed}"
        assert parse(key, version, response, expected) == message, f"seed {seed}"
        assert oracle.read(theirs, body(key, version, response, message)) == entity, f"seed {seed}"


@pytest.mark.parametrize(("key", "version", "response"), PAIRS)
def test_defaults_travel(key: int, version: int, response: bool) -> None:
    """Tagged fields at their default: elided by us, and the oracle reads what is left."""
    cls = (RESPONSES if response else REQUESTS)[key]
    data = body(key, version, response, cls())
    entity = oracle.read(oracle.kio_class(key, version, response=response), data)
    assert oracle.ours(entity, cls) == cls()
    assert parse(key, version, response, data) == cls()

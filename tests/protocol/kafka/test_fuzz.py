"""Whatever comes in, a decoder answers with a message or a ProtocolError, and spends memory by what came."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.api import REQUESTS, RESPONSES, SPOKEN, ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.kafka import codec
from tests.protocol.kafka import oracle

LATEST = [(key, version) for key, versions in SPOKEN.items() for version in sorted({*versions, sum(versions) // 2})]
ids = [f"{ApiKey(key).name}-v{version}" for key, version in LATEST]


def good_request(random: Random, key: int, version: int) -> bytes:
    entity = oracle.generate(random, oracle.kio_class(key, version, response=False))
    return b"".join(codec.encode_request(key, version, 1, "fuzz", oracle.ours(entity, REQUESTS[key])))[4:]


def good_response(random: Random, key: int, version: int) -> bytes:
    entity = oracle.generate(random, oracle.kio_class(key, version, response=True))
    return b"".join(codec.encode_response(key, version, 1, oracle.ours(entity, RESPONSES[key])))[4:]


def damaged(random: Random, data: bytes) -> bytes:
    spoiled = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 4])):
        at = random.randrange(len(spoiled))
        spoiled[at : at + random.choice([0, 1, 4])] = random.choice(
            [b"\xff", b"\x7f\xff\xff\xff", b"\x80\x80\x80\x80\x08", bytes([random.randrange(256)]), b""]
        )
        if not spoiled:
            break
    return bytes(spoiled)


@pytest.mark.parametrize(("key", "version"), LATEST, ids=ids)
def test_damaged_frames_are_read_or_refused(key: int, version: int) -> None:
    random = Random(key * 100 + version)
    refused = 0
    for _ in range(40):
        request, response = good_request(random, key, version), good_response(random, key, version)
        for _ in range(5):
            try:
                codec.decode_request(memoryview(damaged(random, request)))
            except ProtocolError:
                refused += 1
            try:
                codec.decode_response(key, version, memoryview(damaged(random, response)))
            except ProtocolError:
                refused += 1
    assert refused > 20  # the damage was real


@pytest.mark.parametrize(("key", "version"), LATEST, ids=ids)
def test_every_cut_of_a_message_is_refused(key: int, version: int) -> None:
    random = Random(version)
    data = good_request(random, key, version)
    for size in range(len(data)):
        with pytest.raises(ProtocolError):
            codec.decode_request(memoryview(data[:size]))
    data = good_response(random, key, version)[:2000]
    try:
        codec.decode_response(key, version, memoryview(data))
        whole = len(data)
    except ProtocolError:
        whole = len(data) + 1
    for size in range(min(whole, len(data))):
        with pytest.raises(ProtocolError):
            codec.decode_response(key, version, memoryview(data[:size]))


@settings(max_examples=300)
@given(st.sampled_from(LATEST), st.binary(max_size=200))
def test_random_bytes_are_read_or_refused(api: tuple[int, int], data: bytes) -> None:
    key, version = api
    head = key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1\xff\xff"
    for attempt in (lambda: codec.decode_request(head + data), lambda: codec.decode_response(key, version, data)):
        with suppress(ProtocolError):
            attempt()


@pytest.mark.parametrize(("key", "version"), LATEST, ids=ids)
def test_promised_counts_cost_nothing(key: int, version: int) -> None:
    """Every place of a good frame overwritten with huge counts: memory stays in proportion to the bytes received."""
    random = Random(7)
    data = good_request(random, key, version)[:400]
    with suppress(ProtocolError):
        codec.decode_request(data)  # compiled before the count begins
    tracemalloc.start()
    try:
        for at in range(10, len(data)):
            for huge in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07"):
                spoiled = data[:at] + huge + data[at + len(huge) :]
                with suppress(ProtocolError):
                    codec.decode_request(memoryview(spoiled))
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()

"""What the generator of extremes reaches, told by what the broker made of it: decoded and served, or refused unread.

Every API and version in both dialects with strings and bytes at their limits and beyond; every array of every API with
as many elements as `limits` allows, and with one more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from barnabas.protocol.api import BROKER_VERSIONS, VERSIONS, ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.kafka import APIS
from barnabas.protocol.kafka import codec as kafka
from barnabas.protocol.kafka.compile import compile_encoder
from barnabas.protocol.kafka.schema import BYTES, STRING, Array
from barnabas.protocol.limits import FEW, NATIVE_SHARE, REQUEST_ELEMENTS_MAX
from barnabas.protocol.native import codec as native
from tests.broker.node.world import World
from tests.hostile.extremes import TEXT_MAX, exact, paths
from tests.hostile.steps import LARGEST, largest_frame
from tests.hostile.test_extremes import serve

DIALECTS: dict[str, Any] = {"kafka": kafka, "native": native}
DATA_MAX = 2**20


@pytest.fixture(scope="module")
def world() -> World:
    world = World(num_partitions=1)
    world.create("s", 1)
    return world


def versions(key: int, dialect: str) -> list[int]:
    """All of them; the native dialect has all fields at any, so one of them will do."""
    first, last = VERSIONS[key]
    return list(range(first, last + 1)) if dialect == "kafka" else [last]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("key", VERSIONS, ids=lambda key: ApiKey(key).name)
def test_strings_and_bytes_at_their_limits_are_served_in_every_version(world: World, key: int, dialect: str) -> None:
    for version in versions(key, dialect):
        one = exact(key, version, DIALECTS[dialect], text=TEXT_MAX, data=DATA_MAX)
        kinds = [kind for _, kind in paths(APIS[key].request, version)]
        assert len(one.frame) > TEXT_MAX * kinds.count(STRING) + DATA_MAX * kinds.count(BYTES)
        assert serve(world, one) == "answered", one


@pytest.mark.parametrize("key", VERSIONS, ids=lambda key: ApiKey(key).name)
def test_a_string_that_is_one_byte_longer_is_refused_where_it_can_be_written(world: World, key: int) -> None:
    """Compact lengths have room for more; those of two bytes have none. A client of ours does not write it."""
    for version in versions(key, "kafka"):
        api = APIS[key]
        if not api.is_flexible(version) or STRING not in [kind for _, kind in paths(api.request, version)]:
            continue
        with patch("barnabas.protocol.kafka.encoder.TEXT_BYTES_MAX", 2**31):
            encode = compile_encoder(api, version, response=False)
        with patch.dict(kafka._request_encoders, {key << 16 | version: (encode, True)}):
            one = exact(key, version, kafka, text=TEXT_MAX + 1)
        assert serve(world, one) == "refused", one


def arrays() -> Iterator[Any]:
    """All of the last versions; of an API's the last in the native dialect as well."""
    for key, (_, last) in VERSIONS.items():
        found = [path for path, kind in paths(APIS[key].request, last) if isinstance(kind, Array)]
        for path, dialect in [(path, "kafka") for path in found] + [(path, "native") for path in found[-1:]]:
            yield pytest.param(key, path, dialect, id=f"{dialect}-{ApiKey(key).name}-{path}")


@pytest.mark.slow
@pytest.mark.parametrize(("key", "path", "dialect"), list(arrays()))
def test_as_many_elements_as_are_allowed_are_served_and_one_more_is_refused(
    world: World, key: int, path: str, dialect: str
) -> None:
    allowed = REQUEST_ELEMENTS_MAX[key]
    if dialect == "native":
        allowed = max(allowed // NATIVE_SHARE, FEW)
    around = path.count("[]") - 1  # arrays of one member each
    for elements, ended in ((allowed - around, "answered"), (allowed - around + 1, "refused")):
        one = exact(key, VERSIONS[key][1], DIALECTS[dialect], into=path, elements=elements)
        assert serve(world, one) == ended, one


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", [name for name in LARGEST if not name.startswith("Produce")])
def test_the_largest_requests_are_accepted(name: str, dialect: str) -> None:
    """A bound was lowered, and their steps were those of a refusal from then on."""
    data = largest_frame(name, DIALECTS[dialect])
    head = 8 if dialect == "native" else 4
    assert DIALECTS[dialect].decode_request(memoryview(bytearray(data))[head:])[0].api_key == LARGEST[name][0]


def arrays_of_brokers() -> Iterator[Any]:
    """All of what brokers alone ask of each other, but tagged ones, of which `exact` makes none."""
    for key, (_, last) in BROKER_VERSIONS.items():
        for path, kind in paths(APIS[key].request, last):
            one, two = (exact(key, last, kafka, into=path, elements=count).frame for count in (1, 2))
            if isinstance(kind, Array) and one != two:
                yield pytest.param(key, path, id=f"{ApiKey(key).name}-{path}")


@pytest.mark.parametrize(("key", "path"), list(arrays_of_brokers()))
def test_what_brokers_ask_has_bounds_too_whoever_sends_it(key: int, path: str) -> None:
    """A listener for clients decodes it before it closes the connection for it."""
    last, allowed = BROKER_VERSIONS[key][1], REQUEST_ELEMENTS_MAX[key]
    around = path.count("[]") - 1
    fits, more = (exact(key, last, kafka, into=path, elements=allowed - around + one).frame for one in (0, 1))
    assert kafka.decode_request(memoryview(fits)[4:])[0].api_key == key
    with pytest.raises(ProtocolError, match=f"{allowed}"):
        kafka.decode_request(memoryview(more)[4:])


@pytest.mark.parametrize("key", BROKER_VERSIONS, ids=lambda key: ApiKey(key).name)
def test_what_brokers_ask_is_asked_by_no_client(world: World, key: int) -> None:
    header, request = kafka.decode_request(memoryview(exact(key, BROKER_VERSIONS[key][1], kafka).frame)[4:])
    answer = world.send(request, header.api_version)
    world.settle()
    assert answer.closed is not None
    assert not answer.done

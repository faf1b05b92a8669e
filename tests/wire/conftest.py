"""One broker in a process of its own for all clients of this folder.

`BARNABAS_TEST_BROKER=kafka pytest tests/wire` runs the same tests against Apache Kafka: they must pass there too.
"""

import itertools
import os
import time
from collections.abc import Callable, Iterator

import pytest

from tests.conformance.raw import Connection
from tests.conformance.targets import ApacheKafka, Barnabas, Target
from tests.conformance.world import FETCH, fetch_body, fetched, topic_body
from tests.wire.programs import ClientUnavailable, Program

SECONDS_MAX = 40.0
"""Below a session of 45 s, after which a broker misses whoever did not leave."""
VALUES = [b"%d " % number + b"x" * 50 for number in range(100)]


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """host:port of a running broker."""
    directory = tmp_path_factory.mktemp("wire")
    settings = {"group.consumer.heartbeat.interval.ms": "500"}  # members hear of a rebalance by their next heartbeat
    kind = ApacheKafka if os.environ.get("BARNABAS_TEST_BROKER") == "kafka" else Barnabas
    target: Target = kind(directory, settings)
    target.start()
    yield f"127.0.0.1:{target.port}"
    target.stop()


_numbers = itertools.count(1)


@pytest.fixture
def fresh() -> Callable[[], str]:
    """Topic names that nobody used."""
    return lambda: f"wire-{next(_numbers)}"


def stored_codecs(address: str, topic: str) -> set[str]:
    """The compressions of the stored batches of partition 0: a client may leave them out without a word."""
    with Connection(int(address.rsplit(":", 1)[1])) as peer:
        part = fetched(peer.call("fetch", FETCH, fetch_body([(topic, 0, 0)])))[topic, 0]
    return {("none", "gzip", "snappy", "lz4", "zstd")[batch.attributes & 7] for batch in part.batches}


def until(done: Callable[[], bool], step: Callable[[], object], state: Callable[[], object] = lambda: None) -> None:
    """Take steps, each of which may wait for a client a little, until it is so; `state` says how far it came."""
    deadline = time.monotonic() + SECONDS_MAX
    while not done():
        assert time.monotonic() < deadline, state()
        step()


@pytest.fixture(scope="class")
def client(request: pytest.FixtureRequest, address: str) -> Iterator[Program]:
    """The program of the client that the class tries, with the broker to ask."""
    assert request.cls
    try:
        program = Program(request.cls.tried.folder, address, *request.cls.tried.arguments)
    except ClientUnavailable as missing:
        pytest.skip(str(missing))
    with program:
        yield program


def make_topic(address: str, topic: str, partitions: int) -> None:
    """For a client that cannot: it is there, and led, when this returns."""
    with Connection(int(address.rsplit(":", 1)[1])) as peer:
        body = {"topics": [topic_body(topic, partitions, 1, {})], "timeout": 10_000}
        (made,) = peer.call("create_topics", 7, body).body.topics
        assert int(made.error_code) == 0, made


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A client of the matrix is tried with the codecs and the groups that it knows."""
    tried = getattr(metafunc.cls, "tried", None)
    if tried is not None and "codec" in metafunc.fixturenames:
        metafunc.parametrize("codec", tried.codecs)
    if tried is not None and "assignor" in metafunc.fixturenames:
        metafunc.parametrize(("protocol", "assignor"), tried.groups)

"""One broker in a process of its own for all clients of this folder.

`BARNABAS_TEST_BROKER=kafka pytest tests/wire` runs the same tests against Apache Kafka: they must pass there too.
"""

import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from tests.conformance.raw import Connection
from tests.conformance.targets import ApacheKafka, Barnabas, Target
from tests.conformance.world import FETCH, fetch_body, fetched


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """host:port of a running broker."""
    directory = tmp_path_factory.mktemp("wire")
    target: Target = (
        ApacheKafka(directory) if os.environ.get("BARNABAS_TEST_BROKER") == "kafka" else Barnabas(directory)
    )
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

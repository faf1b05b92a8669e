"""The settings in which clients must work alike: this broker in both dialects, and one real Apache Kafka for all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from barnabas import Admin, Broker
from barnabas.protocol.errors import BarnabasError
from tests.client.served import APACHE, BARNABAS, QUICK, SETTINGS, Served
from tests.oracle.kafka import Kafka, KafkaUnavailable, java, libs


@pytest.fixture(scope="session")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The servers of a real one, which nothing of this project is in."""
    try:
        java(), libs()
    except KafkaUnavailable as missing:
        pytest.skip(str(missing))
    for _ in range(5):
        running = Kafka(tmp_path_factory.mktemp("kafka"), SETTINGS, quick=True)
        with suppress(KafkaUnavailable):  # its port was given to another process before it began to listen
            running.start()
            if itself(running):
                break
        running.stop()
    else:
        raise AssertionError("Apache Kafka does not start, or its port is another one's, again and again")
    yield f"127.0.0.1:{running.port}"
    running.stop()


def itself(running: Kafka) -> bool:
    """Whether it is that answers there."""
    kept = (running.data_dir / "meta.properties").read_text()
    with suppress(BarnabasError), Admin(f"127.0.0.1:{running.port}") as admin:
        return f"cluster.id={admin.describe_cluster().cluster_id}" in kept.split()
    return False  # another one's controller listens there: it answers, and knows no METADATA


def _serve(request: pytest.FixtureRequest, setting: str, protocol: str) -> Iterator[Served]:
    if setting == APACHE:
        yield Served(request.getfixturevalue("apache_kafka"), setting, protocol)
        return
    with Broker(config=SETTINGS) as broker:
        yield Served(broker.bootstrap_servers, setting, protocol)


@pytest.fixture(scope="module", params=[*BARNABAS, APACHE])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    """A cluster in each setting."""
    yield from _serve(request, request.param, "classic")


@pytest.fixture(
    scope="module",
    params=[(setting, protocol) for setting in (*BARNABAS, APACHE) for protocol in QUICK],
    ids="-".join,
)
def grouped(request: pytest.FixtureRequest) -> Iterator[Served]:
    """A cluster in each setting, for groups of each protocol."""
    yield from _serve(request, *request.param)

"""A broker of this process for each file; `BARNABAS_TEST_BROKER=kafka` puts a real Apache Kafka in its place."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from barnabas import Broker
from tests.cli.terminal import Terminal
from tests.oracle.kafka import Kafka


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if os.environ.get("BARNABAS_TEST_BROKER") == "kafka":
        with Kafka(tmp_path_factory.mktemp("kafka"), quick=True) as running:
            yield f"127.0.0.1:{running.port}"
    else:
        with Broker() as broker:
            yield broker.bootstrap_servers


@pytest.fixture
def at(server: str) -> Terminal:
    return Terminal(server)

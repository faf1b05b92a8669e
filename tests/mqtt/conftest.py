"""Real brokers on both sides, each of a test alone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

import barnabas
from tests.mqtt.servers import Bridge, Mosquitto
from tests.mqtt.witness import Witness


@pytest.fixture
async def mosquitto(tmp_path: Path) -> AsyncIterator[Mosquitto]:
    server = Mosquitto(tmp_path / "mosquitto")
    await server.start()
    yield server
    server.end()


@pytest.fixture
async def witness(mosquitto: Mosquitto) -> AsyncIterator[Witness]:
    between = Witness(mosquitto.port)
    await between.start()
    yield between
    await between.close()


@pytest.fixture(scope="module")
def kafka() -> Iterator[str]:
    """A broker of this process, on a thread of its own."""
    with barnabas.Broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def bridge(tmp_path: Path, kafka: str) -> Iterator[Callable[..., Bridge]]:
    """Makes bridges, and ends what is left of them."""
    made: list[Bridge] = []

    def make(text: str, mqtt: int, server: str = "", name: str = "bridge") -> Bridge:
        made.append(Bridge(tmp_path / name, text, mqtt, server or kafka))
        return made[-1]

    yield make
    for one in made:
        if hasattr(one, "child"):
            one.end(9)

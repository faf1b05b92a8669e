"""Records that end out of order, by a real Mosquitto and real brokers: what leaves on the wire waits for the slowest.

arrived on the wire   slow/1  fast/0 ... fast/14
records are there of          fast/0 ... fast/14
acknowledged          nothing, until the record of slow/1 is there, and then all of it, in that order
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from barnabas import Admin
from barnabas.cli.look import get
from barnabas.client.produce.partitioner import murmur2
from tests.cli.test_cluster_up import Up
from tests.mqtt.servers import Bridge, Mosquitto, needs_mosquitto, until
from tests.mqtt.test_inward import publish
from tests.mqtt.witness import Witness

pytestmark = [needs_mosquitto, pytest.mark.slow]

Make = Callable[..., Bridge]
FAST = [b"%d" % number for number in range(15)]  # Mosquitto lets 20 be open with MQTT 3.1.1
VERSIONS = pytest.mark.parametrize("version", ["5", "3.1.1"])


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Two brokers of one cluster, in processes of their own."""
    cluster = Up(tmp_path_factory.mktemp("kafka") / "pair", "--brokers", "2", "--port", "0")
    try:
        assert cluster.servers, cluster.errors
        yield cluster
    finally:
        cluster.end()


@pytest.fixture
def held(pair: Up) -> Iterator[Callable[[int], None]]:
    """Has the second broker stand still (SIGSTOP), and go on (SIGCONT)."""
    yield lambda number: os.kill(pair.pid(2), number)
    os.kill(pair.pid(2), signal.SIGCONT)


def topic(pair: Up, name: str, copies: int) -> tuple[str, str]:
    """Makes one with a partition on each broker; devices whose partition the first leads, and the second."""
    with Admin(pair.servers) as admin:
        admin.create_topic(name, partitions=2, replication_factor=copies, config={"min.insync.replicas": copies})
        leaders = {one.leader: one.partition for one in admin.describe_topics(name)[name].partitions}
    devices = {(murmur2(b"%d" % number) & 0x7FFFFFFF) % 2: str(number) for number in range(10)}
    return devices[leaders[1]], devices[leaders[2]]


def too_few(pair: Up, name: str) -> bool:
    """Whether the first broker leads a partition of it with fewer in sync than it wants."""
    _, metrics = get(pair.servers.partition(",")[0], "/metrics")
    found = [line for line in metrics.splitlines() if "_underminisr{" in line and f'topic="{name}"' in line]
    return any(line.endswith(" 1") for line in found)


def text(version: str, *names: str) -> str:
    head = f'[mqtt]\nclient_id = "{names[0]}"\nversion = "{version}"\n'
    return head + "".join(f'[[rules]]\nfilter = "{name}/+"\ntopic = "{name}"\ndevice = "$1"\n' for name in names)


async def nothing_but(witness: Witness, one: Bridge, gone: list[bytes], waiting: list[bytes]) -> None:
    """So much is acknowledged on the wire; the rest was delivered, and is open."""
    (connection,) = witness.connections
    assert [payload for _, payload in connection.delivered] == [*gone, *waiting]
    assert connection.acknowledged_payloads() == gone
    assert (await one.state())["open"]["messages"] == len(waiting)


async def in_order(witness: Witness, one: Bridge, payloads: list[bytes]) -> None:
    """All is acknowledged in the end, in the order of arrival, over the one connection."""
    await one.counted("acknowledged", len(payloads))
    (connection,) = witness.connections
    await until(lambda: len(connection.acknowledged) == len(payloads), one.said)
    connection.check()
    assert connection.acknowledged_payloads() == payloads


@VERSIONS
async def test_a_topic_with_too_few_replicas_holds_back_what_came_after_its_message(
    mosquitto: Mosquitto, witness: Witness, pair: Up, held: Callable[[int], None], bridge: Make, version: str
) -> None:
    """Kafka refuses its record (NOT_ENOUGH_REPLICAS) once the second broker is taken for gone, until it is back."""
    witness.five, name = version == "5", f"few{version[0]}"
    slow, _ = topic(pair, f"{name}slow", 2)
    fast, _ = topic(pair, f"{name}fast", 1)
    one = bridge(text(version, f"{name}slow", f"{name}fast"), witness.port, pair.servers)
    await one.start()
    await publish(mosquitto, f"{name}slow/{slow}", b"first")
    await publish(mosquitto, f"{name}fast/{fast}", b"second")
    await one.counted("acknowledged", 2)
    held(signal.SIGSTOP)
    await until(lambda: asyncio.to_thread(lambda: too_few(pair, f"{name}slow")))
    await publish(mosquitto, f"{name}slow/{slow}", b"slow")
    await one.counted("received_qos1", 3)
    await publish(mosquitto, f"{name}fast/{fast}", *FAST)
    await one.counted("forwarded", 2 + len(FAST))
    await nothing_but(witness, one, [b"first", b"second"], [b"slow", *FAST])
    held(signal.SIGCONT)
    await in_order(witness, one, [b"first", b"second", b"slow", *FAST])


async def test_a_partition_whose_leader_stands_still_holds_back_what_came_after_its_message(
    mosquitto: Mosquitto, witness: Witness, pair: Up, held: Callable[[int], None], bridge: Make
) -> None:
    fast, slow = topic(pair, "load", 1)
    one = bridge(text("5", "load"), witness.port, pair.servers)
    await one.start()
    await publish(mosquitto, f"load/{slow}", b"first")
    await publish(mosquitto, f"load/{fast}", b"second")
    await one.counted("acknowledged", 2)
    held(signal.SIGSTOP)
    await publish(mosquitto, f"load/{slow}", b"slow")
    await one.counted("received_qos1", 3)
    await publish(mosquitto, f"load/{fast}", *FAST)
    await one.counted("forwarded", 2 + len(FAST))
    await nothing_but(witness, one, [b"first", b"second"], [b"slow", *FAST])
    held(signal.SIGCONT)
    await in_order(witness, one, [b"first", b"second", b"slow", *FAST])


async def test_a_message_is_not_acknowledged_while_its_record_is_with_the_leader_alone(
    mosquitto: Mosquitto, witness: Witness, pair: Up, held: Callable[[int], None], bridge: Make
) -> None:
    """What acks=all is for: with acks=1 the leader would have answered."""
    device, _ = topic(pair, "both", 2)
    one = bridge(text("5", "both"), witness.port, pair.servers)
    await one.start()
    await publish(mosquitto, f"both/{device}", b"with both")
    await one.counted("acknowledged", 1)
    held(signal.SIGSTOP)
    await publish(mosquitto, f"both/{device}", b"with the leader alone")
    logs = Path(pair.directory, "broker-1")
    await until(lambda: any(b"with the leader alone" in one.read_bytes() for one in logs.glob("both-*/*.log")))
    await nothing_but(witness, one, [b"with both"], [b"with the leader alone"])
    held(signal.SIGCONT)
    await in_order(witness, one, [b"with both", b"with the leader alone"])

"""A consumer of a rack against three real brokers: it reads where it stands, and from the leader when that is away."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from barnabas import Consumer, Producer
from barnabas.cli.look import get
from barnabas.protocol.ids import TopicPartition
from tests.conformance.cluster.targets import Barnabases, rack_of
from tests.conformance.cluster.world import Cluster

COUNT = 200
WAIT_S = 60
AN_HOUR = {"broker.session.timeout.ms": "3600000"}


def sent_by(cluster: Cluster, letter: str, topic: str) -> int:
    """Bytes of the topic's records that a broker has given to consumers."""
    told = get(f"127.0.0.1:{cluster.target.port(cluster.ids[letter])}", "/metrics")[1]
    found = re.search(rf'^kafka_server_brokertopicmetrics_bytesout_total{{topic="{topic}"}} (\d+)', told, re.MULTILINE)
    return int(found[1]) if found else 0


@pytest.mark.slow
def test_it_reads_in_its_rack_and_from_the_leader_once_nobody_is_there(tmp_path: Path) -> None:
    target = Barnabases(tmp_path / "trio", AN_HOUR)
    try:
        target.start_all()
        cluster = Cluster(target)
        cluster.wait_brokers("ABC")
        name = cluster.topic("ACB")
        servers = ",".join(f"127.0.0.1:{target.port(node_id)}" for node_id in (1, 2, 3))
        near = rack_of(cluster.ids["C"])
        with (
            Producer(bootstrap_servers=servers, acks="all") as producer,
            Consumer(bootstrap_servers=servers, client_rack=near, auto_offset_reset="earliest") as consumer,
        ):
            consumer.assign([TopicPartition(name, 0)])
            found: list[bytes] = []

            def go_on(end: int) -> None:
                for number in range(len(found), end):
                    producer.send(name, b"%d" % number, partition=0)
                producer.flush(WAIT_S)
                while len(found) < end:
                    records = consumer.poll(WAIT_S)
                    assert records, f"{len(found)} of {end} were read"
                    found.extend(bytes(one.value) for one in records)

            go_on(COUNT)
            assert sent_by(cluster, "B", name) == 0
            assert sent_by(cluster, "C", name) > sent_by(cluster, "A", name)
            target.kill(cluster.ids["C"])
            go_on(2 * COUNT)
            assert sent_by(cluster, "A", name) > 0
            assert found == [b"%d" % number for number in range(2 * COUNT)]
    finally:
        target.end_all()

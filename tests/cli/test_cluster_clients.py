"""The bundled client through a dead bootstrap address, a failover and a rolling restart of real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas import Admin, Consumer, NewTopic, Producer
from tests.cli.process import BOUND_S, run
from tests.cli.test_cluster_up import PARTITIONS, Up, all_in_sync

DEAD = "127.0.0.1:1"
AN_HOUR = ("broker.session.timeout.ms=3600000", "replica.lag.time.max.ms=3600000")


class Clients:
    """A producer with acks=all, a member of a group, and what they sent and read."""

    def __init__(self, servers: str) -> None:
        self.producer = Producer(bootstrap_servers=servers, acks="all", delivery_timeout_ms=50_000)
        self.consumer = Consumer("t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest")
        self.sent: dict[tuple[int, int], bytes] = {}
        self.read: dict[tuple[int, int], bytes] = {}

    def go_on(self, count: int = 10) -> None:
        """Both do their work: so many records more in each partition, read and committed."""
        values = [
            (partition, b"%d" % (len(self.sent) + each)) for each in range(count) for partition in range(PARTITIONS)
        ]
        futures = [(self.producer.send("t", value, partition=where), value) for where, value in values]
        for future, value in futures:
            told = future.result(BOUND_S)
            self.sent[told.partition, told.offset] = value
        while len(self.read) < len(self.sent):
            records = self.consumer.poll(BOUND_S)
            assert records, f"{len(self.read)} of {len(self.sent)} were read"
            self.read |= {(one.partition, one.offset): bytes(one.value) for one in records}
        self.consumer.commit()

    def close(self) -> None:
        self.producer.close()
        self.consumer.close()


def steer(directory: Path, verb: str, node_id: int) -> None:
    done = run("cluster", verb, str(node_id), "--dir", str(directory))
    assert not done.returncode, done.stderr


@pytest.mark.slow
def test_producer_and_group_go_on_and_counts_match(tmp_path: Path) -> None:
    """Sessions last an hour: whoever is killed is followed by others because it is seen to be gone."""
    where = tmp_path / "trio"
    up = Up(where, "--brokers", "3", "--port", "0", settings=AN_HOUR)
    try:
        with Admin(bootstrap_servers=up.servers) as admin:
            admin.create_topics(NewTopic("t", PARTITIONS, 3, {"min.insync.replicas": 2}))
        clients = Clients(f"{DEAD},{up.servers}")
        try:
            clients.go_on()
            steer(where, "kill", 3)
            clients.go_on()
            steer(where, "start", 3)
            all_in_sync(up.servers)
            for node_id in (2, 3, 1):
                steer(where, "stop", node_id)
                clients.go_on()
                steer(where, "start", node_id)
                clients.go_on()
                all_in_sync(up.servers)
        finally:
            clients.close()
        assert clients.read == clients.sent
        assert len(clients.sent) == 8 * 10 * PARTITIONS
    finally:
        up.end()

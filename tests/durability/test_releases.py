"""Data directories that earlier releases left behind: today's broker starts on them, and nothing is lost."""

from __future__ import annotations

import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from barnabas import Admin, Consumer, Producer
from barnabas.broker.host.embedded import Broker
from barnabas.client.admin import BROKER
from barnabas.protocol.ids import TopicPartition

RELEASES = Path(__file__).parent / "releases"
SETTINGS = {"offsets.retention.minutes": "2147483647"}
"""What was committed then is old, and is to be seen."""
WRITTEN = [(f"k{number % 7}".encode(), f"flight {number}".encode()) for number in range(1, 61)]


def records_of(servers: str, *parts: TopicPartition) -> list[tuple[bytes, bytes]]:
    """All that these partitions have."""
    with Consumer(bootstrap_servers=servers) as consumer:
        consumer.assign(list(parts))
        consumer.seek_to_beginning()
        ends = sum(consumer.end_offsets(parts).values())
        found: list[Any] = []
        while len(found) < ends:
            found += consumer.poll(10)
        return [(one.key or b"", one.value) for one in found]


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_broker_of_before_there_were_clusters_starts_as_a_cluster_of_one(how: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(RELEASES / f"2026-11-22-{how}.zip") as kept:
        kept.extractall(tmp_path)
    identity = (tmp_path / "meta.properties").read_text().split()
    flights = [TopicPartition("flights", number) for number in range(3)]
    more = 0
    for _ in range(2):  # and what it has made of it is read by itself
        with Broker(SETTINGS, data_dir=tmp_path) as broker, Admin(broker.bootstrap_servers) as admin:
            servers = broker.bootstrap_servers
            assert f"cluster.id={admin.describe_cluster().cluster_id}" in identity
            assert sorted(admin.list_topics()) == ["flights", "kept"]
            assert admin.describe_configs("flights")["retention.ms"] == "-1"
            assert admin.describe_configs("kept")["cleanup.policy"] == "compact"
            assert admin.describe_configs("1", kind=BROKER)["log.cleaner.backoff.ms"] == "20000"
            expected = Counter([*WRITTEN, *WRITTEN, *[(b"", b"new")] * more])
            assert Counter(records_of(servers, *flights)) == expected
            assert dict(records_of(servers, TopicPartition("kept", 0))) == dict(WRITTEN)
            committed = {key: one.offset for key, one in admin.group_offsets("readers").items()}
            assert committed == dict(zip(flights, (17, 6, 17), strict=True))
            with Producer(servers) as producer:
                assert producer.send("flights", b"new", partition=1).result().offset == 86 + more
            more += 1

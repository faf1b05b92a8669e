"""What a produce or a DeleteRecords that waits for replicas is tied to: its connection.

One of two replicas does nothing, and neither does the controller, which would fence it: what waits could do so for the
24 days that it asks for, and leave so much for each connection that came and went.
"""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import pytest

from barnabas.broker.context import Connection
from barnabas.broker.handlers import produce
from barnabas.broker.replica.shared import PARKED_PARTITION_BYTES
from barnabas.protocol.requests.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.requests.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.node.cluster import Cluster
from tests.broker.node.world import batch

PARTITIONS = 20
LONG_MS = 2**31 - 1


@pytest.fixture
def cluster() -> Cluster:
    """Broker 2 leads, and nobody else does anything."""
    cluster = Cluster(1, 2, 3)
    cluster.create(replicas={number: [2, 3] for number in range(PARTITIONS)})
    cluster.put(b"committed", node_id=2)
    cluster.advance(1000)
    cluster.paused |= {1, 3}
    return cluster


def written(partitions: int) -> ProduceRequest:
    parts = [PartitionProduceData(number, batch(b"v")) for number in range(partitions)]
    return ProduceRequest(None, -1, LONG_MS, [TopicProduceData("t", partition_data=parts)])


def cut(partitions: int) -> DeleteRecordsRequest:
    parts = [DeleteRecordsPartition(number, -1) for number in range(partitions)]
    return DeleteRecordsRequest([DeleteRecordsTopic("t", parts)], LONG_MS)


def waits(cluster: Cluster) -> tuple[int, int]:
    """Operations that wait at broker 2, and the lists they stand in."""
    shared = cluster[2].core.replicas.shared
    there = shared.produce, shared.delete_records
    return sum(one.num_delayed for one in there), sum(one.watched for one in there)


def left(cluster: Cluster, connection: Connection) -> None:
    cluster[2].core.disconnected(connection)
    cluster.settle()


@pytest.mark.parametrize(("request_of", "version"), [(written, 9), (cut, 2)], ids=["produce", "delete records"])
def test_what_waits_ends_with_its_connection_and_nothing_is_kept(
    cluster: Cluster, request_of: Any, version: int
) -> None:
    mine, other = cluster.client(), cluster.client()
    answer = cluster.send(2, request_of(1), version, mine)
    stays = cluster.send(2, request_of(1), version, other)
    cluster.settle()
    assert waits(cluster) == (2, 2)
    kept = ref(answer)
    del answer
    left(cluster, mine)
    gc.collect()
    assert kept() is None, "what would have answered is gone"
    assert waits(cluster) == (1, 1)
    cluster.paused.clear()
    cluster.until(lambda: stays.done)
    assert waits(cluster) == (0, 0)
    left(cluster, other)
    assert not cluster[2].core.replicas.shared.waiting.keys() & {mine.id, other.id}
    assert not cluster[2].core.jobs.snapshot()


def test_what_was_appended_is_replicated_though_nobody_waits(cluster: Cluster) -> None:
    mine = cluster.client()
    cluster.send(2, written(1), 9, mine)
    cluster.settle()
    left(cluster, mine)
    cluster.paused.clear()
    cluster.until(lambda: cluster[3].log().high_watermark == 2)
    assert cluster[2].values() == cluster[3].values()


def test_what_is_still_being_appended_waits_for_nobody(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection is closed after the first step: the others are appended, too, and nothing waits."""
    monkeypatch.setattr(produce, "PARTITIONS_AT_ONCE_MAX", 5)
    mine = cluster.client()
    cluster.send(2, written(PARTITIONS), 9, mine)
    cluster[2].core.disconnected(mine)
    assert cluster[2].log(PARTITIONS - 1).log_end_offset == 0
    cluster.settle()
    assert cluster[2].log(PARTITIONS - 1).log_end_offset == 1
    assert waits(cluster) == (0, 0)
    assert not cluster[2].core.jobs.snapshot()


def test_many_partitions_that_wait_are_charged(cluster: Cluster) -> None:
    """A partition came in eighty bytes, which were counted, and kept half a KiB."""
    account = cluster[2].core.account
    mine, other = cluster.client(), cluster.client()
    cluster.send(2, written(PARTITIONS), 9, mine)
    answer = cluster.send(2, written(PARTITIONS), 9, other)
    cluster.settle()
    assert account.held_by(mine.id) == account.held_by(other.id) == PARTITIONS * PARKED_PARTITION_BYTES
    left(cluster, mine)
    assert account.held_by(mine.id) == 0
    cluster.paused.clear()
    cluster.until(lambda: answer.done)
    assert account.held_by(other.id) == 0

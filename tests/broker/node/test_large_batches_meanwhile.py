"""What changes while a large batch is in a thread is asked again when it is back: leadership, topic, sequence, order.

The thread is held: nothing it was given comes back before `Held.release`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.log.apart import RECORDS_AT_ONCE
from barnabas.broker.memory_disk import MemoryDisk
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.node.cluster import Answer, Cluster
from tests.broker.node.world import World, batch

MANY = 2 * RECORDS_AT_ONCE
T0 = TopicPartition("t", 0)


class Held:
    """The threads of a disk, which do nothing until they are let."""

    def __init__(self, disk: MemoryDisk, monkeypatch: pytest.MonkeyPatch) -> None:
        self._aside = disk.aside
        self.works: list[tuple[Callable[[], None], Any]] = []
        monkeypatch.setattr(disk, "aside", lambda work, done: self.works.append((work, done)))

    def release(self) -> None:
        """All of it is done, and what it leads to as well once the world settles."""
        works, self.works = self.works, []
        for work, done in works:
            self._aside(work, done)


def large(count: int = MANY, **more: Any) -> bytearray:
    return batch(*[b"v"] * count, keys=[b"k"] * count, codec=4, **more)


def small(**more: Any) -> bytearray:
    return batch(b"v", keys=[b"k"], **more)


def to_leader(cluster: Cluster, records: bytearray, node_id: int) -> Answer:
    data = [TopicProduceData("t", partition_data=[PartitionProduceData(0, records)])]
    return cluster.send(node_id, ProduceRequest(None, -1, 30_000, data), 9)


def appended(cluster: Cluster, records: bytearray, node_id: int) -> int:
    """The error code of an append that is waited for."""
    sent = to_leader(cluster, records, node_id)
    cluster.until(lambda: sent.done)
    return int(part(sent).error_code)


def move(cluster: Cluster, leader: int, to: int) -> None:
    """A leader is not heard of for a while: another leads, and the first hears of that, alive all the while."""
    away = {frozenset((leader, other)) for other in cluster.nodes if other != leader}
    cluster.cut |= away
    cluster.until(lambda: cluster.leader() == to)
    cluster.cut -= away
    cluster.until(lambda: all(cluster.state(node_id=one).leader == to for one in cluster.nodes))
    cluster.until(lambda: sorted(cluster.state().isr) == [2, 3])


def part(answer: Any) -> Any:
    assert answer.done, "no answer yet"
    return answer.response.responses[0].partition_responses[0]


@pytest.fixture
def cluster() -> Cluster:
    """A partition on 2, which leads, and 3."""
    cluster = Cluster()
    cluster.create(replicas={0: [2, 3]}, cleanup_policy="compact")
    cluster.until(lambda: cluster.state(node_id=2).leader == 2)
    return cluster


def test_a_leader_that_was_moved_meanwhile_appends_nothing(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(cluster[2].disk, monkeypatch)
    first = to_leader(cluster, large(), 2)
    behind = to_leader(cluster, small(), 2)
    cluster.settle()
    assert len(held.works) == 1
    move(cluster, 2, to=3)
    assert not first.done
    held.release()
    cluster.settle()
    assert [part(one).error_code for one in (first, behind)] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert cluster[2].log().log_end_offset == 0
    assert cluster[2].core.replicas.shared.late == {}


def test_who_leads_again_appends_in_the_epoch_and_at_the_offset_of_now(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(cluster[2].disk, monkeypatch)
    sent = to_leader(cluster, large(), 2)
    cluster.settle()
    move(cluster, 2, to=3)
    other = to_leader(cluster, small(), 3)
    cluster.until(lambda: other.done)
    move(cluster, 3, to=2)
    assert not sent.done
    held.release()
    cluster.until(lambda: sent.done)
    assert (part(other).base_offset, part(sent).error_code, part(sent).base_offset) == (0, 0, 1)
    assert [(offset, epoch) for offset, epoch, _ in cluster[2].values()] == [(0, 1), (1, 2)]
    cluster.until(lambda: cluster[3].log().log_end_offset == MANY + 1)
    assert cluster[3].values() == cluster[2].values()


def test_a_retry_that_another_leader_took_meanwhile_is_not_appended_twice(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = large(pid=7, epoch=0, sequence=0)
    held = Held(cluster[2].disk, monkeypatch)
    sent = to_leader(cluster, bytearray(records), 2)
    cluster.settle()
    move(cluster, 2, to=3)
    retry = to_leader(cluster, bytearray(records), 3)
    cluster.until(lambda: retry.done)
    move(cluster, 3, to=2)
    held.release()
    cluster.until(lambda: sent.done)
    assert [(part(one).error_code, part(one).base_offset) for one in (retry, sent)] == [(0, 0), (0, 0)]
    assert [node.log().log_end_offset for node in (cluster[2], cluster[3])] == [MANY, MANY]


def test_a_producer_that_went_on_elsewhere_meanwhile_is_out_of_order(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sequence that was due when the batch came is no longer when it is back."""
    held = Held(cluster[2].disk, monkeypatch)
    sent = to_leader(cluster, large(pid=7, epoch=0, sequence=0), 2)
    cluster.settle()
    move(cluster, 2, to=3)
    for number in range(6):  # five are remembered: none of these is what comes back
        assert appended(cluster, small(pid=7, epoch=0, sequence=number), 3) == 0
    move(cluster, 3, to=2)
    held.release()
    cluster.until(lambda: sent.done)
    assert part(sent).error_code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert cluster[2].log().log_end_offset == 6


@pytest.mark.parametrize("version", [9, 13])
def test_a_topic_made_anew_meanwhile_is_another(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name (9) or by its id (13); what comes for the new one waits in line behind it, and is appended."""
    world = World()
    world.create("t", cleanup_policy="compact")
    held = Held(world.disk, monkeypatch)
    old = world.produce({("t", 0): large()}, version=version)
    behind = world.produce({("t", 0): small()}, version=version)
    world.settle()
    assert (len(held.works), old.done, behind.done) == (1, False, False)
    world.delete("t")
    world.create("t", cleanup_policy="compact")
    new = world.produce({("t", 0): small()}, version=version)
    world.settle()
    held.release()
    world.settle()
    assert part(old).error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert part(behind).error_code == part(old).error_code
    assert (part(new).error_code, part(new).base_offset) == (0, 0)
    partition = world.core.replicas.partition(T0)
    assert partition is not None
    assert partition.log.log_end_offset == 1
    assert world.core.replicas.shared.late == {}


def test_a_topic_that_is_deleted_meanwhile_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.create("t", cleanup_policy="compact")
    held = Held(world.disk, monkeypatch)
    sent = world.produce({("t", 0): large()})
    world.settle()
    world.delete("t")
    held.release()
    world.settle()
    assert part(sent).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert T0 not in world.core.logs.logs


def test_batches_of_one_partition_stay_in_order_over_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large and small ones of one producer, from connections of their own; others are served meanwhile."""
    world = World()
    world.create("t", partitions=2, cleanup_policy="compact")
    held = Held(world.disk, monkeypatch)
    sizes = [MANY, 1, 3 * MANY, 1, MANY]
    sent = []
    for number, size in enumerate(sizes):
        records = large(size, pid=7, epoch=0, sequence=sum(sizes[:number]))
        sent.append(world.produce({("t", 0): records}))
    assert part(world.produce({("t", 1): small()})).error_code == 0
    for _ in range(3):
        world.settle()
        assert len(held.works) == 1, "one at a time, and nobody is appended before whom it follows"
        assert world.core.replicas.partition(T0).log.log_end_offset < sum(sizes)  # type: ignore[union-attr]
        held.release()
    world.settle()
    assert [(part(one).error_code, part(one).base_offset) for one in sent] == [
        (0, sum(sizes[:number])) for number in range(len(sizes))
    ]

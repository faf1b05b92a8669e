"""The accumulator by itself: what is ready, and what one drain takes."""

from __future__ import annotations

from dataclasses import replace

from barnabas.client.produce.batch import ProducerBatch
from barnabas.protocol.ids import TopicPartition
from tests.client.world import Bench, World


def made_of(partitions: int, **settings: int) -> Bench:
    """One topic on one node; nothing is sent but by the test."""
    settings = {"linger_ms": 1000, "batch_size": 1000, **settings}
    bench = Bench(World(topics={"t": [1] * partitions}), enable_idempotence=False, **settings)
    bench.learn()
    return bench


def ready(bench: Bench) -> list[int]:
    return list(bench.accumulator.ready(bench.metadata.cluster, bench.world.now_ms).nodes)


def drain(bench: Bench) -> list[ProducerBatch]:
    return list(bench.accumulator.drain(bench.metadata.cluster, 1, bench.world.now_ms))


def partitions(batches: list[ProducerBatch]) -> list[int]:
    return [batch.where.partition for batch in batches]


def test_one_batch_that_is_full_to_the_last_byte_is_ready():
    bench = made_of(1)
    bench.send(bytes(500))
    batch = bench.accumulator.queue(TopicPartition("t", 0)).batches[0]
    assert ready(bench) == []
    bench.send(bytes(1000 - batch.size - 9))
    assert (batch.size, batch.closed) == (1000, False)
    assert ready(bench) == [1]


def test_a_record_larger_than_batch_size_is_ready_at_once():
    bench = made_of(1)
    bench.send(bytes(1000))
    assert ready(bench) == [1]


def test_a_batch_with_room_waits_for_linger():
    bench = made_of(1)
    bench.send(bytes(900))
    found = bench.accumulator.ready(bench.metadata.cluster, bench.world.now_ms)
    assert (found.nodes, found.next_check_ms) == ([], bench.world.now_ms + 1000)


def test_a_waiter_for_memory_makes_every_batch_ready():
    bench = made_of(1, buffer_memory=2000)
    bench.send(b"x")
    assert ready(bench) == []
    waiter = bench.pool.wait(2000, lambda: None)
    assert ready(bench) == [1]
    bench.pool.give_up(waiter)
    assert ready(bench) == []


def test_a_drain_begins_where_the_last_one_ended():
    """Three partitions always have a batch, two fit into a request: nobody is served twice before all were once."""
    bench = made_of(3, max_request_size=2500)
    seen = []
    for _ in range(6):
        for number in range(3):
            while len(bench.accumulator.queue(TopicPartition("t", number)).batches) < 2:
                bench.send(bytes(900), partition=number)
        seen += partitions(drain(bench))
    assert seen == [0, 1, 2] * 4


def test_a_drain_takes_the_oldest_batch_of_a_partition_and_no_second():
    bench = made_of(2)
    for number in (0, 0, 1):
        bench.send(bytes(900), partition=number)
    oldest = bench.accumulator.queue(TopicPartition("t", 0)).batches[0]
    taken = drain(bench)
    assert partitions(taken) == [0, 1]
    assert taken[0] is oldest


def test_a_drain_passes_over_muted_partitions():
    bench = made_of(2)
    for number in range(2):
        bench.send(bytes(900), partition=number)
    bench.accumulator.mute(TopicPartition("t", 0))
    assert partitions(drain(bench)) == [1]
    bench.accumulator.unmute(TopicPartition("t", 0))
    assert partitions(drain(bench)) == [0]


def test_a_drain_passes_over_batches_that_back_off():
    bench = made_of(2)
    for number in range(2):
        bench.send(bytes(900), partition=number)
    first, second = drain(bench)
    bench.accumulator.requeue(first, bench.world.now_ms)
    bench.send(bytes(900), partition=1)
    assert partitions(drain(bench)) == [1]
    bench.world.now_ms = first.retry_at_ms - 1
    assert drain(bench) == []
    bench.world.now_ms += 1
    assert drain(bench) == [first]
    assert second.where.partition == 1


def test_a_snapshot_with_one_topic_more_is_not_worked_through_again():
    """Ten thousand topics, each made known by itself, would else cost their square."""
    bench = made_of(2)
    accumulator, cluster = bench.accumulator, bench.metadata.cluster
    known, info = accumulator.topics["t"], cluster.topics["t"]
    before = known.available
    assert before == (0, 1)
    accumulator.update(replace(cluster, topics={"t": info, "new": info._replace(name="new")}))
    assert accumulator.topics["new"].available == (0, 1)
    assert known.available is before
    accumulator.update(replace(cluster, nodes={}))
    assert known.available == (), "other brokers: all of them are looked at"

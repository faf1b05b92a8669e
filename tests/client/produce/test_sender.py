"""The producer under virtual time: readiness, draining, answers, order, idempotence, expiry. One sentence, one test."""

from itertools import pairwise
from typing import Any

import pytest

from barnabas.client.errors import RecordTooLarge
from barnabas.client.produce.batch import encode_record
from barnabas.client.produce.columns.rows import Chunk
from barnabas.client.produce.core import NeedMemory, NeedMetadata, Placed
from barnabas.client.produce.partitioner import partition_for_key
from barnabas.net.errors import ClientTimeout, Disconnected
from barnabas.protocol.api import ApiKey
from barnabas.protocol.batch import read_header
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.init_producer_id import InitProducerIdResponse
from barnabas.protocol.requests.produce import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.client.world import CLOSE, SILENCE, Bench, Delayed, World, join, outcome

T0 = TopicPartition("t", 0)


def bench(world=None, **settings):
    made = Bench(world or World(), **settings)
    made.learn()
    return made, made.world


def heard(world=None, **settings):
    """As `bench`, and the first record, which goes alone, is acknowledged."""
    made, world = bench(world, **settings)
    made.send(b"first")
    made.settle()
    return made, world


def once(world, answer):
    """Answer the first Produce specially, and the others as usual."""
    left = [answer]

    def handle(node, request):
        return left.pop()(request) if left else None

    world.handlers[ApiKey.PRODUCE] = handle


def refuse_with(world, code, when=lambda data: True):
    return lambda request: world.produce(request, lambda where, data: code if when(data) else 0)


# ---- when a node is ready ----


def test_a_small_record_waits_for_linger():  # C01
    made, world = bench(linger_ms=100)
    at = world.now_ms
    made.send(b"small")
    made.settle()
    assert [when - at for when, _ in world.produced()] == [100]


def test_a_full_batch_goes_at_once():  # C01
    made, world = bench(linger_ms=100, batch_size=1000)
    at = world.now_ms
    for _ in range(3):
        made.send(bytes(500))
    made.world.run(until=world.produced)
    assert world.now_ms == at


def test_without_linger_records_go_at_once():
    made, world = bench(linger_ms=0)
    at = world.now_ms
    made.send(b"x")
    world.step()
    assert world.produced()[0][0] == at


def test_a_flush_and_a_close_do_not_wait_for_linger():
    for hurry in ("flush", "close"):
        made, world = bench(linger_ms=5000, delivery_timeout_ms=60000)
        at = world.now_ms
        made.send(b"x")
        if hurry == "flush":
            made.accumulator.flushing = 1
        else:
            made.accumulator.closed = True
        world.step()
        assert [when for when, _ in world.produced()] == [at], hurry


def test_batches_do_not_wait_for_linger_while_somebody_waits_for_memory():
    made, world = bench(linger_ms=5000, buffer_memory=2000, batch_size=1000, delivery_timeout_ms=60000)
    made.send(b"x", partition=0)
    held = made.pool.try_allocate(1000)
    assert isinstance(made.try_send(bytes(990)), NeedMemory)
    made.pool.wait(1000, lambda: None)
    world.step()
    assert len(world.produced()) == 1
    made.pool.deallocate(held)


def test_a_muted_partition_is_not_ready():
    made, world = bench(linger_ms=0)
    made.accumulator.mute(T0)
    made.send(b"x")
    world.step()
    assert world.produced() == []
    made.accumulator.unmute(T0)
    world.step()
    assert len(world.produced()) == 1


def test_a_partition_without_a_leader_waits_and_metadata_is_asked_for():
    world = World(topics={"t": [-1]})
    made, world = bench(world, linger_ms=0)
    result, index = made.send(b"x")
    seen = len(world.requests(ApiKey.METADATA))
    world.run(until_ms=world.now_ms + 3000)
    assert world.produced() == []
    assert len(world.requests(ApiKey.METADATA)) > seen
    world.topics["t"] = [1]
    world.epochs[T0] = 1
    made.settle()
    assert outcome(result, index) == 0


# ---- waking the sender ----


def wakes(made, value, partition=0):
    placed = made.try_send(value, partition=partition)
    assert isinstance(placed, Placed)
    return made.core.should_wake(placed, made.world.now_ms)


def test_a_batch_that_begins_wakes_a_sender_that_sleeps_too_long_and_only_then():
    made, world = bench(World(topics={"t": [1, 1]}), linger_ms=100, batch_size=1000)
    world.step()
    assert wakes(made, b"x")
    world.step()  # it looked, and comes back at linger
    assert not wakes(made, b"x")
    assert not wakes(made, b"x", partition=1)
    assert wakes(made, bytes(950))  # a full batch waits for nothing


def test_a_busy_sender_is_not_woken_an_answer_will_do():
    made, world = heard(linger_ms=0, batch_size=200)
    world.handlers[ApiKey.PRODUCE] = lambda node, request: SILENCE
    for _ in range(10):
        made.send(bytes(150))
    world.step()
    assert made.network.in_flight_count() == 5
    assert not wakes(made, bytes(150))


def test_a_throttled_node_does_not_put_the_sender_to_sleep():
    made, world = bench(linger_ms=0)
    made.send(b"x")
    made.settle()
    made.network.connections.of(1).throttled_until_ms = world.now_ms + 500
    world.step()
    assert wakes(made, b"y")
    made.settle()


def test_a_batch_begun_in_the_middle_of_a_step_wakes_it_again():
    made, world = bench(World(topics={"t": [1, 1]}), linger_ms=100, batch_size=1000)
    made.send(b"x", partition=0)
    woken = []
    drain = made.sender._drain

    def meanwhile(now_ms):
        found = drain(now_ms)
        woken.append(wakes(made, b"y", partition=1))
        return found

    made.sender._drain = meanwhile
    world.step()
    assert woken[0]


# ---- appending ----


def test_a_record_larger_than_a_batch_gets_a_batch_of_its_own():
    made, world = bench(batch_size=1000, linger_ms=0)
    made.send(b"a")
    made.send(bytes(5000))
    made.send(b"b")
    made.settle()
    assert [[n for _, n, _ in batches] for _, batches in world.produced()] == [[1], [1], [1]]
    assert [len(value) for value in world.values()] == [1, 5000, 1]


@pytest.mark.parametrize(
    ("settings", "name"), [({"max_request_size": 2000}, "max.request.size"), ({"buffer_memory": 2000}, "buffer.memory")]
)
def test_a_record_that_could_never_leave_is_refused(settings, name):
    made = Bench(World(), batch_size=1000, **settings)
    made.core.check_size(None, bytes(1900), ())
    with pytest.raises(RecordTooLarge, match=name):
        made.core.check_size(None, bytes(2000), ())


def test_an_unknown_topic_must_be_waited_for_and_more_partitions_too():
    made, _ = bench()
    assert made.try_send(b"x", topic="unknown") == NeedMetadata("unknown")
    assert made.try_send(b"x", partition=1) == NeedMetadata("t")
    with pytest.raises(ValueError, match="partition -1 is negative"):
        made.try_send(b"x", partition=-1)


def test_keys_choose_among_all_partitions_also_those_without_a_leader():  # C03
    made, _ = bench(World(topics={"t": [-1] * 5 + [1] * 5}))
    keys = (b"21", b"foobar", b"a-little-bit-long-string", b"abc")
    assert [made.send(b"v", key=key)[0].where.partition for key in keys] == [0, 6, 2, 7]


def test_ignore_keys_makes_them_sticky_and_a_custom_partitioner_is_asked():
    made, _ = bench(World(topics={"t": [1] * 10}), partitioner_ignore_keys=True)
    assert len({made.send(b"v", key=b"%d" % n)[0].where.partition for n in range(50)}) == 1
    made, _ = bench(World(topics={"t": [1] * 10}), partitioner_class=lambda topic, key, value, cluster: len(value))
    assert made.send(b"abc")[0].where.partition == 3
    with pytest.raises(ValueError, match="the partitioner chose 11"):
        made.send(bytes(11))


def test_keyless_records_fill_one_batch_before_the_next_partition():
    made, world = bench(World(topics={"t": [1] * 4}), batch_size=1000, linger_ms=1000, buffer_memory=100_000)
    where = [made.send(bytes(200))[0].where.partition for _ in range(40)]
    runs = 1 + sum(a != b for a, b in pairwise(where))
    assert runs <= 11
    assert len(set(where)) > 1
    made.settle()
    assert sum(len(world.values("t", n)) for n in range(4)) == 40


# ---- draining ----


def test_one_request_per_node_carries_one_batch_of_each_partition():
    world = World(nodes=(1, 2), topics={"t": [1, 1, 2, 2]})
    made, world = bench(world, linger_ms=10, batch_size=1000)
    for partition in range(4):
        for _ in range(3):
            made.send(bytes(700), partition=partition)
    made.settle()
    for _, batches in world.produced():
        partitions = [where.partition for where, _, _ in batches]
        assert len(set(partitions)) == len(partitions)
        assert set(partitions) in ({0, 1}, {2, 3})


def test_max_request_size_ends_a_request_and_the_rotation_goes_on_from_there():
    world = World(topics={"t": [1] * 6})
    made, world = bench(world, linger_ms=10, batch_size=1000, max_request_size=2500)
    for partition in range(6):
        made.send(bytes(900), partition=partition)
    made.settle()
    partitions = [[where.partition for where, _, _ in batches] for _, batches in world.produced()]
    assert [len(each) for each in partitions] == [2, 2, 2]
    assert sorted(n for each in partitions for n in each) == list(range(6))


def test_the_first_batch_always_goes_however_large():
    made, world = bench(linger_ms=0, batch_size=3000, max_request_size=1000)
    for _ in range(3):
        made.send(bytes(900))
    made.settle()
    assert world.produced()[0][1] == [(T0, 3, 0)]


def test_at_most_five_requests_are_in_flight_per_node():
    made, world = heard(linger_ms=0, batch_size=200)
    world.handlers[ApiKey.PRODUCE] = lambda node, request: Delayed(world.produce(request), 1000)
    for _ in range(20):
        made.send(bytes(150))
    world.run(until_ms=world.now_ms + 900)
    assert len(world.produced()) == 1 + 5
    made.settle()
    assert len(world.values()) == 1 + 20


# ---- answers ----


def test_offsets_come_back_to_each_record():
    made, _ = bench(linger_ms=0)
    sent = [made.send(b"%d" % n) for n in range(10)]
    made.settle()
    assert [outcome(*each) for each in sent] == list(range(10))


@pytest.mark.parametrize("code", [3, 5, 6, 7, 19, 20])
def test_a_retriable_error_is_tried_again_after_the_back_off(code):
    made, world = bench(linger_ms=0)
    once(world, refuse_with(world, code))
    sent = made.send(b"x")
    made.settle()
    assert outcome(*sent) == 0
    (first, _), (second, _) = world.produced()
    assert 80 <= second - first <= 121  # 100 ms, 20 % more or less, and 1 ms on the wire


def test_the_back_off_between_attempts_doubles_to_its_cap_with_jitter():
    gaps = []
    for seed in range(4):
        made, world = bench(World(seed=seed), linger_ms=0, retries=6)
        world.handlers[ApiKey.PRODUCE] = lambda node, request, world=world: world.produce(request, lambda *_: 7)
        made.send(b"x")
        made.settle()
        times = [when for when, _ in world.produced()]
        gaps.append([later - earlier - 1 for earlier, later in pairwise(times)])
    for each in gaps:
        for gap, term in zip(each, (100, 200, 400, 800, 1000, 1000), strict=True):
            assert 0.8 * term - 1 <= gap <= min(1.2 * term, 1000)
    assert len({each[0] for each in gaps}) > 1, "producers that failed together come back spread out"


@pytest.mark.parametrize("code", [3, 5, 6])
def test_stale_metadata_is_refreshed(code):
    made, world = bench(linger_ms=0)
    once(world, refuse_with(world, code))
    made.send(b"x")
    seen = len(world.requests(ApiKey.METADATA))
    made.settle()
    assert len(world.requests(ApiKey.METADATA)) > seen


def test_back_off_is_skipped_when_the_leader_changed():
    world = World(nodes=(1, 2))
    made, world = bench(world, linger_ms=0, retry_backoff_ms=10_000, retry_backoff_max_ms=10_000)

    def moved(request):
        response = world.produce(request, lambda where, data: 6)
        answer: PartitionProduceResponse = response.responses[0].partition_responses[0]
        answer.current_leader = LeaderIdAndEpoch(2, 1)
        world.topics["t"], world.epochs[T0] = [2], 1
        return response

    once(world, moved)
    sent = made.send(b"x")
    at = world.now_ms
    made.settle()
    assert outcome(*sent) == 0
    assert world.now_ms - at < 100


def test_an_error_that_will_not_pass_fails_the_records_at_once():
    made, world = bench(linger_ms=0)
    once(world, refuse_with(world, 29))
    sent = made.send(b"x")
    made.settle()
    error = outcome(*sent)
    assert isinstance(error, KafkaError)
    assert error.code == 29
    assert len(world.produced()) == 1


def test_retries_run_out():
    made, world = bench(linger_ms=0, retries=3, retry_backoff_ms=10)
    world.handlers[ApiKey.PRODUCE] = lambda node, request: world.produce(request, lambda where, data: 7)
    sent = made.send(b"x")
    made.settle()
    assert outcome(*sent).code == 7
    assert len(world.produced()) == 4


def test_record_errors_tell_the_bad_record_from_its_neighbours():
    made, world = bench(linger_ms=10)

    def bad(request):
        from barnabas.protocol.requests.produce import BatchIndexAndErrorMessage

        response = world.produce(request, lambda where, data: 87)
        response.responses[0].partition_responses[0].record_errors = [BatchIndexAndErrorMessage(1, "no key")]
        return response

    once(world, bad)
    sent = [made.send(b"x") for _ in range(3)]
    made.settle()
    assert "no key" in str(outcome(*sent[1]))
    assert "another record" in str(outcome(*sent[0]))


def test_a_batch_that_is_too_large_is_split_and_sent_again():
    made, world = bench(linger_ms=10, batch_size=4000, retries=1)
    limit = lambda where, data: 10 if len(data) > 700 else 0  # noqa: E731
    world.handlers[ApiKey.PRODUCE] = lambda node, request: world.produce(request, limit)
    sent = [made.send(bytes([n]) * 150) for n in range(20)]
    made.settle()
    assert world.values() == [bytes([n]) * 150 for n in range(20)]
    assert [outcome(*each) for each in sent] == list(range(20))
    assert all(
        read_header(join(p.records)).record_count
        for each in world.requests(0)
        for p in each.request.topic_data[0].partition_data
    )


def test_a_split_uses_up_no_attempt_and_its_parts_expire_with_the_whole():
    made, world = bench(linger_ms=0, retries=1, delivery_timeout_ms=2000, request_timeout_ms=1000)
    world.handlers[ApiKey.PRODUCE] = lambda node, request: world.produce(
        request, lambda where, data: 10 if read_header(data).record_count > 1 else 0
    )
    sent = [made.send(b"%d" % n) for n in range(16)]
    made.settle()
    assert [outcome(*each) for each in sent] == list(range(16))  # four splits deep

    at = world.now_ms
    refusals = [10]

    def refuse_late_then_never_answer(node, request):
        return Delayed(world.produce(request, lambda *_: refusals.pop()), 900) if refusals else SILENCE

    world.handlers[ApiKey.PRODUCE] = refuse_late_then_never_answer
    sent = [made.send(b"%d" % n) for n in range(4)]
    world.run(until=lambda: all(result.part_of(index)[0].done for result, index in sent))
    assert world.now_ms - at == 2000
    made.settle()


def test_a_single_record_that_is_too_large_for_the_broker_fails():
    made, world = bench(linger_ms=0)
    once(world, refuse_with(world, 10))
    sent = made.send(bytes(500))
    made.settle()
    assert outcome(*sent).code == 10


def test_a_duplicate_sequence_is_success_without_an_offset():
    made, world = bench(linger_ms=0)
    once(world, refuse_with(world, 46))
    sent = made.send(b"x")
    made.settle()
    assert outcome(*sent) == -1


def test_acks_0_succeeds_on_write_without_an_offset():
    made, world = bench(linger_ms=0, acks=0)
    made.send(b"warm")
    made.settle()
    sent = made.send(b"x")
    at = world.now_ms
    made.settle()
    assert outcome(*sent) == -1
    assert world.now_ms == at
    assert world.values() == [b"warm", b"x"]


def test_acks_0_waits_until_the_bytes_have_left():
    made, world = bench(linger_ms=0, acks=0)
    made.send(b"x")
    made.settle()
    world.hold_writes.add(1)
    sent = made.send(b"y")
    world.run(until_ms=world.now_ms + 50)
    assert not sent[0].done
    world.network.on_written(1, world.now_ms)
    made.settle()
    assert outcome(*sent) == -1


def test_a_topic_without_an_id_is_produced_to_by_name():
    world = World()
    world.topic_ids = {}
    made, world = bench(world, linger_ms=0)
    made.send(b"x")
    made.settle()
    assert world.requests(ApiKey.PRODUCE)[0].version == 12


# ---- order and idempotence ----


def test_a_lost_answer_leaves_each_record_once_and_in_order():  # C04
    made, world = bench(linger_ms=0, batch_size=300)

    def drop(request):
        world.produce(request)
        return CLOSE

    once(world, drop)
    values = [b"%04d" % n for n in range(1000)]
    for value in values:
        made.send(value)
    made.settle()
    assert world.values() == values


def test_lost_requests_and_answers_at_random_leave_each_record_once_and_in_order():
    for seed in range(12):
        world = World(nodes=(1, 2), topics={"t": [1, 2, 1]}, seed=seed)
        made, world = bench(world, linger_ms=2, batch_size=300)
        for partition in range(3):  # a broker takes any first sequence of a producer it has never seen
            made.send(b"warm", partition=partition)
        made.settle()
        quiet = made.world.now_ms + 3000

        def flaky(node, request, world=world, quiet=quiet):
            chance = world.random.random() if world.now_ms < quiet else 1
            if chance < 0.1:
                return CLOSE  # never written
            if chance < 0.2:
                world.produce(request)
                return CLOSE  # written, never told
            if chance < 0.3:
                return world.produce(request, lambda where, data: 6)
            return None

        world.handlers[ApiKey.PRODUCE] = flaky
        for n in range(600):
            made.send(b"%04d" % n, partition=n % 3)
            if n % 20 == 0:
                world.run(until_ms=world.now_ms + 30)
        made.settle()
        for partition in range(3):
            expected = [b"warm", *(b"%04d" % n for n in range(partition, 600, 3))]
            assert world.values("t", partition) == expected, seed


def test_sequences_are_fixed_at_the_first_drain_and_kept_on_retry():
    made, world = bench(linger_ms=0)
    once(world, refuse_with(world, 7))
    made.send(b"x")
    made.settle()
    assert [batches[0][2] for _, batches in world.produced()] == [0, 0]
    made.send(b"y")
    made.settle()
    assert world.produced()[-1][1][0][2] == 1


def test_while_the_first_batch_is_retried_only_that_one_is_sent():
    made, world = heard(linger_ms=0, batch_size=200)
    world.handlers[ApiKey.PRODUCE] = lambda node, request: Delayed(CLOSE, 50)
    for _ in range(8):
        made.send(bytes(150))
    world.run(until=lambda: len(world.produced()) == 1 + 5)
    world.run(until=lambda: made.network.in_flight_count() == 0)
    world.handlers[ApiKey.PRODUCE] = lambda node, request: Delayed(world.produce(request), 20)
    before = len(world.produced())
    made.settle()
    retried = world.produced()[before:]
    sequences = [batches[0][2] for _, batches in retried]
    assert sequences == list(range(1, 9))
    gaps = [later[0] - earlier[0] for earlier, later in pairwise(retried[:5])]
    assert min(gaps) >= 20  # one at a time until the retries are through


def test_max_in_flight_1_without_idempotence_mutes_the_partition():
    world = World(topics={"t": [1, 1]})
    made, world = bench(
        world, linger_ms=0, batch_size=200, enable_idempotence=False, max_in_flight_requests_per_connection=1
    )
    once(world, refuse_with(world, 7))
    for n in range(4):
        made.send(bytes([n]) * 150, partition=0)
    made.settle()
    assert [value[0] for value in world.values()] == [0, 1, 2, 3]
    assert not made.accumulator.queue(T0).muted


def test_a_partition_muted_by_max_in_flight_1_waits_at_its_new_leader_too():
    world = World(nodes=(1, 2))
    made, world = bench(
        world, linger_ms=0, batch_size=200, enable_idempotence=False, max_in_flight_requests_per_connection=1
    )
    once(world, lambda request: Delayed(world.produce(request), 500))
    for n in range(2):
        made.send(bytes([n]) * 150, partition=0)
    world.run(until=world.produced)
    world.topics["t"], world.epochs[T0] = [2], 1
    made.metadata.request_update()
    made.settle()
    (first, _), (second, _) = world.produced()
    assert [each.node for each in world.requests(ApiKey.PRODUCE)] == [1, 2]
    assert second - first >= 500
    assert [value[0] for value in world.values()] == [0, 1]


def test_no_batch_leaves_before_there_is_a_producer_id_and_failures_are_retried():
    world = World()
    left = [InitProducerIdResponse(error_code=14), InitProducerIdResponse(error_code=15)]
    world.handlers[ApiKey.INIT_PRODUCER_ID] = lambda node, request: left.pop() if left else None
    made, world = bench(world, linger_ms=0)
    assert len(world.requests(ApiKey.INIT_PRODUCER_ID)) == 3
    made.send(b"x")
    made.settle()
    assert read_header(join(world.requests(0)[0].request.topic_data[0].partition_data[0].records)).producer_id == 101


def test_who_waits_for_a_producer_id_is_told_whose_it_is_to_give():
    world = World()
    world.handlers[ApiKey.INIT_PRODUCER_ID] = lambda node, request: InitProducerIdResponse(error_code=14)
    made = Bench(world, linger_ms=0)
    world.run(until=lambda: len(world.requests(ApiKey.INIT_PRODUCER_ID)) > 1)
    assert made.metadata.troubles.why().endswith("ids from the controller, and that for a majority of its voters")


def test_a_refused_producer_id_fails_everything_for_good():
    world = World()
    world.handlers[ApiKey.INIT_PRODUCER_ID] = lambda node, request: Delayed(InitProducerIdResponse(error_code=31), 100)
    made = Bench(world, linger_ms=0)
    made.metadata.add_topics(["t"], world.now_ms)
    world.run(until=lambda: "t" in made.metadata.cluster.topics)
    sent = made.send(b"x")
    world.run(until=lambda: sent[0].done)
    assert outcome(*sent).code == 31
    made.settle()


def test_a_batch_that_failed_for_good_bumps_the_epoch():
    made, world = bench(linger_ms=0, batch_size=200)
    made.send(b"warm")
    made.settle()
    once(world, refuse_with(world, 87))
    first, second = made.send(bytes(150)), made.send(b"2" * 150)
    made.settle()
    assert outcome(*first).code == 87
    assert outcome(*second) == 1
    header = read_header(join(world.requests(0)[-1].request.topic_data[0].partition_data[0].records))
    assert (header.producer_epoch, header.base_sequence) == (1, 0)
    assert len(world.requests(ApiKey.INIT_PRODUCER_ID)) == 1  # the bump is the client's own


def test_out_of_order_for_a_batch_that_is_not_the_next_is_only_retried():
    made, world = bench(linger_ms=0, batch_size=200)
    made.send(b"\xffwarm")
    made.settle()
    held: list[int] = []

    def first_late(node, request):
        if not held:
            held.append(1)
            return world.produce(request, lambda where, data: 7)
        return None

    world.handlers[ApiKey.PRODUCE] = first_late
    for n in range(4):
        made.send(bytes([n]) * 150)
    made.settle()
    assert [value[0] for value in world.values()] == [255, 0, 1, 2, 3]
    assert made.core.state.epoch == 0


def test_out_of_order_for_the_expected_next_bumps_the_epoch():
    made, world = bench(linger_ms=0)
    made.send(b"a")
    made.settle()
    once(world, refuse_with(world, 45))
    sent = made.send(b"b")
    made.settle()
    assert outcome(*sent) == 1
    assert made.core.state.epoch == 1
    assert world.values() == [b"a", b"b"]


def test_a_batch_out_of_attempts_that_may_have_been_written_leaves_no_second_copy_of_the_next():
    """Its sequence may be used (a timeout comes after the append): what follows keeps its own until it is back."""
    made, world = bench(linger_ms=0, batch_size=200, retries=1)
    codes = iter([7, 7, 7])  # both are written and answered with a timeout, then the first again

    def written_and_late(node, request):
        answer = world.produce(request)
        answer.responses[0].partition_responses[0].error_code = next(codes, 0)
        return answer

    world.handlers[ApiKey.PRODUCE] = written_and_late
    first, second = made.send(b"1" * 150), made.send(b"2" * 150)
    made.settle()
    assert outcome(*first).code == 7
    assert outcome(*second) == 1
    assert world.values() == [b"1" * 150, b"2" * 150]
    third = made.send(b"3")
    made.settle()
    assert outcome(*third) == 2
    assert world.values()[2:] == [b"3"]


def test_batches_that_go_again_keep_their_order_where_the_sequence_starts_over():
    made, world = bench(linger_ms=0, batch_size=200)
    made.send(b"warm")
    made.settle()
    made.core.state.partition(T0).next_sequence = 2**31 - 1
    world.logs.clear()
    once(world, lambda request: world.produce(request) and CLOSE)
    sent = [made.send(bytes([n]) * 150) for n in range(3)]
    made.settle()
    assert [outcome(*each) for each in sent] == [0, 1, 2]
    assert [value[0] for value in world.values()] == [0, 1, 2]


def test_a_batch_that_waits_for_the_next_producer_id_goes_under_that_id():
    made, world = bench(linger_ms=0, batch_size=200)
    made.core.state.epoch = 2**15 - 1
    made.send(b"warm")
    made.settle()
    once(world, refuse_with(world, 87))
    first, second = made.send(b"1" * 150), made.send(b"2" * 150)
    made.settle()
    assert outcome(*first).code == 87
    assert outcome(*second) == 1
    header = read_header(join(world.requests(0)[-1].request.topic_data[0].partition_data[0].records))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (102, 0, 0)


def test_an_exhausted_epoch_asks_for_a_new_producer_id():
    made, world = bench(linger_ms=0)
    made.core.state.epoch = 2**15 - 1
    once(world, refuse_with(world, 87))
    made.send(b"a")
    made.settle()
    sent = made.send(b"b")
    made.settle()
    assert outcome(*sent) == 0
    assert len(world.requests(ApiKey.INIT_PRODUCER_ID)) == 2
    assert made.core.state.producer_id == 102


# ---- topics made anew ----


def made_anew(made, world, partitions):
    """The topic is deleted and created again, and the producer learns of it."""
    world.topic_ids["t"] = b"\xee" * 16
    world.topics["t"] = partitions
    made.metadata.request_update()
    request, wish, partial = made.metadata.next_request(world.now_ms)
    made.metadata.update(wish, world.metadata(request), partial, world.now_ms)
    world.step()


def test_an_answer_that_names_the_topics_old_id_is_the_batchs_all_the_same():
    made, world = bench(linger_ms=0)
    old = world.topic_ids["t"]
    refused = PartitionProduceResponse(index=0, error_code=100)
    late = ProduceResponse(responses=[TopicProduceResponse(topic_id=old, partition_responses=[refused])])
    once(world, lambda request: Delayed(late, 500))
    sent = made.send(b"x")
    world.run(until=world.produced)
    made_anew(made, world, [1])
    assert not sent[0].done
    made.settle()
    assert outcome(*sent) == 0
    assert world.values() == [b"x"]


def test_a_leader_told_of_the_old_topic_is_none_of_the_new_one():
    world = World(nodes=(1, 2), topics={"t": [1]})
    made, world = bench(world, linger_ms=0)
    stale = PartitionProduceResponse(index=0, error_code=6, current_leader=LeaderIdAndEpoch(2, 9))
    late = ProduceResponse(responses=[TopicProduceResponse(topic_id=world.topic_ids["t"], partition_responses=[stale])])
    once(world, lambda request: Delayed(late, 500))
    sent = made.send(b"x")
    world.run(until=world.produced)
    made_anew(made, world, [1])
    made.settle()
    assert outcome(*sent) == 0
    info = made.metadata.cluster.partition("t", 0)
    assert (info.leader, info.leader_epoch) == (1, 0)


@pytest.mark.parametrize("in_flight", [1, 5])
def test_what_the_old_topic_did_not_answer_is_in_the_new_one_before_what_follows(in_flight):
    """The new one's broker knows nothing of the producer, and takes any sequence: what followed was written first. What
    it followed was out of order until its time was up, or went behind it in another epoch, and what followed again."""
    world = World(nodes=(1, 2), topics={"t": [1]})
    settings = {"request_timeout_ms": 500, "max_in_flight_requests_per_connection": in_flight}
    made, world = heard(world, linger_ms=0, **settings)
    once(world, lambda request: SILENCE)
    sent = [made.send(b"sent to the old one")]
    world.run(until=lambda: len(world.produced()) == 2)
    world.logs.clear()
    made_anew(made, world, [2])
    sent.append(made.send(b"after it"))
    world.run(until_ms=world.now_ms + 100)
    sent.append(made.send(b"last"))
    made.settle()
    assert [outcome(*each) for each in sent] == [0, 1, 2]
    assert world.values() == [b"sent to the old one", b"after it", b"last"]


def test_keys_choose_among_the_partitions_there_are_when_there_are_fewer():
    world = World(topics={"t": [1] * 8})
    made, world = bench(world, linger_ms=0)
    keys = [b"key %d" % n for n in range(20)]
    waiting = made.send(b"to a partition that goes", partition=7)[0]
    made_anew(made, world, [1, 1])
    for key in keys:
        result, _ = made.send(b"x", key)
        assert result.where.partition == partition_for_key(key, 2)
    for _ in range(20):
        assert made.send(b"x")[0].where.partition < 2
    assert isinstance(made.try_send(b"x", partition=7), NeedMetadata)
    made.settle()
    assert isinstance(outcome(waiting, 0), ClientTimeout)


# ---- expiry ----


def test_expiry_is_measured_from_creation_while_queued():
    made, world = bench(linger_ms=0, delivery_timeout_ms=2000, request_timeout_ms=1000)
    world.nodes[1] = False
    world.cut(1)
    at = world.now_ms
    sent = made.send(b"x")
    world.run(until=lambda: sent[0].done)
    assert world.now_ms - at == 2000
    assert isinstance(outcome(*sent), ClientTimeout)
    made.settle()


def test_expiry_in_flight_keeps_the_memory_until_the_connection_is_gone_and_bumps_the_epoch():
    made, world = bench(linger_ms=0, delivery_timeout_ms=1500, request_timeout_ms=1000, retry_backoff_ms=1)
    made.send(b"warm")
    made.settle()
    calls: list[int] = []

    def handle(node, request):
        calls.append(world.now_ms)
        return SILENCE if len(calls) <= 2 else None

    world.handlers[ApiKey.PRODUCE] = handle
    at = world.now_ms
    sent = made.send(b"x")
    world.run(until=lambda: sent[0].done)
    assert world.now_ms - at == 1500
    assert isinstance(outcome(*sent), ClientTimeout)
    assert made.pool.available_bytes < made.pool.total_bytes  # its request is still out
    made.settle()
    after = made.send(b"y")
    made.settle()
    assert outcome(*after) == 1
    assert made.core.state.epoch == 1


@pytest.mark.parametrize(("code", "offset"), [(0, 2), (7, 1)])
def test_a_late_answer_gives_the_memory_back_and_what_follows_has_a_new_epoch(code, offset):
    """Expired in flight, and answered after that: written or refused, the record has failed and its buffer is back."""
    made, world = bench(linger_ms=0, delivery_timeout_ms=1500, request_timeout_ms=1000)
    made.send(b"warm")
    made.settle()
    left = [CLOSE, code]

    def handle(node, request):
        if not left:
            return None
        answer = left.pop(0)
        return Delayed(CLOSE, 900) if answer is CLOSE else Delayed(world.produce(request, lambda *_: answer), 900)

    world.handlers[ApiKey.PRODUCE] = handle
    sent = made.send(b"x")
    world.run(until=lambda: sent[0].done)
    assert isinstance(outcome(*sent), ClientTimeout)
    assert made.pool.available_bytes < made.pool.total_bytes
    made.settle()
    after = made.send(b"y")
    made.settle()
    assert outcome(*after) == offset
    assert made.core.state.epoch == 1


def test_a_request_timeout_fails_over_to_a_retry():
    made, world = bench(linger_ms=0, request_timeout_ms=1000, delivery_timeout_ms=10_000)
    once(world, lambda request: SILENCE)
    sent = made.send(b"x")
    made.settle()
    assert outcome(*sent) == 0
    assert len(world.produced()) == 2


def test_memory_is_refused_when_the_broker_is_gone_and_comes_back_with_the_expiry():  # C02
    made, world = bench(
        linger_ms=0, buffer_memory=32768, delivery_timeout_ms=2000, request_timeout_ms=1000, max_block_ms=500
    )
    world.nodes[1] = False
    world.cut(1)
    at = world.now_ms
    sent = []
    for _ in range(1000):
        placed = made.try_send(bytes(1000))
        if isinstance(placed, NeedMemory):
            break
        assert isinstance(placed, Placed)
        sent.append((placed.result, placed.at))
    assert 30 <= len(sent) <= 32
    woken: list[int] = []
    waiter = made.pool.wait(16384, lambda: woken.append(world.now_ms - at))
    world.run(until=lambda: all(result.done for result, _ in sent))
    assert all(isinstance(outcome(*each), ClientTimeout) for each in sent)
    assert woken == [2000]
    made.pool.give_up(waiter)
    made.settle()


def test_an_abort_fails_what_is_queued_and_what_is_in_flight():
    made, world = bench(linger_ms=0, batch_size=200)
    world.handlers[ApiKey.PRODUCE] = lambda node, request: SILENCE
    sent = [made.send(bytes(150)) for _ in range(8)]
    world.run(until_ms=world.now_ms + 10)
    made.sender.abort(Disconnected("over"))
    assert all(isinstance(outcome(*each), Disconnected) for each in sent)
    made.network.close(world.now_ms)
    assert made.pool.available_bytes == made.pool.total_bytes


# ---- metadata, compression, adaptive ----


@pytest.mark.parametrize("what", ["append", "append_chunk"])
def test_a_ctrl_c_behind_the_queueing_leaves_the_buffer_to_its_batch(what, monkeypatch):
    """Given back, it would be filled with other records while it waits to be sent."""
    made, world = bench(linger_ms=0, batch_size=200)
    queue = getattr(made.accumulator, what)

    def interrupted(*arguments):
        queue(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(made.accumulator, what, interrupted)
    rows: Any = range(1)
    chunk = Chunk(0, memoryview(encode_record(0, 0, None, b"1" * 100, ())), rows, 0, 0)
    send = {
        "append": lambda: made.send(b"1" * 100),
        "append_chunk": lambda: made.core.append_chunk("t", chunk, world.now_ms),
    }
    with pytest.raises(KeyboardInterrupt):
        send[what]()
    monkeypatch.undo()
    made.send(b"2" * 100)
    made.settle()
    assert world.values() == [b"1" * 100, b"2" * 100]


def test_an_unused_topic_leaves_the_metadata_and_comes_back_with_a_record():
    made, world = bench(linger_ms=0, metadata_max_idle_ms=60_000, metadata_max_age_ms=30_000)
    world.run(until_ms=world.now_ms + 200_000)
    assert made.metadata.cluster.topics == {}
    sent = made.send(b"x")
    made.settle()
    assert outcome(*sent) == 0


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compression(codec):
    made, world = bench(linger_ms=10, compression_type=codec)
    values = [b"value %d " % n * 20 for n in range(50)]
    for value in values:
        made.send(value)
    made.settle()
    assert world.values() == values
    size = sum(len(join(p.records)) for each in world.requests(0) for p in each.request.topic_data[0].partition_data)
    assert (size < 5000) == (codec != "none")


def test_the_level_of_compression_reaches_the_codec():
    sizes = []
    for level in (1, 9):
        made, world = bench(linger_ms=10, compression_type="gzip", compression_gzip_level=level)
        for number in range(50):
            made.send(b"value %d " % number * 20)
        made.settle()
        sizes += [len(join(p.records)) for each in world.requests(0) for p in each.request.topic_data[0].partition_data]
    assert sizes[0] > sizes[1]


def test_a_slow_broker_gets_fewer_keyless_records():
    world = World(nodes=(1, 2), topics={"t": [1, 2]})
    made, world = bench(world, linger_ms=0, batch_size=500)
    slow = lambda node, request: Delayed(world.produce(request), 200) if node == 2 else None  # noqa: E731
    world.handlers[ApiKey.PRODUCE] = slow
    counts = [0, 0]
    for _ in range(3000):
        counts[made.send(bytes(100))[0].where.partition] += 1
        world.run(until_ms=world.now_ms + 1)
    made.settle()
    assert counts[0] > 1.5 * counts[1]


def test_a_broker_that_takes_nothing_gets_no_keyless_records():
    world = World(nodes=(1, 2), topics={"t": [1, 2]})
    made, world = bench(world, linger_ms=0, batch_size=500, partitioner_availability_timeout_ms=100)
    for _ in range(50):
        made.send(bytes(100))
        world.run(until_ms=world.now_ms + 1)
    world.nodes[2] = False
    world.cut(2)
    for _ in range(300):
        made.send(bytes(100))
        world.run(until_ms=world.now_ms + 2)
    late = [made.send(bytes(100))[0].where.partition for _ in range(100)]
    assert set(late) == {0}


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.MESSAGE_TOO_LARGE])
def test_the_first_batch_of_a_partition_is_answered_before_the_next_one_leaves(code):
    """A broker that knows nothing of a producer takes any sequence. What followed a first batch that was refused was
    written before it, and it was out of order until its time was up, as with Kafka's own client."""
    made, world = bench(linger_ms=0, batch_size=1000)
    once(world, refuse_with(world, code))
    values = [bytes([number]) * 300 for number in range(12)]
    sent = [made.send(value) for value in values]
    made.settle()
    assert [outcome(*each) for each in sent] == list(range(12))
    assert world.values() == values

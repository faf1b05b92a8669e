"""Fetch: now or later, the lettered cases, limits, cold reads (`DelayedFetch`, `ReplicaManager.fetchMessages`)."""

from __future__ import annotations

import logging
import weakref
from itertools import pairwise
from typing import Any

import pytest

from barnabas.broker.account import Account
from barnabas.broker.config import TopicConfig
from barnabas.broker.context import Connection
from barnabas.broker.delayed import purgatory as purgatory_module
from barnabas.broker.log import Isolation, Log
from barnabas.broker.replica import FetchInfo, FetchParams
from barnabas.broker.replica import fetch as fetch_module
from barnabas.protocol.errors import ErrorCode
from tests.broker.replica.world import Answer, P, World, batch

S = len(batch())
SEGMENT = 4 * S
"""Small segments: four batches each (the configuration checks nothing when it is made by hand)."""


@pytest.fixture(autouse=True, params=["usual", "wide"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every story is told of a fetch that looks at all its partitions, and of one that looks at those with news."""
    if request.param == "wide":
        for module in (fetch_module, purgatory_module):
            monkeypatch.setattr(module, "MANY_KEYS", 1)
    return str(request.param)


def world_with(*numbers: int, replicas=(1,), config: TopicConfig | None = None) -> World:
    world = World()
    if config is not None:
        world.topic_config = config
    for number in numbers or (0,):
        world.host(P(number), replicas=replicas)
    return world


def fill(world: World, number: int, count: int) -> None:
    for _ in range(count):
        world.produce(P(number), acks=1)


# Now or later


@pytest.mark.parametrize("wait_ms", [0, -1])
def test_no_wait_is_answered_at_once(wait_ms):
    world = world_with()
    answer = world.fetch({P(0): 0}, wait_ms=wait_ms)
    assert answer.codes == [0]
    assert (answer.one.records, answer.one.high_watermark, answer.one.log_start_offset) == (b"", 0, 0)


def test_nothing_asked_is_answered_at_once():
    assert world_with().fetch({}).results == {}


def test_min_bytes_zero_is_always_immediate():
    assert world_with().fetch({P(0): 0}, min_bytes=0).there


def test_enough_bytes_are_answered_at_once_with_empty_partitions_beside():
    world = world_with(0, 1)
    fill(world, 1, 1)
    answer = world.fetch({P(0): 0, P(1): 0})
    assert answer.results is not None
    assert [len(result.records) for result in answer.results.values()] == [0, S]


def test_one_error_while_reading_ends_the_waiting():
    world = world_with(0, 1)
    assert world.fetch({P(0): 0, P(1): 99}).codes == [0, ErrorCode.OFFSET_OUT_OF_RANGE]


def test_a_wait_ends_with_the_first_record():
    world = world_with()
    answer = world.fetch({P(0): 0})
    world.move(500)
    assert not answer.there
    fill(world, 0, 1)
    assert len(answer.one.records) == S
    assert world.meter("DelayedFetchMetrics", "ExpiresPerSec", fetcherType="consumer") == 0


def test_an_empty_wait_ends_on_time_and_counts_as_expired():
    world = world_with()
    answer = world.fetch({P(0): 0}, wait_ms=1000)
    world.move(999)
    assert not answer.there
    world.move(1)
    assert answer.codes == [0]
    assert answer.one.high_watermark == 0
    assert world.meter("DelayedFetchMetrics", "ExpiresPerSec", fetcherType="consumer") == 1


def test_expiry_answers_with_a_fresh_read():
    world = world_with()
    answer = world.fetch({P(0): 0}, wait_ms=2000, min_bytes=10_000)
    for _ in range(2):
        world.move(200)
        fill(world, 0, 1)
    world.move(2000)
    assert len(answer.one.records) == 2 * S


def test_min_bytes_gather_over_several_appends():
    world = world_with()
    answer = world.fetch({P(0): 0}, min_bytes=3 * S)
    fill(world, 0, 2)
    assert not answer.there
    fill(world, 0, 1)
    assert len(answer.one.records) == 3 * S


def test_a_parked_fetch_watches_all_its_partitions_and_leaves_stale_entries(how):
    """T02 and T03 of the conformance scenarios. One of many partitions leaves none."""
    world = world_with(0, 1, 2)
    tags = {"delayedOperation": "Fetch"}

    def size() -> tuple[float, float]:
        return tuple(  # type: ignore[return-value]
            world.gauge("DelayedOperationPurgatory", name, **tags) for name in ("NumDelayedOperations", "PurgatorySize")
        )

    world.fetch({P(0): 0, P(1): 0, P(2): 0})
    assert size() == (1, 3)
    fill(world, 0, 1)
    assert size() == ((0, 2) if how == "usual" else (0, 0))
    fill(world, 1, 1)
    assert size() == ((0, 1) if how == "usual" else (0, 0))


def test_two_thousand_waiters_of_one_partition_get_the_same_record():
    world = world_with()
    answers = [world.fetch({P(0): 0}) for _ in range(2000)]
    fill(world, 0, 1)
    assert {bytes(answer.one.records) for answer in answers} == {bytes(answers[0].one.records)}
    assert len(answers[0].one.records) == S


# Visibility


def test_followers_read_to_the_end_and_consumers_to_the_high_watermark():
    world = world_with(replicas=(1, 2))
    fill(world, 0, 1)
    assert len(world.fetch({P(0): 0}, replica=2).one.records) == S
    consumer = world.fetch({P(0): 0}, wait_ms=3000)
    world.move(3000)
    assert consumer.one.records == b""


@pytest.mark.parametrize("isolation", [Isolation.HIGH_WATERMARK, Isolation.TXN_COMMITTED])
def test_a_consumer_beyond_what_it_may_see_gets_an_empty_answer_at_once(isolation):
    """Case F1: positioned in (high watermark, log end]."""
    world = world_with(replicas=(1, 2))
    fill(world, 0, 1)
    answer = world.fetch({P(0): 1}, isolation=isolation)
    assert (answer.codes, answer.one.records) == ([0], b"")


def test_a_debugger_reads_to_the_end_from_any_replica():
    world = world_with(replicas=(1, 2))
    fill(world, 0, 1)
    world.host(P(0), leader=2, leader_epoch=2)
    answer = world.fetch({P(0): 0}, isolation=Isolation.LOG_END)
    assert len(answer.one.records) == S


# The lettered cases


def test_case_a_b_a_step_down_answers_what_needs_the_leader():
    world = world_with(replicas=(1, 2))
    consumer = world.fetch({P(0): 0}, leader_only=True)
    follower = world.caught_up(2, P(0))
    world.host(P(0), leader=2, leader_epoch=2)
    assert consumer.codes == follower.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_case_a_b_a_newer_consumer_without_epoch_goes_on_waiting_on_the_demoted_leader():
    world = world_with(replicas=(1, 2))
    consumer = world.fetch({P(0): 0}, wait_ms=1000)
    world.host(P(0), leader=2, leader_epoch=2)
    assert not consumer.there
    world.move(1000)
    assert consumer.codes == [0]


def test_case_c_a_deleted_partition_is_answered_at_once():
    world = world_with()
    answer = world.fetch({P(0): 0})
    world.delete(P(0))
    assert answer.codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_case_d_an_offline_partition_is_answered_at_once():
    world = world_with()
    answer = world.fetch({P(0): 0})
    hosted = world.manager.hosted
    hosted.offline[P(0)] = world.states[P(0)]
    del hosted.online[P(0)]
    world.manager.shared.check_all(P(0), world.now_ms)
    assert answer.codes == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_case_e_a_newer_leader_epoch_fences_the_waiting_reader():
    world = world_with(replicas=(1, 2))
    answer = world.fetch({P(0): 0}, current_leader_epoch=1)
    world.host(P(0), leader=2, leader_epoch=2)
    assert answer.codes == [ErrorCode.FENCED_LEADER_EPOCH]


def test_case_f1_a_cut_log_is_answered_at_once():
    world = world_with(replicas=(1, 2))
    fill(world, 0, 2)
    answer = world.fetch({P(0): 2}, replica=2)
    world.logs.logs[P(0)].truncate_to(1)
    world.manager.shared.check_all(P(0), world.now_ms)
    assert answer.codes == [ErrorCode.OFFSET_OUT_OF_RANGE]


def test_case_f2_a_rolled_segment_is_answered_whatever_min_bytes_says():
    world = world_with(config=TopicConfig(segment_bytes=SEGMENT))
    answer = world.fetch({P(0): 0}, min_bytes=10_000)
    fill(world, 0, 4)
    assert not answer.there
    fill(world, 0, 1)
    assert len(answer.one.records) == 4 * S  # a read never spans segments


def test_case_f2_a_reader_on_an_older_segment_is_answered_at_once():
    world = world_with(config=TopicConfig(segment_bytes=SEGMENT))
    fill(world, 0, 6)
    assert world.fetch({P(0): 0}, min_bytes=10_000).there
    assert not world.fetch({P(0): 4}, min_bytes=10_000).there


def test_case_f2_not_with_equal_offsets_after_a_roll():
    """The high watermark may still lie in the old segment while the reader stands at the new one's base."""
    world = world_with(replicas=(1, 2), config=TopicConfig(segment_bytes=SEGMENT))
    fill(world, 0, 4)
    world.caught_up(2, P(0), wait_ms=0)
    assert world.high_watermark(P(0)) == 4
    fill(world, 0, 1)  # rolls
    answer = world.fetch({P(0): 4})
    assert not answer.there
    world.caught_up(2, P(0), wait_ms=0)
    assert len(answer.one.records) == S


def test_case_g_partition_max_bytes_caps_what_counts():
    world = world_with()
    answer = Answer()
    params = FetchParams(max_wait_ms=5000, min_bytes=S + 1)
    world.manager.fetch(params, [(P(0), FetchInfo(max_bytes=S))], answer, 0)
    fill(world, 0, 3)
    assert not answer.there


def test_case_h_a_diverging_epoch_is_answered_at_once():
    world = world_with(replicas=(1, 2))
    fill(world, 0, 2)
    answer = world.fetch({P(0): 2}, replica=2, last_fetched_epoch=1)
    assert not answer.there
    world.host(P(0), leader=2, leader_epoch=2)
    assert answer.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    world.host(P(0), leader=1, leader_epoch=3)
    again = world.fetch({P(0): 2}, replica=2, last_fetched_epoch=1)
    assert not again.there  # epoch 1 ended at 2: it fits
    world.logs.logs[P(0)].truncate_to(1)
    world.logs.logs[P(0)].assign_epoch(4)
    world.produce(P(0), acks=1)
    assert again.one.diverging_epoch == (1, 1)
    assert again.one.records == b""


def test_case_h_an_undefined_epoch_is_answered_at_once():
    world = world_with(replicas=(1, 2))
    fill(world, 0, 1)
    answer = world.fetch({P(0): 1}, replica=2, last_fetched_epoch=1)
    assert not answer.there
    world.logs.logs[P(0)].truncate_fully_and_start_at(1)
    world.manager.shared.check_all(P(0), world.now_ms)
    assert answer.codes == [ErrorCode.OFFSET_OUT_OF_RANGE]


def test_the_read_at_completion_does_not_tell_the_leader_anything():
    """Only the first read moves what the leader knows: the second has not reached the follower yet."""
    world = world_with(replicas=(1, 2))
    answer = world.caught_up(2, P(0))
    told = world.manager.snapshot(0)["partitions"][0]["followers"]
    world.move(100)
    fill(world, 0, 1)
    assert len(answer.one.records) == S
    assert world.high_watermark(P(0)) == 0
    assert world.manager.snapshot(0)["partitions"][0]["followers"] == told
    partition = world.manager.partition(P(0))
    assert partition is not None
    remote = partition.remotes[2]
    assert (remote.last_fetch_ms, remote.last_fetch_leader_end) == (0, 0)


# Limits


def test_the_first_batch_is_given_whole_however_large():
    world = world_with()
    large = batch(value=b"v" * 5000)
    world.produce(P(0), records=large)
    assert len(world.fetch({P(0): 0}, max_bytes=1000).one.records) == len(large)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_only_the_first_partition_that_has_data_may_exceed_the_limit(order):
    world = world_with(0, 1)
    large = batch(value=b"v" * 5000)
    for number in (0, 1):
        world.produce(P(number), records=large)
    answer = world.fetch({P(number): 0 for number in order}, max_bytes=1000)
    assert answer.results is not None
    assert list(answer.results) == [P(number) for number in order]
    assert [len(result.records) for result in answer.results.values()] == [len(large), 0]


def test_what_one_partition_took_is_not_there_for_the_next():
    world = world_with(0, 1)
    fill(world, 0, 2)
    fill(world, 1, 2)
    answer = world.fetch({P(0): 0, P(1): 0}, max_bytes=3 * S)
    assert answer.results is not None
    assert [len(result.records) for result in answer.results.values()] == [2 * S, S]


def test_a_fetch_inside_a_batch_gets_the_batch():
    world = world_with()
    records = batch(10)
    world.produce(P(0), records=records)
    assert len(world.fetch({P(0): 5}).one.records) == len(records)


# Refusals


def test_errors_of_lookup():
    world = world_with(replicas=(1, 2))
    assert world.fetch({P(7): 0}).codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert world.fetch({P(0): 0}, topic_id=b"x" * 16).codes == [ErrorCode.INCONSISTENT_TOPIC_ID]
    world.host(P(0), leader=2, leader_epoch=2)
    assert world.fetch({P(0): 0}, leader_only=True).codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert not world.fetch({P(0): 0}, topic_id=b"t" * 16).there
    failed = world.fetch({P(7): 0}).one
    assert (failed.high_watermark, failed.last_stable_offset, failed.log_start_offset) == (-1, -1, -1)


def test_an_unforeseen_failure_is_one_partitions_alone(caplog, monkeypatch):
    world = world_with(0, 1)
    fill(world, 1, 1)

    first, real = world.logs.logs[P(0)], Log.read

    def broken(log, *asked):
        if log is first:
            raise RuntimeError("a defect")
        return real(log, *asked)

    monkeypatch.setattr(Log, "read", broken)
    with caplog.at_level(logging.CRITICAL + 1):
        answer = world.fetch({P(0): 0, P(1): 0})
    assert answer.codes == [ErrorCode.UNKNOWN_SERVER_ERROR, 0]
    assert world.meter("BrokerTopicMetrics", "FailedFetchRequestsPerSec") == 1


# Cold reads


def test_a_cold_read_parks_on_its_token_and_reads_again():
    world = world_with(0, 1)
    fill(world, 0, 1)
    fill(world, 1, 1)
    world.deliver()
    world.disk.late = True
    answer = world.fetch({P(0): 0, P(1): 0}, min_bytes=2 * S)
    assert not answer.there
    world.deliver()  # each partition's read is asked for in turn; the first token is held meanwhile
    assert answer.results is not None
    assert [len(result.records) for result in answer.results.values()] == [S, S]


def test_leadership_is_checked_again_when_a_cold_read_comes_back():
    world = world_with(replicas=(1, 2))
    fill(world, 0, 1)
    world.deliver()
    world.disk.late = True
    answer = world.fetch({P(0): 0}, replica=2)
    world.host(P(0), leader=2, leader_epoch=2)
    world.deliver()
    assert answer.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def of_small_account(world: World, limit: int) -> Account:
    account = world.manager.shared.account = Account(limit)
    return account


def somebody(number: int) -> Connection:
    return Connection(number, "PLAINTEXT", "127.0.0.1", "kafka", 0)


def test_what_is_read_from_the_device_is_charged_from_its_beginning(monkeypatch):
    """Of several who ask in one moment for much that is cold, one has it, and the others little."""
    monkeypatch.setattr(fetch_module, "SHORT_BYTES", 1)
    world = world_with(0, 1)
    for number in (0, 1):
        fill(world, number, 8)
    account = of_small_account(world, 8 * S)
    world.disk.late = True
    answers = [world.fetch({P(0): 0, P(1): 0}, connection=somebody(number)) for number in (1, 2, 3)]
    assert account.by_holder[1] == 8 * S
    assert account.short
    assert max(account.by_holder[2], account.by_holder[3]) <= S
    world.deliver()
    sizes = [sum(len(result.records) for result in (answer.results or {}).values()) for answer in answers]
    assert sizes == [8 * S, S, S], "who has begun to read makes memory short, and has what was begun"
    assert account.total == 0


def test_so_is_what_a_fetch_of_many_partitions_reads_in_steps(monkeypatch):
    monkeypatch.setattr(fetch_module, "PARTITIONS_AT_ONCE_MAX", 1)
    world = world_with(0, 1)
    for number in (0, 1):
        fill(world, number, 8)
    account = of_small_account(world, 100 * S)
    world.disk.late = True
    jobs: list[Any] = []
    world.manager.shared.run = lambda job, ended: jobs.append(job)
    answer = world.fetch({P(0): 0, P(1): 0}, connection=somebody(1))
    charged = []
    for token in jobs[0]:
        charged.append(account.total)
        if token is not None:
            world.deliver()
    assert sorted(set(charged)) == [8 * S, 16 * S]
    assert answer.codes == [0, 0]
    assert account.total == 0


def test_what_another_broker_waits_for_is_charged_to_nobody():
    world = world_with(replicas=(1, 2))
    fill(world, 0, 8)
    account = of_small_account(world, 8 * S)
    world.disk.late = True
    answer = world.fetch({P(0): 0}, replica=2, connection=somebody(1))
    assert account.total == 0
    world.deliver()
    assert len(answer.one.records) == 8 * S


def test_a_cold_read_that_fails_is_charged_no_longer():
    world = world_with()
    fill(world, 0, 8)
    account = of_small_account(world, 8 * S)
    world.disk.late = True
    answer = world.fetch({P(0): 0}, connection=somebody(1))
    assert account.total == 8 * S
    world.disk.faults.broken = True
    world.deliver()
    assert answer.codes == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert account.total == 0


def test_nor_is_one_whose_step_fails_when_it_is_there():
    world = world_with()
    fill(world, 0, 8)
    account = of_small_account(world, 8 * S)
    world.disk.late = True
    partition = world.manager.partition(P(0))
    assert partition is not None
    log = partition.log

    def step(_: int) -> None:
        log.read(0, 8 * S, Isolation.LOG_END)
        raise ValueError("a fault of ours")

    world.manager.shared.when_read(step, world.now_ms, reader=somebody(1))
    assert account.total == 8 * S
    world.deliver()
    assert account.total == 0


def test_a_parked_fetch_completes_with_a_cold_read():
    world = world_with()
    world.deliver()
    answer = world.fetch({P(0): 0})
    world.disk.late = True
    fill(world, 0, 1)
    assert not answer.there
    world.deliver()
    assert len(answer.one.records) == S


def test_the_wait_counts_from_the_request_not_from_the_cold_read():
    world = world_with(0, 1)
    fill(world, 0, 1)
    world.deliver()
    world.disk.late = True
    answer = world.fetch({P(0): 0, P(1): 0}, wait_ms=1000, min_bytes=10_000)
    world.move(900)
    world.deliver()
    assert not answer.there
    world.move(100)
    world.deliver()
    assert answer.codes == [0, 0]


def test_a_place_of_the_high_watermark_that_is_not_known_is_looked_up():
    """After a start it is an offset without a place; the check itself may then have to wait for the disk."""
    world = world_with(replicas=(1, 2))
    fill(world, 0, 3)
    log = world.logs.logs[P(0)]
    log.advance_high_watermark(2)
    answer = world.fetch({P(0): 1}, min_bytes=2 * S)
    assert not answer.there
    world.deliver()
    log.advance_high_watermark(3)
    world.manager.shared.check_all(P(0), world.now_ms)
    world.deliver()
    assert len(answer.one.records) == 2 * S


def test_places_of_several_high_watermarks_are_looked_up_one_after_the_other():
    """The look that one cold place was waited for finds the next: it must not wait for an event that never comes."""
    world = world_with(0, 1, 2, replicas=(1, 2))
    for number in range(3):
        fill(world, number, 3)
    answer = world.fetch({P(number): 0 for number in range(3)}, min_bytes=6 * S)
    world.deliver()
    world.disk.late = True
    for number in range(3):
        log = world.logs.logs[P(number)]
        log.recent.clear()  # as after a start
        log.advance_high_watermark(2)
    for number in range(3):
        world.manager.shared.check_all(P(number), world.now_ms)
    assert not answer.there
    world.deliver()
    assert answer.results is not None, "nothing else would have woken it"
    assert [len(result.records) for result in answer.results.values()] == [2 * S] * 3


def test_a_parked_fetch_keeps_nothing_of_what_it_read(monkeypatch):
    """It reads afresh in the end; some 100 KiB each would be much for many that wait for more."""
    world = world_with()
    fill(world, 0, 3)
    views: list[weakref.ref[Any]] = []
    real = Log.read

    def read(self, *arguments):
        data = real(self, *arguments)
        views.append(weakref.ref(data.records))
        return data

    monkeypatch.setattr(Log, "read", read)
    answer = world.fetch({P(0): 0}, min_bytes=10 * S)
    assert not answer.there
    assert [view() for view in views] == [None]


def test_what_a_follower_of_many_partitions_tells_is_taken_in_as_it_is_read(monkeypatch):
    """In one step it took 80 ms of 13,000 partitions."""
    world = World()
    keys = [P(number) for number in range(6)]
    for key in keys:
        world.host(key, replicas=(1, 2))
        world.produce(key, acks=1)
    monkeypatch.setattr(fetch_module, "LEARNED_AT_ONCE_MAX", 2)
    jobs = []
    world.manager.shared.run = lambda job, ended: jobs.append(job)
    world.caught_up(2, *keys)
    (job,) = jobs
    for taken_in in (2, 4, 6):
        next(job)
        assert [world.high_watermark(key) for key in keys] == [1] * taken_in + [0] * (6 - taken_in)
    learned = []
    monkeypatch.setattr(fetch_module, "_learn", lambda *_: learned.append(1))
    world.produce(keys[0], acks=1)
    while jobs:
        list(jobs.pop())
        world.manager.drain(world.now_ms)
    assert not learned, "read afresh, it says nothing new"


def test_thousands_whose_time_is_up_in_one_ms_are_answered_in_steps():
    """All of 2,000 in one were 46 ms, during which nobody else was served."""
    world = world_with(0)
    answers = [world.fetch({P(0): 0}, wait_ms=100) for _ in range(2000)]
    counts = [0]
    while counts[-1] < len(answers):
        assert world.manager.next_deadline_ms() in range(101)
        world.manager.tick(100)
        counts.append(sum(answer.there for answer in answers))
    assert max(after - before for before, after in pairwise(counts)) <= 300


def test_thousands_that_wait_for_one_record_are_answered_in_steps():
    world = world_with(0)
    jobs = []
    world.manager.shared.run = lambda job, ended: jobs.append(job)
    answers = [world.fetch({P(0): 0}, wait_ms=100) for _ in range(2000)]
    world.produce(P(0), acks=1)
    (job,) = jobs
    counts = [0, sum(answer.there for answer in answers)]
    counts += [*(sum(answer.there for answer in answers) for _ in job), sum(answer.there for answer in answers)]
    assert counts[-1] == len(answers)
    assert max(after - before for before, after in pairwise(counts)) < 300

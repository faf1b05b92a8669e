"""The scenarios F of one broker, through the whole core, under a virtual clock."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.account import KEPT
from barnabas.broker.replica import fetch
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.fetch import EpochEndOffset
from tests.broker.node.world import Answer, World, bases_of, batch, part_of, records_of, sized


@pytest.fixture
def world() -> World:
    return World()


def test_f01_an_empty_topic_answers_when_the_wait_is_over(world: World) -> None:
    world.create()
    answer = world.fetch({("t", 0): 0}, wait_ms=1000)
    world.advance(999)
    assert not answer.done
    world.advance(1)
    assert answer.at_ms == 1000
    part = part_of(answer)
    assert (part.error_code, bytes(part.records), part.high_watermark) == (0, b"", 0)


@pytest.mark.parametrize(("wait_ms", "min_bytes"), [(0, 1), (5000, 0)])
def test_f02_no_wait_or_no_minimum_answers_at_once(world: World, wait_ms: int, min_bytes: int) -> None:
    world.create()
    answer = world.fetch({("t", 0): 0}, wait_ms=wait_ms, min_bytes=min_bytes)
    assert answer.done
    assert bytes(part_of(answer).records) == b""


def test_f03_a_record_wakes_the_waiting_fetch(world: World) -> None:
    world.create()
    answer = world.fetch({("t", 0): 0}, wait_ms=5000)
    world.advance(500)
    assert not answer.done
    world.put(batch(b"one"))
    assert answer.at_ms == 500
    assert [record.value for record in records_of(part_of(answer).records)] == [b"one"]


def test_f04_the_end_of_the_wait_answers_with_what_is_there(world: World) -> None:
    world.create()
    answer = world.fetch({("t", 0): 0}, wait_ms=2000, min_bytes=10_000)
    for at_ms in (200, 400):
        world.advance_to(at_ms)
        world.put(sized(1024))
    world.advance_to(1999)
    assert not answer.done
    world.advance_to(2000)
    assert answer.at_ms == 2000
    assert bases_of(part_of(answer).records) == [0, 1]


def test_f05_enough_bytes_answer_before_the_wait_is_over(world: World) -> None:
    world.create()
    answer = world.fetch({("t", 0): 0}, wait_ms=5000, min_bytes=10_000)
    for at_ms in (100, 200, 300):
        world.advance_to(at_ms)
        assert not answer.done
        world.put(sized(4096))
    assert answer.at_ms == 300
    assert len(part_of(answer).records) == 3 * 4096


def test_f06_data_in_one_partition_answers_for_both(world: World) -> None:
    world.create(partitions=2)
    world.put(batch(b"x"), partition=1)
    answer = world.fetch({("t", 0): 0, ("t", 1): 0}, wait_ms=5000)
    assert answer.done
    empty, full = (part_of(answer, index) for index in (0, 1))
    assert (empty.error_code, bytes(empty.records)) == (0, b"")
    assert (full.error_code, len(records_of(full.records))) == (0, 1)


def test_f07_beyond_the_end_is_an_error_and_at_the_end_is_a_wait(world: World) -> None:
    world.create()
    world.put(batch(*[b"x"] * 10))
    beyond = world.fetch({("t", 0): 11}, wait_ms=5000)
    assert beyond.done
    assert part_of(beyond).error_code == 1
    assert part_of(beyond).high_watermark == -1
    at_end = world.fetch({("t", 0): 10}, wait_ms=300)
    assert not at_end.done
    world.advance(300)
    assert (at_end.at_ms, part_of(at_end).error_code, bytes(part_of(at_end).records)) == (300, 0, b"")


@pytest.mark.parametrize(("version", "code"), [(12, 3), (13, 100)])
def test_f08_lookup_errors_wait_and_read_errors_do_not(world: World, version: int, code: int) -> None:
    world.create("t")
    world.create("t2")
    both = world.fetch({("t", 0): 0, ("nope", 0): 0}, wait_ms=2000, version=version)
    alone = world.fetch({("nope", 0): 0}, wait_ms=2000, version=version)
    reading = world.fetch({("t", 0): 0, ("t2", 0): 99}, wait_ms=2000, version=version)
    assert alone.done
    assert part_of(alone).error_code == code
    assert reading.done
    assert part_of(reading, topic=1).error_code == 1
    world.advance(1999)
    assert not both.done
    world.advance(1)
    assert both.at_ms == 2000
    assert [topic.partitions[0].error_code for topic in both.response.responses] == [0, code]


def test_f09_the_first_batch_is_whole_whatever_the_limits(world: World) -> None:
    world.create()
    data = sized(100 * 1024)
    world.put(data)
    answer = world.fetch({("t", 0): 0}, max_bytes=1000, partition_max_bytes=1000)
    assert len(part_of(answer).records) == len(data)


def test_f10_only_the_first_partition_may_break_the_limits(world: World) -> None:
    world.create(partitions=2)
    for partition in (0, 1):
        world.put(sized(100 * 1024), partition=partition)
    answer = world.fetch({("t", 0): 0, ("t", 1): 0}, max_bytes=1000, partition_max_bytes=1000)
    assert [(part.partition_index, len(part.records)) for part in answer.response.responses[0].partitions] == [
        (0, 100 * 1024),
        (1, 0),
    ]
    turned = world.fetch({("t", 1): 0, ("t", 0): 0}, max_bytes=1000, partition_max_bytes=1000)
    assert [(part.partition_index, len(part.records)) for part in turned.response.responses[0].partitions] == [
        (1, 100 * 1024),
        (0, 0),
    ]


def test_f11_an_offset_inside_a_batch_returns_the_whole_batch(world: World) -> None:
    world.create()
    world.put(batch(*[b"x"] * 10))
    assert bases_of(part_of(world.fetch({("t", 0): 5})).records) == [0]


def test_f12_a_restart_raises_the_leader_epoch_by_two_and_others_are_fenced(world: World) -> None:
    world.create()
    partition = world.describe("t").topics[0].partitions[0]
    assert partition.leader_epoch == 0
    for _ in range(2):
        world.restart()
    partition = world.describe("t").topics[0].partitions[0]
    assert (partition.leader_id, partition.leader_epoch) == (1, 4)
    state = world.core.image.partition("t", 0)
    assert state is not None
    assert state.partition_epoch == 4
    for epoch, code in ((3, 74), (5, 75), (4, 0)):
        answer = world.fetch({("t", 0): 0}, wait_ms=1000, leader_epoch=epoch)
        assert answer.done == (code != 0)
        if code:
            assert part_of(answer).error_code == code


def test_f12_a_kill_raises_the_leader_epoch_as_a_stop_does(world: World) -> None:
    world.create()
    world.restart(clean=False)
    assert world.describe("t").topics[0].partitions[0].leader_epoch == 2


@pytest.mark.parametrize("version", [12, 13])
def test_f15_the_deletion_of_its_topic_answers_a_waiting_fetch(world: World, version: int) -> None:
    world.create()
    answer = world.fetch({("t", 0): 0}, wait_ms=10_000, version=version)
    world.advance(100)
    assert world.delete() == 0
    assert answer.at_ms == 100
    assert part_of(answer).error_code in (3, 6)


def test_f17_the_roll_of_a_segment_answers_whatever_the_minimum(world: World) -> None:
    world.create(segment_bytes=1 << 20)
    world.put(sized(1000))
    answer = world.fetch({("t", 0): 1}, wait_ms=10_000, min_bytes=10 << 20)
    produced = 0
    while not answer.done and produced < 3 << 20:
        world.advance(10)
        world.put(sized(200_000))
        produced += 200_000
    assert answer.done
    assert 1 << 20 <= produced < 2 << 20
    assert len(part_of(answer).records) > 0


def test_f18_a_session_opens_and_lists_only_what_changed(world: World) -> None:
    world.create()
    first = world.fetch({("t", 0): 0}, session=(0, 0))
    session_id = first.response.session_id
    assert session_id != 0
    assert len(first.response.responses) == 1
    second = world.fetch({}, session=(session_id, 1), wait_ms=100)
    world.advance(100)
    assert second.at_ms == 100
    assert (second.response.error_code, second.response.session_id) == (0, session_id)
    assert second.response.responses == []


@pytest.mark.parametrize("partitions", [1, 600])
def test_a_session_is_as_old_as_the_answer_that_opened_it(world: World, partitions: int) -> None:
    """Kafka's `FetchSessionCache.maybeCreateSession` asks the time when the answer is made."""
    world.create(partitions=partitions)
    asked = {("t", number): 0 for number in range(partitions)}
    opens = [world.fetch(asked, wait_ms=wait_ms, session=(0, 0)) for wait_ms in (3000, 60_000)]
    world.advance_to(7000)
    world.put(batch(b"one"))
    world.advance_to(9000)
    assert [one.at_ms for one in opens] == [3000, 7000]
    sessions = world.core.snapshot(world.now_ms)["fetch_sessions"]
    assert [(one["age_ms"], one["idle_ms"]) for one in sessions] == [(6000, 6000), (2000, 2000)]


def test_f19_wrong_epochs_and_unknown_sessions_are_refused(world: World) -> None:
    world.create()
    session_id = world.fetch({("t", 0): 0}, session=(0, 0)).response.session_id
    wrong = world.fetch({}, session=(session_id, 5), wait_ms=100)
    assert (wrong.response.error_code, wrong.response.session_id, wrong.response.responses) == (71, 0, [])
    assert world.fetch({}, session=(session_id + 1, 1)).response.error_code == 70
    assert world.fetch({}, session=(session_id, 1), version=13).response.error_code == 106


def test_f20_an_incremental_answer_lists_the_partition_with_data_alone(world: World) -> None:
    world.create(partitions=3)
    session_id = world.fetch({("t", index): 0 for index in range(3)}, session=(0, 0)).response.session_id
    waiting = world.fetch({}, session=(session_id, 1), wait_ms=5000)
    world.advance(50)
    world.put(batch(b"x"), partition=1)
    assert waiting.at_ms == 50
    assert [part.partition_index for part in waiting.response.responses[0].partitions] == [1]
    # Nothing new: nothing listed, save that the client has moved on by now.
    later = world.fetch({("t", 1): 1}, session=(session_id, 2))
    assert later.response.responses == []


@pytest.mark.parametrize("version", [12, 13])
def test_f21_an_error_is_repeated_until_the_partition_is_forgotten(world: World, version: int) -> None:
    world.create("t")
    world.create("other")
    topic_id = world.core.image.topics["t"].topic_id
    opened = world.fetch({("t", 0): 0, ("other", 0): 0}, session=(0, 0), version=version)
    session_id = opened.response.session_id
    world.delete("t")
    for epoch in (1, 2, 3):
        answer = world.fetch({}, session=(session_id, epoch), version=version)
        assert part_of(answer).error_code == 3
    forget = world.fetch({}, session=(session_id, 4), version=version, forget={("t", topic_id): [0]})
    assert forget.response.responses == []


def test_f22_what_one_broker_shows_of_divergence(world: World) -> None:
    world.create()
    world.put(batch(*[b"x"] * 3))
    world.restart()
    world.put(batch(*[b"x"] * 7))
    answer = world.fetch({("t", 0): 5}, wait_ms=5000, last_fetched_epoch=0)
    assert answer.done
    part = part_of(answer)
    assert (part.error_code, bytes(part.records), part.diverging_epoch) == (0, b"", EpochEndOffset(0, 3))


def test_t06_a_fetch_ends_with_its_connection(world: World) -> None:
    from barnabas.broker.context import Connection

    world.create()
    connection = Connection(99, "PLAINTEXT", "127.0.0.1", "kafka", world.now_ms)
    world.core.connected(connection)
    answer = world.fetch({("t", 0): 0}, wait_ms=5000, connection=connection)
    world.core.disconnected(connection)
    fetch_purgatory = next(one for one in world.core.snapshot(world.now_ms)["purgatories"] if one["name"] == "Fetch")
    assert (fetch_purgatory["delayed"], fetch_purgatory["watched"]) == (0, 0)
    world.advance(5000)
    assert not answer.done
    assert world.put(batch(b"x")).error_code == 0


def test_t07_one_record_answers_two_thousand_fetches(world: World) -> None:
    world.create()
    waiting = [world.fetch({("t", 0): 0}, wait_ms=60_000) for _ in range(2000)]
    world.advance(10)
    assert not any(answer.done for answer in waiting)
    world.put(batch(b"x"))
    assert {answer.at_ms for answer in waiting} == {10}
    assert all([record.value for record in records_of(part_of(answer).records)] == [b"x"] for answer in waiting)


def test_t01_every_wait_ends_to_the_millisecond(world: World) -> None:
    world.create()
    waits = [1 + index * 25 for index in range(200)]
    answers = [world.fetch({("t", 0): 0}, wait_ms=wait_ms) for wait_ms in waits]
    world.advance(6000)
    assert [answer.at_ms for answer in answers] == waits


def test_bytes_in_two_partitions_answer_at_once_and_nobody_parks(world: World) -> None:
    """The minimum is met by the sum of what the first read found; neither partition alone would do."""
    world.create(partitions=2)
    for partition in (0, 1):
        world.put(sized(600), partition=partition)
    purgatory = world.core.replicas.shared.fetch
    answer = world.fetch({("t", 0): 0, ("t", 1): 0}, wait_ms=5000, min_bytes=1200)
    assert answer.done
    assert [len(part_of(answer, index).records) for index in (0, 1)] == [600, 600]
    assert purgatory.estimated_total == 0
    waits = world.fetch({("t", 0): 0, ("t", 1): 0}, wait_ms=5000, min_bytes=1201)
    assert not waits.done
    assert purgatory.estimated_total == 1


def test_fetch_max_bytes_caps_what_a_request_may_ask_for() -> None:
    """The broker's own setting counts, and lowers a minimum that is above it (`KafkaApis.handleFetchRequest`)."""
    world = World(fetch_max_bytes=2048)
    world.create(partitions=3)
    for partition in range(3):
        world.put(sized(1000), partition=partition)
    offsets = {("t", partition): 0 for partition in range(3)}
    answer = world.fetch(offsets, wait_ms=5000, min_bytes=1_000_000)
    assert answer.done
    assert [len(part_of(answer, index).records) for index in range(3)] == [1000, 1000, 0]


def test_a_minimum_above_the_requests_own_maximum_is_lowered_to_it(world: World) -> None:
    world.create()
    world.put(sized(500))
    assert not world.fetch({("t", 0): 0}, wait_ms=5000, min_bytes=501).done
    assert world.fetch({("t", 0): 0}, wait_ms=5000, min_bytes=501, max_bytes=400).done


@pytest.mark.parametrize("setting", [None, 4])
def test_purge_begins_above_the_interval_and_not_at_it(setting: int | None) -> None:
    """1000 operations may have finished by default (`fetch.purgatory.purge.interval.requests`), and 1001 are swept."""
    world = World() if setting is None else World(fetch_purgatory_purge_interval_requests=setting)
    interval = setting or 1000
    world.create(partitions=2)
    purgatory = world.core.replicas.shared.fetch

    log = world.core.logs.logs[TopicPartition("t", 0)]

    def finish(count: int) -> None:
        for _ in range(count):
            world.fetch({("t", 0): log.log_end_offset, ("t", 1): 0}, wait_ms=600_000)
        world.put(batch(b"v"))

    finish(interval)
    world.advance(1000)
    assert (purgatory.watched, purgatory.num_delayed) == (interval, 0)
    finish(1)
    world.advance(200)
    assert purgatory.watched == 0


def test_produce_is_swept_by_a_setting_of_its_own() -> None:
    world = World(producer_purgatory_purge_interval_requests=7, delete_records_purgatory_purge_interval_requests=9)
    shared = world.core.replicas.shared
    assert [one.purge_interval for one in (shared.produce, shared.fetch, shared.delete_records)] == [7, 1000, 9]


def test_answers_are_short_while_memory_is() -> None:
    """Thirty answers of 52 MB, copied out of small files, were made in one moment."""
    world = World()
    world.create("t", 4)
    for number in range(4):
        world.put(batch(b"v" * 40_000), partition=number)
    everything = {("t", number): 0 for number in range(4)}

    def sizes() -> list[int]:
        told = world.fetch(everything).response
        return [len(part.records or b"") for topic in told.responses for part in topic.partitions]

    assert min(sizes()) > 40_000
    account = world.core.account
    account.low = 1000
    account.charge(5, KEPT, 2000)
    assert [size > 0 for size in sizes()] == [True, False, False, False]
    account.release(5, KEPT, 2000)
    assert min(sizes()) > 40_000


@pytest.mark.parametrize("waits", [False, True])
def test_what_is_much_is_read_in_steps(world: World, waits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it in one step took 18 ms."""
    world.create(partitions=12)
    world.create("u")
    steps: list[int] = []

    def read(*args: Any) -> Any:
        found = real(*args)
        steps.append(sum(len(one.records) for one in found[0].values()))
        return found

    def sizes_of(answer: Answer) -> list[int]:
        topics = {topic.topic: topic.partitions for topic in answer.response.responses}
        return [len(part.records) for part in topics["t"]]

    real = fetch.read_partitions
    monkeypatch.setattr(fetch, "read_partitions", read)
    asked = {("u", 0): 0} | {("t", at): 0 for at in range(12)}
    sizes = [900_000 + at for at in range(12)]  # of two batches each, which do not lie together, and are copied
    if waits:
        answer = world.fetch(asked, wait_ms=5000, min_bytes=sum(sizes))
    for at, size in enumerate(sizes):
        world.put(sized(400_000), partition=at)
        world.put(sized(size - 400_000), partition=at)
    if not waits:
        answer = world.fetch(asked)
    world.advance(1)
    assert sizes_of(answer) == sizes
    assert [step for step in steps if step] == [sum(sizes[:5]), sum(sizes[5:10]), sum(sizes[10:])]
    bounded = world.fetch(asked, max_bytes=5_400_000)
    world.advance(1)
    assert sizes_of(bounded) == [*sizes[:5], 900_000 - sum(range(5)), *[0] * 6]
    steps.clear()
    alone = {("t", at): 1 for at in range(12)}  # the second batch of each: views of what is there
    assert sizes_of(world.fetch(alone)) == [size - 400_000 for size in sizes]
    assert len(steps) == 1

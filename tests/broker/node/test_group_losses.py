"""What groups have committed, and what would take it from them: damage, other partitions, clocks, answers too soon."""

from __future__ import annotations

import pytest

from barnabas.broker.config.topics import OFFSETS_TOPIC
from barnabas.broker.group.placement import partition_of
from barnabas.broker.group.records import encode
from barnabas.broker.group.values import CommittedOffset, OffsetRecord
from barnabas.broker.handlers.line import AT_ONCE_MAX
from barnabas.broker.handlers.steps import SLICE
from barnabas.protocol.batch import HEADER_SIZE
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import BatchBuilder
from barnabas.protocol.requests.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.requests.delete_groups import DeleteGroupsRequest
from barnabas.protocol.requests.list_groups import ListGroupsRequest
from barnabas.protocol.requests.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.broker.node.group_world import (
    PARTITIONS,
    commit,
    commit_request,
    committed,
    heartbeat,
    member,
    work,
    world_with_coordinator,
)


@pytest.mark.parametrize("groups", [["g"], ["g", "h"], ["h", "g"]])
@pytest.mark.parametrize("parts", [1, SLICE + 1])
def test_no_offset_is_told_before_it_is_kept(groups: list[str], parts: int) -> None:
    """An answer of many offsets left at once."""
    world = world_with_coordinator(log_flush_interval_messages=1)
    assert len({partition_of(group, PARTITIONS) for group in ("g", "h")}) == 2
    world.create("many", parts)
    asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None) for group in groups])
    for group in groups:
        commit(world, dict.fromkeys(range(parts), 1), group, "many")
    for behind in groups:
        told = world.send(commit_request(dict.fromkeys(range(parts), 2), behind, "many"), 8)
        work(world)
        found = world.send(asked, 8)
        work(world)
        assert (told.done, found.done) == (False, False)
        world.settle()
        assert told.done
        answer = next(one for one in found.response.groups if one.group_id == behind)
        assert {part.committed_offset for one in answer.topics for part in one.partitions} == {2}


@pytest.mark.parametrize("topics", [None, "named"])
def test_offsets_that_are_given_back_meanwhile_are_not_told_to_be_none(topics: str | None) -> None:
    """A large answer is made in slices, between which its coordinator may go: the rest was told to have no offset."""
    world = world_with_coordinator()
    parts = 4 * SLICE
    world.create("many", parts)
    commit(world, dict.fromkeys(range(parts), 1), "g", "many")
    named = None if topics is None else [OffsetFetchRequestTopics("many", partition_indexes=list(range(parts)))]
    found = world.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=named)]), 8)
    assert not found.done
    world.core.groups.resigned(partition_of("g", PARTITIONS))
    work(world)
    (group,) = found.response.groups
    assert (group.error_code, group.topics) == (ErrorCode.NOT_COORDINATOR, [])


@pytest.mark.parametrize("groups", [["g", "h"], ["h", "g"]])
@pytest.mark.parametrize("api", ["fetch", "delete"])
def test_an_answer_of_several_groups_waits_for_all_of_their_partitions(groups: list[str], api: str) -> None:
    """One was waited for: what another partition never got onto the device was told, and told to be deleted."""
    world = world_with_coordinator(log_flush_interval_messages=1)
    faults = world.disk.faults
    for group in groups:
        assert commit(world, {0: 1}, group) == {0: 0}
    faults.bad_syncs.add(f"{OFFSETS_TOPIC}-{partition_of('g', PARTITIONS)}/00000000000000000000.log")
    if api == "fetch":
        for group in groups:
            world.send(commit_request({0: 2}, group), 8)
        asked = world.send(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None) for group in groups]), 8
        )
    else:
        asked = world.send(DeleteGroupsRequest(groups), 2)
    world.settle()
    assert not asked.done
    world.advance(world.core.config.offsets_commit_timeout_ms)
    told = asked.response.groups if api == "fetch" else asked.response.results
    failed, other = ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE if api == "fetch" else 0
    assert {one.group_id: one.error_code for one in told} == {"g": failed, "h": other}


def test_a_group_that_is_not_deleted_is_told_so_whatever_becomes_of_others() -> None:
    """Where one partition failed, its code stood in the place of all that was known."""
    world = world_with_coordinator(log_flush_interval_messages=1)
    commit(world, {0: 1}, "g")
    commit(world, {0: 1}, "h")
    member(world, "busy")
    bad = partition_of("g", PARTITIONS)
    unknown = next(name for name in map(str, range(100)) if partition_of(name, PARTITIONS) == bad)
    world.disk.faults.bad_syncs.add(f"{OFFSETS_TOPIC}-{bad}/00000000000000000000.log")
    asked = world.send(DeleteGroupsRequest(["h", unknown, "g", "busy"]), 2)
    world.advance(world.core.config.offsets_commit_timeout_ms)
    assert {one.group_id: ErrorCode(one.error_code) for one in asked.response.results} == {
        "h": ErrorCode.NONE,
        unknown: ErrorCode.GROUP_ID_NOT_FOUND,
        "g": ErrorCode.COORDINATOR_NOT_AVAILABLE,
        "busy": ErrorCode.NON_EMPTY_GROUP,
    }


def test_who_deletes_nothing_waits_for_nobody() -> None:
    """It waited until what others had written to the partition was kept."""
    world = world_with_coordinator(log_flush_interval_messages=1)
    bad = partition_of("g", PARTITIONS)
    unknown = next(name for name in map(str, range(100)) if partition_of(name, PARTITIONS) == bad)
    waits = world.send(commit_request({0: 1}, "g"), 8)
    asked = world.send(DeleteGroupsRequest([unknown]), 2)
    work(world)
    assert (waits.done, asked.done) == (False, True)
    assert asked.response.results[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_many_groups_are_told_to_be_deleted_when_they_are() -> None:
    world = world_with_coordinator(log_flush_interval_messages=1)
    many = [f"g{number}" for number in range(SLICE + 1)]
    for group in many:
        commit(world, {0: 1}, group)
    asked = world.send(DeleteGroupsRequest(many), 2)
    work(world)
    assert not asked.done
    world.settle()
    assert {one.error_code for one in asked.response.results} == {0}


def test_who_waits_until_offsets_are_kept_has_given_up_its_turn() -> None:
    """Two that waited for a slow device, or a follower that stood still, held all other large requests back for 5 s."""
    world = world_with_coordinator(log_flush_interval_messages=1)
    world.create("many", SLICE + 1)
    everything = dict.fromkeys(range(SLICE + 1), 1)
    commit(world, everything, "h", "many")
    world.send(commit_request(everything, "g", "many"), 8)
    work(world)
    slow, quick = (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)]) for group in ("g", "h"))
    waiting = [world.send(slow, 8) for _ in range(AT_ONCE_MAX + 1)]
    work(world)
    found = world.send(quick, 8)
    work(world)
    assert (found.done, [one.done for one in waiting]) == (True, [False] * (AT_ONCE_MAX + 1))
    assert world.core.services.line.is_empty
    world.settle()
    for one in waiting:
        (topic,) = one.response.groups[0].topics
        assert {part.partition_index: part.committed_offset for part in topic.partitions} == everything


def test_offsets_that_are_not_kept_in_time_are_not_told() -> None:
    world = world_with_coordinator(log_flush_interval_messages=1)
    world.create("many", SLICE + 1)
    world.send(commit_request(dict.fromkeys(range(SLICE + 1), 2), "g", "many"), 8)
    work(world)
    found = world.send(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)]), 8)
    work(world)
    world.now_ms += world.core.config.offsets_commit_timeout_ms
    world.core.tick(world.now_ms)
    work(world)
    assert found.response.groups[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


DAY_MS = 86_400_000
MINUTE_MS = 60_000


def test_a_clock_that_is_set_forward_and_back_costs_no_offset(caplog: pytest.LogCaptureFixture) -> None:
    """All that empty groups had committed was deleted at the next look by a clock that ran wrong for a while."""
    world = world_with_coordinator()
    interval_ms = world.core.config.offsets_retention_check_interval_ms
    commit(world, {0: 5})
    for days in (400, -400, -400, 400):
        world.wall_offset_ms += days * DAY_MS
        world.advance(2 * interval_ms)
        assert committed(world) == {("t", 0): 5}
    assert sum("jumped ahead by 34560000 s" in one.getMessage() for one in caplog.records) == 2


def test_a_clock_that_stays_where_it_was_set_is_believed_in_the_end() -> None:
    world = world_with_coordinator(offsets_retention_minutes=180)
    commit(world, {0: 5})
    world.wall_offset_ms += 120 * MINUTE_MS
    world.advance(110 * MINUTE_MS)
    assert committed(world) == {("t", 0): 5}
    world.advance(35 * MINUTE_MS)
    assert committed(world) == {}, "25 minutes after it was believed, long before its time by the old one"


def test_offsets_expire_when_their_time_is_over_and_not_by_a_start() -> None:
    world = world_with_coordinator(offsets_retention_minutes=60)
    commit(world, {0: 5})
    for _ in range(3):
        world.advance(15 * 60_000)
        world.restart()
        assert committed(world) == {("t", 0): 5}
    world.advance(30 * 60_000)
    assert committed(world) == {}


# How many partitions there are


def test_how_many_partitions_the_topic_has_counts_and_not_what_the_setting_says_later() -> None:
    world = world_with_coordinator()
    for number in range(20):
        commit(world, {0: number}, f"g{number}")
    for count in (1, 50):
        world.settings["offsets_topic_num_partitions"] = count
        world.restart()
        assert [committed(world, f"g{number}") for number in range(20)] == [{("t", 0): number} for number in range(20)]
        assert len(world.describe(OFFSETS_TOPIC).topics[0].partitions) == PARTITIONS


@pytest.mark.parametrize("validate_only", [False, True])
def test_the_topic_of_the_groups_cannot_grow(validate_only: bool) -> None:
    """Every group was looked for in another partition at once: its offsets were gone, and its members unknown."""
    world = world_with_coordinator()
    member_id, generation = member(world)
    for number in range(20):
        commit(world, {0: number}, f"g{number}")
    grown = CreatePartitionsRequest([CreatePartitionsTopic(OFFSETS_TOPIC, PARTITIONS + 4)], 1000, validate_only)
    told = world.ask(grown, 3).results[0]
    assert told.error_code == ErrorCode.INVALID_PARTITIONS
    assert "nearly every group would be without its offsets" in told.error_message
    assert [committed(world, f"g{number}") for number in range(20)] == [{("t", 0): number} for number in range(20)]
    assert heartbeat(world, member_id, generation) == 0


def test_groups_of_other_partitions_are_not_served_from_this_one(caplog: pytest.LogCaptureFixture) -> None:
    """Somebody has written them here, or the topic had other partitions once: they were listed, and counted."""
    world = world_with_coordinator()
    commit(world, {0: 5})
    index = partition_of("g", PARTITIONS)
    foreign = next(f"f{number}" for number in range(9) if partition_of(f"f{number}", PARTITIONS) != index)
    builder = BatchBuilder(10_000)
    for partition in (0, 1):
        offset = CommittedOffset(7, -1, "", world.wall_ms)
        assert builder.try_append(world.wall_ms, *encode(OffsetRecord(foreign, TopicPartition("t", partition), offset)))
    assert world.put_internal(builder.build(), OFFSETS_TOPIC, index).error_code == 0
    commit(world, {1: 6})
    world.restart()
    assert [one.group_id for one in world.ask(ListGroupsRequest(), 4).groups] == ["g"]
    assert committed(world) == {("t", 0): 5, ("t", 1): 6}
    assert committed(world, foreign) == {}
    told = [one.getMessage() for one in caplog.records if "belong to other partitions" in one.getMessage()]
    assert len(told) == 1
    assert told[0].startswith(f"{OFFSETS_TOPIC}-{index}: 2 records stay as they are")
    assert told[0].endswith(f"(as {foreign!r})")


def test_what_cannot_be_read_is_named_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    world = world_with_coordinator()
    commit(world, {0: 5})
    index = partition_of("g", PARTITIONS)
    key, _ = encode(OffsetRecord("g", TopicPartition("t", 1), None))
    builder = BatchBuilder(10_000)
    for record in ((key, b"\x00\x63"), (b"\x03\xe8later", b"x"), (b"", b""), (key[:5], b"")):
        assert builder.try_append(world.wall_ms, *record)
    put = world.put_internal(builder.build(), OFFSETS_TOPIC, index)
    assert put.error_code == 0
    commit(world, {2: 7})
    world.restart()
    assert committed(world) == {("t", 0): 5, ("t", 2): 7}
    named = [one.getMessage() for one in caplog.records if "is passed over" in one.getMessage()]
    assert [text.partition("offset ")[2].partition(" ")[0] for text in named] == ["1", "3", "4"]
    assert any("1 records are of other groups or releases" in one.getMessage() for one in caplog.records)


def test_a_batch_whose_sum_does_not_fit_is_named_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    world = world_with_coordinator()
    for number in range(3):
        commit(world, {number: 5})
    key = TopicPartition(OFFSETS_TOPIC, partition_of("g", PARTITIONS))
    log = world.core.logs.logs[key]
    size = log.size_bytes // 3
    path = f"{key}/00000000000000000000.log"
    world.stop()
    data = bytearray(world.disk.load(path))
    data[size + HEADER_SIZE + 20] ^= 0xFF
    world.disk.write_atomic(path, bytes(data))
    world.core = world._new_core()
    world.start()
    assert committed(world) == {("t", 0): 5, ("t", 2): 5}
    assert any("offset 1 to 1 are passed over: no batch whose sum fits" in one.getMessage() for one in caplog.records)


@pytest.mark.parametrize(("byte", "bit"), [(0, 7), (3, 0), (7, 3), (8, 0), (8, 7), (10, 0), (11, 0), (16, 0), (80, 0)])
def test_one_wrong_bit_costs_one_commit_and_no_group_its_coordinator(
    byte: int, bit: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A bit of a length ended the reading, for all groups of the partition; one of an offset hid all that followed."""
    world = world_with_coordinator()
    count = 300
    for number in range(count):
        assert commit(world, {number % 3: number}) == {number % 3: 0}
    key = TopicPartition(OFFSETS_TOPIC, partition_of("g", PARTITIONS))
    size = world.core.logs.logs[key].size_bytes // count
    last_of_window = 32 * 1024 // size - 1
    world.stop()
    world.disk.flip(f"{key}/00000000000000000000.log", last_of_window * size + byte, bit)
    world.core = world._new_core()
    world.start()
    assert committed(world) == {("t", 0): 297, ("t", 1): 298, ("t", 2): 299}
    told = [one.getMessage() for one in caplog.records if "passed over" in one.getMessage()]
    assert len(told) == (0 if byte < 8 else 1)
    assert all(f"offset {last_of_window} to {last_of_window} " in one for one in told)


# Many


def test_fifty_thousand_offsets_of_five_thousand_groups_are_all_there_or_loading() -> None:
    """While they are read nobody hears of a part of them."""
    world = world_with_coordinator()
    world.create("w", 10)
    for number in range(5000):
        commit(world, dict.fromkeys(range(10), number), f"g{number}", "w")
    world.stop()
    world.core = world._new_core()
    world.core.start(world.now_ms)
    seen: list[int] = []
    steps = 0
    while True:
        worked = world.core.run_job_step(world.now_ms)
        if world.disk.deliver():
            world.core.wake(world.now_ms)
        elif not worked:
            break
        steps += 1
        if steps % 5 == 0:
            number = steps * 37 % 5000
            asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(f"g{number}", topics=None)])
            told = world.send(asked, 8)
            if told.done:
                (group,) = told.response.groups
                seen.append(group.error_code)
                found = [part.committed_offset for topic in group.topics for part in topic.partitions]
                assert found == ([] if group.error_code else [number] * 10)
    assert {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0} <= set(seen)
    assert all(committed(world, f"g{one}") == {("w", part): one for part in range(10)} for one in range(5000))

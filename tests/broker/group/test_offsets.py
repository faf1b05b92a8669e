"""Committing, forgetting and expiring offsets (G11, G12, G13), and what strangers may hold."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from itertools import starmap
from typing import Any

import pytest

from barnabas.broker.group import holdings
from barnabas.broker.group.deleting import delete_group, forget_topics
from barnabas.broker.group.expiry import OFFSETS_PER_STEP, expire
from barnabas.broker.group.offsets import commit, delete
from barnabas.broker.group.records import decode
from barnabas.broker.group.state import GroupState
from barnabas.broker.group.subscriptions import NAMES_MAX
from barnabas.broker.group.values import Commit, CommittedOffset, Committer, OffsetRecord
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.kafka.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from tests.broker.group.world import World, durable

NONE = ErrorCode.NONE
MINUTE_MS = 60_000


def memory_of(make: Callable[[], object]) -> int:
    """Bytes that something takes."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        made = make()
        taken = tracemalloc.get_traced_memory()[0] - before
        del made
        return taken
    finally:
        tracemalloc.stop()


def consumers(*topics: str) -> dict[str, object]:
    metadata = encode_subscription(ConsumerProtocolSubscription(list(topics)))
    return {"protocol_type": "consumer", "protocols": (("range", metadata),)}


def refused(world: World, *args: object, **options: object) -> ErrorCode:
    with pytest.raises(KafkaError) as fault:
        world.commit(*args, **options)  # type: ignore[arg-type]
    return fault.value.code


def expired(world: World) -> World:
    for _ in expire(world.shard, world.wall_ms, world.now_ms):
        pass
    return world


def offsets(world: World, group: str = "g") -> dict[int, int]:
    return {key.partition: one.offset for key, one in world.shard.groups[group].offsets.items()}


def test_a_commit_without_a_group_makes_one() -> None:
    world = World()
    assert world.commit({0: 5, 3: 7}) == {0: NONE, 3: NONE}
    assert (world.state, world.group.protocol_type, offsets(world)) == (GroupState.EMPTY, None, {0: 5, 3: 7})
    assert world.journal.batches == 1


@pytest.mark.parametrize(("version", "code"), [(9, ErrorCode.GROUP_ID_NOT_FOUND), (8, ErrorCode.ILLEGAL_GENERATION)])
def test_a_commit_of_a_generation_needs_its_group(version: int, code: ErrorCode) -> None:
    assert refused(World(), {0: 5}, generation=1, member_id="m", version=version) == code


def test_who_may_commit() -> None:
    world = World()
    (leader, follower), generation = world.stable(2)
    assert world.commit({0: 1}, member_id=leader, generation=generation) == {0: NONE}
    assert refused(world, {0: 2}) == ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(world, {0: 2}, member_id="nobody", generation=generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert refused(world, {0: 2}, member_id=leader, generation=generation - 1) == ErrorCode.ILLEGAL_GENERATION
    world.join(leader)
    assert world.commit({0: 3}, member_id=follower, generation=generation) == {0: NONE}, "before it joins again"
    world.join(follower)
    generation += 1
    assert refused(world, {0: 4}, member_id=leader, generation=generation) == ErrorCode.REBALANCE_IN_PROGRESS
    assert offsets(world) == {0: 3}


@pytest.mark.parametrize("restarts", [False, True])
def test_a_member_that_was_taken_for_dead_commits_over_nobody(restarts: bool) -> None:
    """It was silent for too long, or another came under its instance id; it still knows all that it was told."""
    world = World()
    (zombie,), generation = world.stable(1)
    world.advance(10_000)
    (_,), later = world.stable(1)
    told = world.join(instance="i", group="static", session_ms=30_000)
    world.until(told)
    first = told.response.member_id
    world.sync(first, 1, {first: b"a"}, "static", "i")
    second = world.join(instance="i", group="static", session_ms=30_000).response.member_id
    if restarts:
        world.restart()
    for epoch in (generation, later, -1):
        assert refused(world, {0: 2}, member_id=zombie, generation=epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    for member_id, code in ((first, ErrorCode.FENCED_INSTANCE_ID), ("", ErrorCode.FENCED_INSTANCE_ID), (second, NONE)):
        by = Committer("static", 1, member_id, "i", "10.0.0.1", 9)
        commits = [Commit(TopicPartition("t", 0), 5, 0, "")]
        if code:
            with pytest.raises(KafkaError) as fault:
                commit(world.shard, by, commits, -1, world.now_ms)
            assert fault.value.code == code
        else:
            assert commit(world.shard, by, commits, -1, world.now_ms) == {commits[0].key: NONE}
    assert offsets(world) == {}


def test_a_commit_keeps_its_member_alive() -> None:
    world = World()
    (leader,), generation = world.stable(1, session_ms=6000)
    for _ in range(4):
        world.advance(5000)
        world.commit({0: 1}, member_id=leader, generation=generation)
    assert world.heartbeat(leader, generation) == NONE


def test_too_long_metadata_is_refused_and_the_rest_is_taken() -> None:
    world = World()
    assert world.commit({0: 1}, metadata="m" * 4096) == {0: NONE}
    assert world.commit({0: 2}, metadata="m" * 4097) == {0: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert offsets(world) == {0: 1}


def test_offsets_of_a_topic_that_is_consumed_cannot_be_deleted() -> None:
    world = World()
    (leader,), generation = world.stable(1, **consumers("t"))
    world.commit({0: 1}, member_id=leader, generation=generation)
    world.commit({0: 1}, member_id=leader, generation=generation, topic="other")
    keys = [TopicPartition("t", 0), TopicPartition("other", 0), TopicPartition("other", 9)]
    codes = delete(world.shard, "g", keys, world.now_ms)
    assert list(codes.values()) == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, NONE, NONE]
    assert list(world.group.offsets) == [TopicPartition("t", 0)]
    world.leave(leader)
    assert delete(world.shard, "g", keys[:1], world.now_ms) == {keys[0]: NONE}
    before = durable(world.shard)
    world.restart()
    assert durable(world.shard) == before


def test_deleting_offsets_says_what_is_wrong() -> None:
    world = World()
    with pytest.raises(KafkaError) as fault:
        delete(world.shard, "g", [], world.now_ms)
    assert fault.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    world.stable(1)
    with pytest.raises(KafkaError) as fault:
        delete(world.shard, "g", [], world.now_ms)
    assert fault.value.code == ErrorCode.NON_EMPTY_GROUP


def test_metadata_that_cannot_be_read_leaves_every_topic_consumed() -> None:
    world = World()
    (leader,), generation = world.stable(
        1, protocol_type="consumer", protocols=(("range", b"\x00\x00\x7f\xff\xff\xff"),)
    )
    world.commit({0: 1}, member_id=leader, generation=generation)
    key = TopicPartition("t", 0)
    assert delete(world.shard, "g", [key], world.now_ms) == {key: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}


def test_only_an_empty_group_can_be_deleted() -> None:
    world = World()
    (leader,), _ = world.stable(1)
    for group, code in (("g", ErrorCode.NON_EMPTY_GROUP), ("nobody", ErrorCode.GROUP_ID_NOT_FOUND)):
        with pytest.raises(KafkaError) as fault:
            list(delete_group(world.shard, group, world.now_ms))
        assert fault.value.code == code
    world.leave(leader)
    pending = world.join().response.member_id
    list(delete_group(world.shard, "g", world.now_ms))
    assert world.shard.groups == {}
    assert world.join(pending).error == ErrorCode.UNKNOWN_MEMBER_ID
    world.advance(60_000)


def test_a_group_with_many_offsets_goes_in_steps_unless_it_comes_to_life() -> None:
    world = World()
    world.commit(dict.fromkeys(range(600), 1))
    steps = delete_group(world.shard, "g", world.now_ms)
    next(steps)
    assert 0 < len(world.group.offsets) < 600
    world.join_twice()
    with pytest.raises(KafkaError) as fault:
        list(steps)
    assert fault.value.code == ErrorCode.NON_EMPTY_GROUP
    world = World()
    world.commit(dict.fromkeys(range(600), 1))
    list(delete_group(world.shard, "g", world.now_ms))
    assert world.shard.groups == {}


# Expiry


def test_a_simple_group_expires_from_its_commits_on() -> None:
    world = World(offsets_retention_minutes=10)
    world.commit({0: 1})
    world.advance(5 * MINUTE_MS)
    world.commit({1: 1})
    world.advance(5 * MINUTE_MS)
    assert offsets(expired(world)) == {1: 1}
    world.advance(5 * MINUTE_MS)
    assert expired(world).shard.groups == {}
    world.restart()
    assert world.shard.groups == {}


def test_an_offset_with_a_time_of_its_own_expires_by_that() -> None:
    """OffsetCommit v2 to v4 (G86): sooner or later than the broker's, and it outlives a restart."""
    world = World(offsets_retention_minutes=10)
    world.commit({0: 1}, version=2, retention_ms=MINUTE_MS)
    world.commit({1: 1})
    world.commit({2: 1}, version=4, retention_ms=20 * MINUTE_MS)
    world.restart()
    for minutes, left in ((1, {1: 1, 2: 1}), (9, {2: 1})):
        world.advance(minutes * MINUTE_MS - 1)
        assert offsets(expired(world)) != left
        world.advance(1)
        assert offsets(expired(world)) == left
    world.advance(10 * MINUTE_MS)
    assert expired(world).shard.groups == {}


def test_an_empty_group_expires_from_when_it_became_empty() -> None:
    world = World(offsets_retention_minutes=10)
    (leader,), generation = world.stable(1, session_ms=1_800_000, **consumers("t"))
    world.commit({0: 1}, member_id=leader, generation=generation)
    world.advance(9 * MINUTE_MS)
    world.leave(leader)
    world.advance(9 * MINUTE_MS)
    assert offsets(expired(world)) == {0: 1}
    world.advance(MINUTE_MS)
    assert expired(world).shard.groups == {}


def test_of_a_living_group_only_topics_that_nobody_consumes_expire() -> None:
    world = World(offsets_retention_minutes=10)
    (leader,), generation = world.stable(1, session_ms=1_800_000, **consumers("t"))
    world.commit({0: 1}, member_id=leader, generation=generation)
    world.commit({1: 1}, member_id=leader, generation=generation, topic="other")
    world.advance(10 * MINUTE_MS)
    assert offsets(expired(world)) == {0: 1}


def test_nothing_expires_while_a_group_rebalances() -> None:
    world = World(offsets_retention_minutes=10)
    long: dict[str, Any] = {"session_ms": 1_800_000, "rebalance_ms": 3_600_000, **consumers("t")}
    (leader,), generation = world.stable(1, **long)
    world.commit({1: 1}, member_id=leader, generation=generation, topic="other")
    world.join_twice(**long)
    world.advance(4 * MINUTE_MS)
    world.join(leader, **long)
    assert world.state is GroupState.COMPLETING
    world.advance(10 * MINUTE_MS)
    assert offsets(expired(world)) == {1: 1}


def test_a_group_of_another_type_never_expires_while_it_lives() -> None:
    world = World(offsets_retention_minutes=10)
    (leader,), generation = world.stable(1, session_ms=1_800_000)
    world.commit({0: 1}, member_id=leader, generation=generation)
    world.advance(20 * MINUTE_MS)
    assert offsets(expired(world)) == {0: 1}


def test_an_empty_group_without_offsets_goes() -> None:
    world = World()
    (leader,), _ = world.stable(1)
    assert expired(world).shard.groups
    world.leave(leader)
    assert expired(world).shard.groups == {}


def test_what_was_committed_for_a_topic_goes_with_the_topic() -> None:
    world = World()
    world.commit({0: 1, 1: 2})
    world.commit({0: 1}, topic="other")
    for _ in forget_topics(world.shard, [TopicPartition("t", 0), TopicPartition("t", 1)], world.now_ms):
        pass
    assert list(world.group.offsets) == [TopicPartition("other", 0)]
    before = durable(world.shard)
    world.restart()
    assert durable(world.shard) == before


# What strangers may hold


def test_one_address_cannot_take_all_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdings, "BYTES_MAX", 40_000)
    monkeypatch.setattr(holdings, "ADDRESS_BYTES_MAX", 20_000)
    world = World()
    count = 0
    while world.join(group=f"g{count}", host=f"127.0.0.{count + 1}").error == ErrorCode.MEMBER_ID_REQUIRED:
        count += 1
    assert 5 < count < 20
    assert world.join(group="more", host="127.0.0.66").error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join(group="mine", host="10.0.0.1").error == ErrorCode.MEMBER_ID_REQUIRED
    assert world.commit({0: 1}, "g0", host="127.0.0.1") == {0: ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    assert world.commit({0: 1}, "mine", host="10.0.0.1") == {0: NONE}
    assert world.commit({0: 2}, "mine", host="10.0.0.1") == {0: NONE}, "what is there may go on"


def test_ids_that_are_given_out_and_not_used_take_no_more_room_than_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdings, "ADDRESS_BYTES_MAX", 20_000)
    world = World()
    told = [world.join(host="127.0.0.1").error for _ in range(100)]
    given = told.index(ErrorCode.GROUP_MAX_SIZE_REACHED)
    assert 5 < given < 40
    assert set(told[:given]) == {ErrorCode.MEMBER_ID_REQUIRED}
    assert set(told[given:]) == {ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert world.shard.shared.holdings.by_address["127.0.0.1"] <= 20_000
    assert world.join(host="10.0.0.1").error == ErrorCode.MEMBER_ID_REQUIRED, "others have room left"
    world.advance(10_000)  # their session
    assert not world.group.pending
    assert world.join(host="127.0.0.1").error == ErrorCode.MEMBER_ID_REQUIRED, "and so has who did not use his"


def test_groups_that_are_begun_and_never_joined_take_no_more_room_than_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids are given back after a session; the groups that were made for them stay until they expire."""
    monkeypatch.setattr(holdings, "ADDRESS_BYTES_MAX", 20_000)
    world = World()
    told = []
    for number in range(100):
        told.append(world.join(group=f"g{number}", host="127.0.0.1").error)
        world.advance(10_000)  # their session
    made = told.index(ErrorCode.GROUP_MAX_SIZE_REACHED)
    assert 5 < made < 20
    assert set(told[made:]) == {ErrorCode.GROUP_MAX_SIZE_REACHED}
    held = world.shard.shared.holdings
    assert held.total <= 20_000
    assert len(world.groups) <= made + 1, "and of those that are refused none is there"


def test_metadata_is_counted_and_given_back() -> None:
    world = World()
    shared = world.shard.shared
    (leader,), _ = world.stable(1, protocols=(("range", b"x" * 10_000),))
    held = shared.holdings.total
    assert held > 10_000
    world.leave(leader)
    assert shared.holdings.total < held - 10_000
    list(delete_group(world.shard, "g", world.now_ms))
    assert (shared.holdings.total, shared.holdings.by_address) == (0, {})


def test_what_a_group_says_of_itself_is_counted_and_given_back() -> None:
    """Its type stayed when all had left, and the names of its topics took fifteen times what the members had sent."""
    world = World()
    holdings_ = world.shard.shared.holdings
    (leader,), _ = world.stable(1, protocol_type="t" * 30_000)
    world.leave(leader)
    assert 30_000 < holdings_.total < 33_000
    world.restart()
    assert 30_000 < world.shard.shared.holdings.total < 33_000
    list(delete_group(world.shard, "g", world.now_ms))
    assert world.shard.shared.holdings.total == 0
    (leader,), _ = world.stable(1, **consumers(*(f"{number:05}" for number in range(10_000))))
    held = world.shard.shared.holdings.total
    assert 135 * 10_000 + 7 * 10_000 < held < 145 * 10_000
    assert memory_of(lambda: frozenset([f"{number:05}" for number in range(10_000)])) < 135 * 10_000
    world.restart()
    assert world.shard.shared.holdings.total in range(held - 100, held + 100)
    world.leave(leader)
    assert world.shard.shared.holdings.total < 5_000


def test_offsets_that_a_start_finds_take_no_more_than_they_count() -> None:
    """Each had a topic's name of its own: 480 bytes for one of a hundred letters."""
    world = World()
    world.commit(dict.fromkeys(range(2_000), 1_000_000), topic="t" * 100)
    written = world.journal.records
    groups: dict[TopicPartition, CommittedOffset | None] = {}

    def read() -> None:
        groups.update((one.key, one.committed) for one in starmap(decode, written) if isinstance(one, OffsetRecord))

    assert memory_of(read) < 2_000 * holdings.OFFSET_BYTES
    assert len(groups) == 2_000


def test_an_unknown_type_has_to_fit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdings, "BYTES_MAX", 40_000)
    monkeypatch.setattr(holdings, "ADDRESS_BYTES_MAX", 20_000)
    world = World()
    told = world.join(version=3, protocol_type="t" * 20_000)
    assert told.error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join(version=3, protocol_type="t" * 5_000, group="h").waits


def test_where_groups_take_half_the_room_what_they_consume_is_not_known(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is refused for it: it is as with more names than are looked at."""
    monkeypatch.setattr(holdings, "BYTES_MAX", 80_000)
    monkeypatch.setattr(holdings, "ADDRESS_BYTES_MAX", 40_000)
    world = World()
    for group, count, known in (("g", 50, True), ("h", 100, False), ("i", 1, True)):
        world.stable(1, group=group, **consumers(*(f"{number}" for number in range(count))))
        assert (world.shard.groups[group].topics is not None) is known  # type: ignore[union-attr]
    assert {one.getMessage() for one in caplog.records if one.levelname == "WARNING"} == {
        "group h: there is no room for the names of the 100 topics that it consumes"
    }


def test_many_offsets_expire_in_steps() -> None:
    world = World(offsets_retention_minutes=10)
    world.commit(dict.fromkeys(range(2500), 1))
    world.advance(5 * MINUTE_MS)
    world.commit({0: 2})
    world.advance(5 * MINUTE_MS)
    steps = expire(world.shard, world.wall_ms, world.now_ms)
    next(steps)
    world.commit({1: 2})
    list(steps)
    assert offsets(world) == {0: 2, 1: 2}


def test_a_member_cannot_grow_beyond_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdings, "BYTES_MAX", 40_000)
    monkeypatch.setattr(holdings, "ADDRESS_BYTES_MAX", 20_000)
    world = World()
    (leader,), generation = world.stable(1)
    assert world.join(leader, protocols=(("range", b"x" * 30_000),)).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.heartbeat(leader, generation) == NONE


def test_assignments_cannot_grow_beyond_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdings, "BYTES_MAX", 40_000)
    monkeypatch.setattr(holdings, "ADDRESS_BYTES_MAX", 20_000)
    world = World()
    member, told = world.join_twice()
    world.until(told)
    assert world.sync(member, 1, {member: b"x" * 30_000}).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.group.members[member].assignment == b""


@pytest.mark.parametrize("split", [1, 2])
def test_of_more_names_than_are_looked_at_nobody_knows_what_is_consumed(split: int) -> None:
    for count, known in ((NAMES_MAX, True), (NAMES_MAX + split, False)):
        world = World()
        each = [f"{at}" for at in range(count)]
        for some in (each[: count // split], each[count // split :])[:split]:
            told = world.join("", instance=f"{len(some)}-{some[0]}", **consumers(*some))  # type: ignore[arg-type]
        world.until(told)
        assert (world.group.topics is not None) is known


def test_a_subscription_that_counts_below_nothing_takes_no_bound_off() -> None:
    world = World()
    below = struct.pack(">hi", 0, -(2**31))
    told = world.join("", instance="a", protocol_type="consumer", protocols=(("range", below),))
    world.join("", instance="b", **consumers(*map(str, range(NAMES_MAX + 1))))  # type: ignore[arg-type]
    world.until(told)
    assert world.group.topics is None


def test_many_offsets_are_looked_at_in_steps_and_one_committed_meanwhile_stays() -> None:
    world = World()
    world.commit(dict.fromkeys(range(OFFSETS_PER_STEP + 1), 1))
    world.advance(8 * 24 * 60 * MINUTE_MS)
    steps = expire(world.shard, world.wall_ms, world.now_ms)
    next(steps)
    world.commit({7: 2})
    for _ in steps:
        pass
    assert offsets(world) == {7: 2}


def test_the_members_of_one_group_have_a_bound_of_their_own() -> None:
    """Its leader was told 42 MB in a step of 70 ms until now."""
    world = World()
    large = (("range", bytes(3 * 1024 * 1024)),)
    first, second, third = (world.join("", instance=f"{at}", protocols=large, version=9) for at in range(3))
    refused = world.join("", instance="4", protocols=large, version=9)
    assert refused.error == ErrorCode.GROUP_MAX_SIZE_REACHED
    world.until(first, second, third)
    assert len(first.response.members) == 3
    again = world.join(first.response.member_id, instance="0", protocols=(("range", bytes(5 * 1024 * 1024)),))
    assert again.error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join("", "other", instance="4", protocols=large).waits

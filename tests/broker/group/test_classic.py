"""The classic protocol, scenario by scenario (G01 to G10), with time as an argument."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.group import rebalance
from barnabas.broker.group.group import Group
from barnabas.broker.group.rebalance import PENDING_MS_MAX
from barnabas.broker.group.state import FOLLOWS, GroupState
from barnabas.protocol.errors import ErrorCode, KafkaError
from tests.broker.group.world import Told, World

NONE, UNKNOWN, ILLEGAL = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION
REBALANCE, FENCED = ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.FENCED_INSTANCE_ID


# Joining


def test_a_first_member_is_given_an_id_and_joins_with_it_after_the_delay() -> None:
    world = World()
    first = world.join(client="me")
    assert first.error == ErrorCode.MEMBER_ID_REQUIRED
    assert first.response.member_id.startswith("me-")
    again = world.join(first.response.member_id)
    assert again.waits
    world.advance(2999)
    assert again.waits
    world.advance(1)
    told = again.response
    assert (told.error_code, told.generation_id, told.leader) == (0, 1, told.member_id)
    assert [one.member_id for one in told.members] == [told.member_id]
    assert world.state is GroupState.COMPLETING


def test_before_version_4_a_member_is_in_at_once() -> None:
    world = World(group_initial_rebalance_delay_ms=0)
    told = world.join(version=3).response
    assert (told.error_code, told.generation_id) == (0, 1)


def test_version_0_says_no_rebalance_timeout_and_means_its_session() -> None:
    world = World()
    first = world.join(version=0, rebalance_ms=-1)
    world.until(first)
    second = world.join(version=0, rebalance_ms=-1)
    world.advance(9000)
    assert world.heartbeat(first.response.member_id, 1) == REBALANCE
    world.advance(999)
    assert second.waits
    world.advance(1)
    assert second.response.generation_id == 2
    assert list(world.group.members) == [second.response.member_id]


def test_without_delay_the_first_member_is_answered_in_the_next_millisecond() -> None:
    world = World(group_initial_rebalance_delay_ms=0)
    world.step_ms = 0
    _, told = world.join_twice()
    assert told.waits
    world.advance(1)
    assert told.response.generation_id == 1


def test_without_delay_those_who_come_together_are_in_one_generation() -> None:
    """Else the first has one of its own, and the others wait for its next heartbeat. A pause of a ms ends it."""
    world = World(group_initial_rebalance_delay_ms=0)
    world.step_ms = 0
    told = []
    for _ in range(3):
        told += [world.join_twice()[1] for _ in range(3)]
        assert all(one.waits for one in told)
        world.advance(1)
    world.advance(1)
    assert [one.response.generation_id for one in told] == [1] * 9
    assert [len(one.response.members) for one in told] == [9] + [0] * 8


def test_without_delay_who_was_given_an_id_is_waited_for() -> None:
    world = World(group_initial_rebalance_delay_ms=0)
    world.step_ms = 0
    ids = [world.join().response.member_id for _ in range(2)]
    first = world.join(ids[0])
    world.advance(10)
    assert first.waits
    second = world.join(ids[1])
    assert first.response.generation_id == second.response.generation_id == 1


def test_without_delay_the_last_who_was_given_an_id_begins_the_generation() -> None:
    """Where some came in each millisecond, one or two more went by behind the last of a hundred."""
    world = World(group_initial_rebalance_delay_ms=0)
    world.step_ms = 0
    ids = [world.join().response.member_id for _ in range(9)]
    told: list[Told] = []
    for one in ids:
        assert all(each.waits for each in told)
        world.advance(1)
        told.append(world.join(one))
    assert [one.response.generation_id for one in told] == [1] * 9


def test_without_delay_who_was_given_an_id_behind_the_last_is_waited_for() -> None:
    """What was received with the last one's request is served before the generation begins."""
    world = World(group_initial_rebalance_delay_ms=0)
    world.step_ms = 0
    ids = [world.join().response.member_id for _ in range(2)]
    first = world.join(ids[0])
    world.advance(2)
    world.held_jobs = []
    second, third_id = world.join(ids[1]), world.join().response.member_id
    world.go_on()
    assert first.waits
    assert second.waits
    third = world.join(third_id)
    assert [one.response.generation_id for one in (first, second, third)] == [1] * 3
    world.advance(PENDING_MS_MAX)
    assert world.group.generation == 1


def test_without_delay_an_id_that_nobody_uses_holds_nobody_back_for_long() -> None:
    world = World(group_initial_rebalance_delay_ms=0)
    world.step_ms = 0
    used, _ = [world.join().response.member_id for _ in range(2)]
    told = world.join(used)
    world.advance(PENDING_MS_MAX - 1)
    assert told.waits
    world.advance(1)
    assert told.response.generation_id == 1


def test_ids_that_nobody_uses_are_waited_for_with_few_alarms(monkeypatch: pytest.MonkeyPatch) -> None:
    """One each millisecond: a thousand such groups a second rang 500,000 times."""
    rings: list[int] = []

    def counted(*given: Any) -> None:
        rings.append(given[-1])
        over(*given)

    over = rebalance._delay_over
    monkeypatch.setattr(rebalance, "_delay_over", counted)
    world = World(group_initial_rebalance_delay_ms=0)
    used, _ = [world.join().response.member_id for _ in range(2)]
    told = world.join(used)
    world.advance(PENDING_MS_MAX)
    assert told.response.generation_id == 1
    assert 0 < len(rings) <= 2


@pytest.mark.parametrize("gone", ["it leaves", "it finds no place"])
def test_nobody_is_held_back_for_an_id_that_is_given_up(gone: str) -> None:
    world = World(group_initial_rebalance_delay_ms=0, group_max_size=1)
    world.step_ms = 0
    used, other = [world.join().response.member_id for _ in range(2)]
    told = world.join(used)
    world.advance(10)
    assert told.waits
    if gone == "it leaves":
        assert world.leave(other) == [NONE]
    else:
        assert world.join(other).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    world.advance(1)
    assert told.response.generation_id == 1


def test_g02_who_comes_within_the_delay_adds_another_and_is_in_the_same_generation() -> None:
    world = World()
    _, first = world.join_twice()
    world.advance(1000)
    _, second = world.join_twice()
    world.advance(4999)
    assert first.waits
    world.advance(1)
    assert first.response.generation_id == second.response.generation_id == 1
    assert first.response.leader == second.response.leader == first.response.member_id
    assert len(first.response.members) == 2
    assert second.response.members == []


def test_the_delay_ends_with_the_largest_rebalance_timeout() -> None:
    world = World()
    _, first = world.join_twice(rebalance_ms=5000)
    for _ in range(10):
        world.advance(1000)
        world.join_twice(rebalance_ms=5000)
        if not first.waits:
            break
    assert world.now_ms - 1_000_000 == 5000


@pytest.mark.parametrize("version", [3, 9])
def test_an_unknown_id_and_no_group_are_an_unknown_member(version: int) -> None:
    world = World()
    assert world.join("nobody", version=version).error == UNKNOWN
    assert world.shard.groups == {}
    world.stable(1)
    assert world.join("nobody", version=version).error == UNKNOWN


@pytest.mark.parametrize(
    ("protocol_type", "protocols"), [("", (("range", b""),)), ("test", ()), ("other", (("range", b""),))]
)
def test_what_nobody_else_can_is_inconsistent(protocol_type: str, protocols: tuple[tuple[str, bytes], ...]) -> None:
    world = World()
    if protocol_type != "other":
        told = world.join(protocol_type=protocol_type, protocols=protocols)
        assert told.error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert world.journal.records == [], "a refused join leaves no group"
    world.stable(1)
    told = world.join(protocol_type=protocol_type, protocols=protocols)
    assert told.error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.state is GroupState.STABLE


def test_the_protocol_with_most_votes_among_those_all_know_wins() -> None:
    world = World()
    _, a = world.join_twice(protocols=(("x", b"1"), ("y", b"2"), ("z", b"3")))
    world.join_twice(protocols=(("y", b"4"), ("x", b"5")))
    world.join_twice(protocols=(("y", b"6"), ("x", b"7")))
    world.until(a)
    assert a.response.protocol_name == "y"
    assert [one.metadata for one in a.response.members] == [b"2", b"4", b"6"]
    told = world.join(protocols=(("z", b""),))
    assert told.error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_is_full_at_its_maximum() -> None:
    world = World(group_max_size=2)
    world.stable(2)
    assert world.join().error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not world.group.pending


def test_that_a_group_is_full_is_said_once_a_while(caplog: pytest.LogCaptureFixture) -> None:
    """Its clients alone knew."""
    world = World(group_max_size=1)
    ((member,), _) = world.stable(1)
    caplog.clear()
    for _ in range(3):
        world.join(client="app", host="10.0.0.9")
    refused = "group g is full, a member is refused: group.max.size=1; client app at 10.0.0.9"
    assert caplog.messages == [refused]
    for _ in range(10):
        world.advance(6_000)
        world.heartbeat(member, 1)
    world.join(client="app", host="10.0.0.9")
    assert caplog.messages[1:] == [f"{refused}; 2 more since this was said last"]


def test_one_too_many_in_a_rebalance_is_refused_and_the_others_go_on() -> None:
    world = World(group_max_size=2)
    joins = [world.join_twice(version=9)[1] for _ in range(2)]
    third = world.join()
    assert third.error == ErrorCode.GROUP_MAX_SIZE_REACHED
    world.until(*joins)
    assert {one.response.generation_id for one in joins} == {1}


# Rebalancing


def test_a_third_member_has_all_join_again_and_nobody_is_answered_before_the_slowest() -> None:
    world = World()
    (leader, follower), generation = world.stable(2)
    third, told = world.join_twice()
    assert world.heartbeat(leader, generation) == world.heartbeat(follower, generation) == REBALANCE
    again = world.join(leader)
    assert again.waits
    assert told.waits
    slow = world.join(follower)
    assert {one.response.generation_id for one in (told, again, slow)} == {generation + 1}
    assert again.response.leader == leader
    assert {one.member_id for one in again.response.members} == {leader, follower, third}
    assert world.heartbeat(leader, generation) == ILLEGAL


def test_who_does_not_join_again_is_out_when_the_rebalance_timeout_is_over() -> None:
    world = World()
    (leader, follower), generation = world.stable(2, session_ms=60_000)
    again = world.join(follower, session_ms=60_000)
    assert again.response.generation_id == generation, "a follower with nothing new has what there is"
    _, told = world.join_twice(session_ms=60_000)
    world.join(follower, session_ms=60_000)
    world.advance(29_999)
    assert told.waits
    world.advance(1)
    assert told.response.generation_id == generation + 1
    assert told.response.leader == follower, "the leader has not come, the first who has leads"
    assert world.heartbeat(leader, generation) == UNKNOWN


def test_a_leader_that_joins_again_has_all_join_again() -> None:
    world = World()
    (leader, follower), generation = world.stable(2)
    told = world.join(leader)
    assert told.waits
    assert world.heartbeat(follower, generation) == REBALANCE


def test_a_follower_whose_metadata_changed_has_all_join_again() -> None:
    world = World()
    (_, follower), _ = world.stable(2)
    assert world.join(follower, protocols=(("range", b"new"),)).waits
    assert world.state is GroupState.PREPARING


def test_joining_again_while_completing_repeats_the_generation_unless_something_changed() -> None:
    world = World()
    a, told = world.join_twice()
    world.advance(3000)
    assert world.join(a).response.generation_id == told.response.generation_id
    assert len(world.join(a).response.members) == 1
    changed = world.join(a, protocols=(("range", b"new"),))
    assert changed.response.generation_id == told.response.generation_id + 1


def test_a_second_join_of_the_same_member_ends_the_wait_of_the_first() -> None:
    world = World()
    (leader, _), _ = world.stable(2)
    first = world.join(leader)
    second = world.join(leader)
    assert first.error == REBALANCE
    assert second.waits


def test_an_id_that_is_never_used_holds_a_rebalance_up_no_longer_than_its_session() -> None:
    world = World()
    (leader,), generation = world.stable(1)
    world.join(session_ms=7000)
    told = world.join(leader)
    assert told.waits
    for _ in range(6):
        world.advance(1000)
        assert told.waits
    world.advance(1000)
    assert told.response.generation_id == generation + 1


def test_a_new_member_whose_client_gave_up_is_out_after_five_minutes() -> None:
    world = World()
    world.stable(1, session_ms=1_800_000, rebalance_ms=1_800_000)
    _, told = world.join_twice(rebalance_ms=1_800_000)
    world.advance(299_999)
    assert told.waits
    world.advance(1)
    assert told.error == UNKNOWN


# Syncing


def test_a_follower_waits_for_its_leader_and_one_left_out_has_nothing() -> None:
    world = World()
    joins = [world.join_twice() for _ in range(3)]
    world.until(joins[0][1])
    (leader, _), (b, _), (c, _) = joins
    first, second = world.sync(b, 1), world.sync(c, 1)
    assert first.waits
    assert second.waits
    third = world.sync(leader, 1, {leader: b"L", b: b"B"})
    assert [one.response.assignment for one in (first, second, third)] == [b"B", b"", b"L"]
    assert third.response.protocol_name == "range"
    assert third.response.protocol_type == "test"
    assert world.state is GroupState.STABLE
    assert world.sync(b, 1).response.assignment == b"B", "asked again in a stable group"


def test_a_leader_that_never_assigns_is_out_and_the_others_join_again() -> None:
    world = World()
    joins = [world.join_twice(session_ms=60_000) for _ in range(2)]
    world.until(joins[0][1])
    (leader, _), (follower, _) = joins
    waits = world.sync(follower, 1)
    world.advance(30_000)
    assert waits.error == REBALANCE
    assert leader not in world.group.members
    assert world.heartbeat(follower, 1) == REBALANCE


def test_sync_says_what_is_wrong() -> None:
    world = World()
    assert world.sync("nobody", 1).error == UNKNOWN
    (leader, follower), generation = world.stable(2)
    assert world.sync("nobody", generation).error == UNKNOWN
    assert world.sync(leader, generation - 1).error == ILLEGAL
    world.join(leader)
    assert world.sync(follower, generation).error == REBALANCE


def test_what_a_leader_assigns_counts_only_for_its_generation() -> None:
    world = World()
    (leader, follower), generation = world.stable(2)
    world.join(leader)
    world.join(follower)
    assert world.sync(leader, generation, {leader: b"stale"}).error == ILLEGAL
    assert world.group.members[leader].assignment != b"stale"


def test_a_second_sync_of_the_same_member_ends_the_wait_of_the_first() -> None:
    world = World()
    joins = [world.join_twice() for _ in range(2)]
    world.until(joins[0][1])
    first = world.sync(joins[1][0], 1)
    second = world.sync(joins[1][0], 1)
    assert first.error == REBALANCE
    assert second.waits


# Heartbeats and sessions


def test_heartbeats_say_what_is_wrong() -> None:
    world = World()
    assert world.heartbeat("nobody", 1) == UNKNOWN
    (leader,), generation = world.stable(1)
    assert world.heartbeat(leader, generation) == NONE
    assert world.heartbeat(leader, generation - 1) == ILLEGAL
    assert world.heartbeat("nobody", generation) == UNKNOWN


def test_a_silent_member_is_out_after_its_session_and_the_others_are_told() -> None:
    world = World()
    (leader, follower), generation = world.stable(2, session_ms=6000)
    for _ in range(5):
        world.advance(1000)
        assert world.heartbeat(leader, generation) == NONE
    world.advance(999)
    assert world.heartbeat(leader, generation) == NONE
    world.advance(1)
    assert world.heartbeat(leader, generation) == REBALANCE
    assert world.heartbeat(follower, generation) == UNKNOWN


def test_a_heartbeat_moves_no_alarm_and_the_session_ends_when_it_says() -> None:
    """To move it is a fifth of what a heartbeat costs; a session that is shorter from now on ends no later for that."""
    world = World()
    (leader,), generation = world.stable(1, session_ms=60_000)
    alarm = world.group.members[leader].session
    assert alarm is not None
    rings_ms = alarm.deadline_ms
    world.advance(50_000)
    assert world.heartbeat(leader, generation) == NONE
    assert alarm.deadline_ms == rings_ms
    world.advance(59_999)
    assert list(world.group.members) == [leader]
    assert world.heartbeat(leader, generation) == NONE
    again = world.join(leader, session_ms=6000)
    generation = again.response.generation_id
    assert world.sync(leader, generation, {leader: b""}).error == NONE
    world.advance(5999)
    assert list(world.group.members) == [leader]
    world.advance(1)
    assert not world.group.members


def test_a_member_that_waits_for_the_others_does_not_expire() -> None:
    world = World()
    (leader, _), generation = world.stable(2, session_ms=60_000, rebalance_ms=300_000)
    waits = world.join(leader, session_ms=6000, rebalance_ms=300_000)
    world.advance(59_000)
    assert waits.waits
    world.advance(1000)  # the other one's session
    assert waits.response.generation_id == generation + 1


def test_a_member_that_waited_for_its_share_has_a_session_from_then_on() -> None:
    """Its alarm rang while it waited, and said nothing."""
    world = World()
    joins = [world.join_twice(session_ms=session_ms) for session_ms in (60_000, 6000)]
    world.until(*(told for _, told in joins))
    (leader, _), (follower, _) = joins
    waits = world.sync(follower, 1)
    world.advance(20_000)
    assert waits.waits
    assert world.sync(leader, 1, {follower: b"its"}).error == NONE
    assert waits.response.assignment == b"its"
    world.advance(5999)
    assert follower in world.group.members
    world.advance(1)
    assert follower not in world.group.members


@pytest.mark.parametrize("session_ms", [6000, 400_000])
def test_a_new_member_waits_for_five_minutes_whatever_its_session(session_ms: int) -> None:
    """The alarm of the id that it was given, of the same length as its session, is another one from then on."""
    world = World()
    world.config.group_max_session_timeout_ms = 1_800_000
    (leader,), generation = world.stable(1, session_ms=6000, rebalance_ms=600_000)
    given = world.join(session_ms=session_ms, rebalance_ms=600_000).response.member_id
    world.advance(1000)
    waits = world.join(given, session_ms=session_ms, rebalance_ms=600_000)
    assert not world.group.pending
    for _ in range(299):
        world.advance(1000)
        assert world.heartbeat(leader, generation) == REBALANCE
    world.advance(999)
    assert waits.waits
    world.advance(1)
    assert waits.error == UNKNOWN
    assert world.heartbeat(leader, generation) == REBALANCE


def test_a_new_member_of_a_generation_has_its_session() -> None:
    world = World()
    (_, follower), generation = world.stable(2, session_ms=6000)
    for _ in range(5):
        world.advance(1000)
        assert world.heartbeat(follower, generation) == NONE
    world.advance(1000)
    assert world.heartbeat(follower, generation) == REBALANCE, "the leader was not heard of"


def test_heartbeats_count_during_a_rebalance() -> None:
    world = World()
    (leader, follower), generation = world.stable(2, session_ms=6000)
    world.join(leader)
    for _ in range(20):
        world.advance(1000)
        assert world.heartbeat(follower, generation) == REBALANCE


def test_the_last_member_leaves_an_empty_group_of_the_next_generation() -> None:
    world = World()
    (leader,), generation = world.stable(1, session_ms=6000)
    world.advance(6000)
    assert (world.state, world.group.generation, world.group.protocol) == (GroupState.EMPTY, generation + 1, None)
    assert world.heartbeat(leader, generation + 1) == UNKNOWN


# Leaving


def test_who_leaves_has_the_others_join_again_at_once() -> None:
    world = World()
    (leader, follower), generation = world.stable(2)
    assert world.leave(follower) == [NONE]
    assert world.heartbeat(leader, generation) == REBALANCE
    assert world.leave("nobody", follower) == [UNKNOWN, UNKNOWN]


def test_an_id_that_was_given_out_can_leave_too() -> None:
    world = World()
    world.stable(1)
    pending = world.join().response.member_id
    assert world.leave(pending) == [NONE]
    assert not world.group.pending
    assert world.state is GroupState.STABLE or world.state is GroupState.PREPARING


def test_leaving_a_group_that_is_not_there() -> None:
    world = World()
    with pytest.raises(KafkaError) as fault:
        world.leave("a")
    assert fault.value.code == UNKNOWN


def test_a_member_taken_out_while_it_waits_is_told_so() -> None:
    world = World()
    joins = [world.join_twice() for _ in range(2)]
    world.until(joins[0][1])
    waits = world.sync(joins[1][0], 1)
    world.leave(joins[1][0])
    assert waits.error == UNKNOWN


# Static members


def static_pair(world: World) -> tuple[str, str, int]:
    joins = [world.join(instance=name, session_ms=30_000) for name in ("a", "b")]
    world.until(*joins)
    first, second = (one.response for one in joins)
    waits = world.sync(second.member_id, 1, instance="b")
    world.sync(first.member_id, 1, {first.member_id: b"A", second.member_id: b"B"}, instance="a")
    assert waits.response.assignment == b"B"
    return first.member_id, second.member_id, 1


def test_a_static_member_comes_back_to_its_assignment_without_a_rebalance() -> None:
    world = World()
    a, b, generation = static_pair(world)
    back = world.join(instance="b").response
    assert (back.error_code, back.generation_id, back.leader) == (0, generation, a)
    assert back.member_id != b
    assert back.skip_assignment is False
    assert world.sync(back.member_id, generation, instance="b").response.assignment == b"B"
    assert world.heartbeat(b, generation, instance="b") == FENCED
    assert world.heartbeat(b, generation) == UNKNOWN
    assert world.heartbeat(a, generation) == NONE


def test_a_static_leader_that_comes_back_is_told_to_assign_nothing() -> None:
    world = World()
    _, _, generation = static_pair(world)
    back = world.join(instance="a").response
    assert (back.generation_id, back.leader, back.skip_assignment) == (generation, back.member_id, True)
    assert len(back.members) == 2
    older = world.join(instance="a", version=8).response
    assert older.leader == back.member_id != older.member_id, "it cannot be told to skip, so it is not told to lead"
    assert older.members == []


def test_a_static_member_that_brings_another_protocol_has_all_join_again() -> None:
    world = World()
    a, _, _ = static_pair(world)
    assert world.join(instance="b", protocols=(("range", b""), ("more", b""))).response.generation_id == 1
    told = world.join(instance="b", protocols=(("range", b"x"),))
    assert told.response.generation_id == 1
    world.leave(a)
    world.advance(60_000)


def test_whoever_waits_under_the_old_id_of_a_static_member_is_fenced() -> None:
    world = World()
    first = world.join(instance="a")
    second = world.join(instance="a")
    assert first.error == FENCED
    world.until(second)
    assert second.response.generation_id == 1
    assert len(world.group.members) == 1


def test_whoever_waits_for_a_share_under_the_old_id_of_a_static_member_is_fenced() -> None:
    world = World()
    leader, follower = world.join(instance="a"), world.join(instance="b")
    world.until(leader, follower)
    told = world.sync(follower.response.member_id, 1, instance="b")
    assert told.waits
    world.join(instance="b")
    assert told.error == FENCED


def test_a_static_member_that_comes_back_while_completing_has_all_join_again() -> None:
    world = World()
    joins = [world.join(instance=name) for name in ("a", "b")]
    world.until(*joins)
    waits = world.sync(joins[1].response.member_id, 1, instance="b")
    back = world.join(instance="a")
    assert waits.error == REBALANCE
    assert back.waits
    assert world.join(joins[1].response.member_id, instance="b").response.generation_id == 2


def test_static_members_are_kept_over_a_rebalance_they_miss() -> None:
    world = World()
    a, b, _ = static_pair(world)
    _, told = world.join_twice(session_ms=60_000)
    world.join(a, instance="a", session_ms=60_000)
    world.advance(29_000)
    assert world.heartbeat(b, 1, instance="b") == REBALANCE
    world.advance(1000)
    assert told.response.generation_id == 2
    assert b in world.group.members


def test_an_administrator_takes_a_static_member_out_by_its_instance() -> None:
    world = World()
    _, _, generation = static_pair(world)
    assert world.leave("", instance="b") == [NONE]
    assert world.leave("", instance="b") == [UNKNOWN]
    assert world.leave("", instance=None) == [UNKNOWN]
    assert list(world.group.static) == ["a"]
    assert generation == 1


# States


def test_every_state_but_dead_can_be_left_and_no_other_way_than_the_table_says() -> None:
    assert {state for state, _ in FOLLOWS} == set(GroupState) - {GroupState.DEAD}
    group = Group("g")
    with pytest.raises(AssertionError):
        group.move(GroupState.STABLE, 0)


def test_what_no_batch_can_hold_is_refused_before_it_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """8 MB for one member were copied and encoded five times before the log refused them: a step of 34 ms."""
    world = World()
    (leader, other), generation = world.stable(2)
    told = world.join(leader)
    world.join(other)
    world.until(told)
    monkeypatch.setattr(Group, "stored", None)
    waits = world.sync(other, generation + 1)
    synced = world.sync(leader, generation + 1, {leader: bytes(world.journal.batch_bytes_max), other: b"a"})
    assert synced.error == waits.error == ErrorCode.UNKNOWN_SERVER_ERROR
    monkeypatch.undo()
    assert world.heartbeat(leader, generation + 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_what_is_assigned_to_nobody_in_the_group_is_left_out() -> None:
    world = World()
    (leader, other), generation = world.stable(2)
    told = world.join(leader)
    world.join(other)
    world.until(told)
    nobody = {f"nobody-{number}": bytes(world.journal.batch_bytes_max) for number in range(3)}
    assert world.sync(leader, generation + 1, {leader: b"mine", **nobody}).response.assignment == b"mine"
    assert world.sync(other, generation + 1).response.assignment == b""

"""Members of the consumer protocol come, share, give up, are fenced and go, as with Apache Kafka 4.3."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.group import holdings
from barnabas.broker.group.alarms import SPENT_MAX
from barnabas.broker.group.consumer import advancing, heartbeats, members, resolving
from barnabas.broker.group.consumer.values import Current, CurrentRecord, MemberState
from barnabas.protocol.errors import ErrorCode, KafkaError
from tests.broker.group.consumer.world import ConsumerWorld

UNCHANGED = heartbeats._unchanged


@pytest.fixture(params=["short way", "common way"])
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ConsumerWorld:
    """Heartbeats that say nothing new have a shorter way to the same end: everything is played with it and without."""
    if request.param == "common way":
        monkeypatch.setattr(heartbeats, "_unchanged", lambda *_: None)
    return ConsumerWorld()


def test_a_heartbeat_that_says_nothing_new_goes_the_short_way(
    world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.comes("a")
    expected = world.beat("a", 2)
    ways: list[str] = []

    def common_way(*_: Any) -> Any:
        ways.append("common")
        return expected

    monkeypatch.setattr(heartbeats, "_beat", common_way)
    common = heartbeats._unchanged is not UNCHANGED
    assert world.beat("a", 2) == expected
    assert world.beat("a", 2, owned={"t": [0, 1, 2, 3]}) == expected
    assert ways == ["common"] * 2 * common
    world.beat("a", 2, topics=["t"])
    world.beat("a", 1)
    assert ways == ["common"] * (2 + 2 * common)


def test_a_member_whose_share_stays_is_in_the_new_epoch_by_the_short_way(
    world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a new target most members see its epoch alone: after one of a hundred has left, 89 of 99."""
    world.topics.have("u", 2)
    world.comes("a")
    world.beat("b", topics=["u"])
    group = world.consumers()
    assert (group.epoch, group.target_epoch) == (3, 3)
    written = len(world.journal.records)
    if heartbeats._unchanged is UNCHANGED:
        monkeypatch.setattr(heartbeats, "_beat", None)
    told = world.beat("a", 2)
    assert (told.member_epoch, told.assignment) == (3, None)
    (record,) = world.journal.decoded()[written:]
    assigned = {world.id_of("t"): dict.fromkeys(range(4), 2)}
    assert record == CurrentRecord("g", "a", Current(3, 2, MemberState.STABLE, assigned))
    assert group.members["a"].current == record.current


def test_a_member_whose_share_stays_is_where_it_was_if_the_log_takes_nothing(world: ConsumerWorld) -> None:
    world.topics.have("u", 2)
    world.comes("a")
    world.beat("b", topics=["u"])
    world.journal.fault = ErrorCode.KAFKA_STORAGE_ERROR
    assert world.beat("a", 2).error_code == ErrorCode.NOT_COORDINATOR
    assert world.consumers().members["a"].current.epoch == 2
    world.journal.fault = None
    assert world.beat("a", 2).member_epoch == 3


def test_a_heartbeat_by_the_short_way_keeps_its_member_alive(world: ConsumerWorld) -> None:
    world.comes("a")
    for _ in range(4):
        world.advance(30_000)
        assert world.beat("a", 2).error_code == 0
    world.advance(45_000)
    assert world.beat("a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_first_member_has_everything_at_once(world: ConsumerWorld) -> None:
    told = world.beat("a")
    assert (told.member_id, told.member_epoch, told.heartbeat_interval_ms) == ("a", 2, 5000)
    assert world.given(told) == {"t": [0, 1, 2, 3]}
    assert world.consumers().state.value == "Stable"


def test_what_a_member_has_is_told_once_and_again_when_it_says_everything(world: ConsumerWorld) -> None:
    world.comes("a")
    assert world.given(world.beat("a", 2)) is None
    assert world.given(world.beat("a", 2, owned={"t": [0, 1, 2, 3]})) is None
    everything = world.beat("a", 2, topics=["t"], rebalance_ms=30_000, owned={"t": [0, 1, 2, 3]})
    assert world.given(everything) == {"t": [0, 1, 2, 3]}
    assert world.given(world.beat("a", 0)) == {"t": [0, 1, 2, 3]}


def test_a_member_without_an_id_is_given_one(world: ConsumerWorld) -> None:
    told = world.beat("")
    assert told.member_id is not None
    assert len(told.member_id) == 22


def test_a_second_member_is_given_its_part_when_the_first_has_let_go(world: ConsumerWorld) -> None:
    """Each partition is with one member at any time."""
    world.comes("a")
    second = world.beat("b")
    assert (second.member_epoch, world.given(second)) == (3, {})
    first = world.beat("a", 2, owned={"t": [0, 1, 2, 3]})
    kept = world.given(first)
    assert first.member_epoch == 2
    assert kept is not None
    assert len(kept["t"]) == 2
    assert world.given(world.beat("b", 3)) is None, "the first has not let go yet"
    assert world.beat("a", 2, owned={"t": [0, 1, 2, 3]}).member_epoch == 2, "it says that it has them still"
    assert world.beat("a", 2, owned=kept).member_epoch == 3
    given = world.given(world.beat("b", 3))
    assert given is not None
    assert sorted(kept["t"] + given["t"]) == [0, 1, 2, 3]
    assert world.consumers().state.value == "Stable"


def test_what_a_member_leaves_is_the_others_with_their_next_heartbeat(world: ConsumerWorld) -> None:
    world.comes("a")
    world.beat("b")
    world.settled("a", "b")
    left = world.beat("b", -1)
    assert (left.error_code, left.member_id, left.member_epoch, left.heartbeat_interval_ms) == (0, "b", -1, 0)
    assert world.consumers().state.value == "Assigning"
    assert world.given(world.beat("a", 3)) == {"t": [0, 1, 2, 3]}
    assert world.beat("b", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_who_leaves_leaves_an_empty_group(world: ConsumerWorld) -> None:
    world.comes("a")
    world.beat("a", -1)
    assert world.consumers().state.value == "Empty"
    assert world.beat("a", 0).member_epoch == 4


@pytest.mark.parametrize(
    ("epoch", "code"), [(4, ErrorCode.FENCED_MEMBER_EPOCH), (1, ErrorCode.FENCED_MEMBER_EPOCH), (2, ErrorCode.NONE)]
)
def test_a_member_of_another_epoch_is_fenced(world: ConsumerWorld, epoch: int, code: ErrorCode) -> None:
    world.comes("a")
    assert world.beat("a", epoch).error_code == code


def test_the_epoch_before_is_taken_from_one_who_has_nothing_that_is_not_its_own(world: ConsumerWorld) -> None:
    world.comes("a")
    world.beat("b")
    world.settled("a", "b")
    world.beat("b", -1)
    world.beat("a", 3)  # its answer with epoch 4 is lost
    own = world.has("a")["t"]
    assert world.beat("a", 3).error_code == ErrorCode.FENCED_MEMBER_EPOCH, "it does not say what it has"
    assert world.beat("a", 3, owned={"t": own[:2]}).member_epoch == 4
    assert world.beat("a", 3, owned={"t": [9]}).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert world.beat("a", 2, owned={"t": own[:2]}).error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_who_is_unknown_is_told_so(world: ConsumerWorld) -> None:
    told = world.beat("a", 3)
    assert (told.error_code, told.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Consumer group g not found.")
    world.comes("a")
    told = world.beat("b", 3)
    assert (told.error_code, told.error_message) == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        "Member b is not a member of group g.",
    )
    assert world.beat("b", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_has_no_more_members_than_it_may(caplog: pytest.LogCaptureFixture) -> None:
    world = ConsumerWorld(group_consumer_max_size=1)
    world.comes("a")
    told = world.beat("b")
    assert told.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert told.error_message == "The consumer group has reached its maximum capacity of 1 members."
    assert "group g is full, a member is refused: group.consumer.max.size=1; client c at 10.0.0.1" in caplog.messages
    assert world.beat("a", 2).error_code == 0


def test_who_is_silent_is_out_after_its_session(world: ConsumerWorld) -> None:
    world.comes("a")
    world.advance(30_000)
    world.beat("b")
    world.advance(20_000)
    assert list(world.consumers().members) == ["b"]
    assert world.given(world.beat("b", 3)) == {"t": [0, 1, 2, 3]}


def test_who_does_not_give_up_in_time_is_out(world: ConsumerWorld) -> None:
    world.beat("a", rebalance_ms=10_000)
    world.beat("b")
    for _ in range(4):
        world.beat("a", 2, owned={"t": [0, 1, 2, 3]})
        world.advance(3000)
    assert list(world.consumers().members) == ["b"]
    assert world.beat("a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_gives_up_in_time_stays(world: ConsumerWorld) -> None:
    world.beat("a", rebalance_ms=10_000)
    world.beat("b")
    kept = world.given(world.beat("a", 2, owned={"t": [0, 1, 2, 3]}))
    world.advance(9000)
    world.beat("a", 2, owned=kept)
    world.advance(9000)
    assert list(world.consumers().members) == ["a", "b"]


def test_a_log_that_is_full_when_a_session_ends_is_asked_again(world: ConsumerWorld) -> None:
    world.comes("a")
    world.journal.fault = ErrorCode.KAFKA_STORAGE_ERROR
    world.advance(46_000)
    assert list(world.consumers().members) == ["a"]
    world.journal.fault = None
    world.advance(1000)
    assert not world.consumers().members


def test_an_append_that_fails_leaves_all_as_it_was(world: ConsumerWorld) -> None:
    world.journal.fault = ErrorCode.KAFKA_STORAGE_ERROR
    assert world.beat("a").error_code == ErrorCode.NOT_COORDINATOR
    assert not world.shard.groups
    assert world.shard.shared.holdings.total == 0
    world.journal.fault = None
    assert world.comes("a") == {"t": [0, 1, 2, 3]}


def test_a_topic_that_comes_grows_and_goes_is_seen_with_the_next_heartbeat(world: ConsumerWorld) -> None:
    world.beat("a", topics=["t", "u"])
    world.topics.have("other", 3)
    assert world.given(world.beat("a", 2)) is None, "a topic that nobody wants changes nothing"
    world.topics.have("u", 1)
    assert world.given(world.beat("a", 2)) == {"t": [0, 1, 2, 3], "u": [0]}
    world.topics.have("u", 2)
    assert world.given(world.beat("a", 3)) == {"t": [0, 1, 2, 3], "u": [0, 1]}
    world.topics.lose("u")
    told = world.beat("a", 4)
    assert world.given(told) == {"t": [0, 1, 2, 3]}
    assert world.given(world.beat("a", told.member_epoch, owned={"t": [0, 1, 2, 3]})) is None
    assert world.member("a").current.epoch == 5


def test_a_member_that_wants_others_gives_up_what_it_does_not_want_in_the_same_epoch() -> None:
    """Also while the last target is too young for a new one."""
    world = ConsumerWorld(group_consumer_assignment_interval_ms=1000)
    world.topics.have("u", 2)
    world.beat("a", topics=["t", "u"])
    told = world.beat("a", 2, topics=["u"], owned={"t": [0, 1, 2, 3], "u": [0, 1]})
    assert (told.member_epoch, world.given(told)) == (2, {"u": [0, 1]})
    world.advance(1000)
    told = world.beat("a", 2, owned={"u": [0, 1]})
    assert told.member_epoch == 3


def test_a_clock_that_is_set_back_keeps_nobody_waiting() -> None:
    """Else who comes has nothing, and what a member had that is gone is nobody's, until it is that time again."""
    world = ConsumerWorld(group_consumer_assignment_interval_ms=1000)
    world.comes("a")
    world.advance(1000)
    world.set_ms -= 7_200_000
    world.comes("b")
    assert world.consumers().target_epoch == 3
    world.settled("a", "b")
    assert world.has("b")


def test_a_target_is_computed_at_most_once_in_an_interval() -> None:
    world = ConsumerWorld(group_consumer_assignment_interval_ms=1000)
    world.comes("a")
    world.advance(999)
    told = world.beat("b")
    assert (told.member_epoch, world.given(told)) == (2, {}), "it shares the last target, and has nothing of it"
    assert world.consumers().state.value == "Assigning"
    world.advance(1)
    assert world.given(world.beat("a", 2, owned={"t": [0, 1, 2, 3]})) is not None
    assert world.consumers().target_epoch == 3


@pytest.mark.parametrize("own", [True, False], ids=["the group's", "the broker's"])
def test_the_interval_is_the_groups_own_or_what_the_broker_allows(own: bool) -> None:
    world = ConsumerWorld(group_consumer_assignment_interval_ms=10_000)
    if own:
        world.group_settings["g"] = {"consumer.assignment.interval.ms": "2000"}
    else:
        world.config.group_consumer_max_assignment_interval_ms = 2000
    world.comes("a")
    world.comes("b")
    for after_ms, epoch in ((1999, 2), (1, 3)):
        world.advance(after_ms)
        world.beat("a", 2, owned={"t": [0, 1, 2, 3]})
        assert world.consumers().target_epoch == epoch


def test_while_a_group_waits_for_its_target_heartbeats_go_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    world = ConsumerWorld(group_consumer_assignment_interval_ms=1000)
    world.comes("a")
    world.comes("b")
    beats: list[str] = []
    common_way = heartbeats._beat

    def counted(shard: Any, request: Any, *rest: Any) -> Any:
        beats.append(request.member_id)
        return common_way(shard, request, *rest)

    monkeypatch.setattr(heartbeats, "_beat", counted)
    for _ in range(3):
        world.advance(300)
        for member_id in ("a", "b"):
            assert world.given(world.beat(member_id, 2)) is None
    assert not beats
    world.advance(100)
    assert world.given(world.beat("b", 2)) is None, "its part is still with the other"
    assert world.given(world.beat("a", 2)) == {"t": [0, 1]}
    assert beats == ["b", "a"]


def test_what_most_ask_for_assigns(world: ConsumerWorld) -> None:
    world.topics.have("u", 1)
    for name in ("a", "b", "c"):
        world.beat(name, topics=["t", "u"], assignor=None if name == "a" else "range")
    world.settled("a", "b", "c")
    assert world.has("a") == {"t": [0, 1], "u": [0]}, "uniform would give the first two of five"


def test_a_group_names_no_more_topics_than_it_may(world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists that differ count each by itself: 29 of the same 20,000 but one had steps of 134 ms."""
    monkeypatch.setattr(advancing, "NAMES_MAX", 4)
    world.beat("a", topics=["t", "u", "v"])
    told = world.beat("b", topics=["t", "v"])
    assert told.error_code == ErrorCode.INVALID_REQUEST
    assert told.error_message == (
        "the members of group g would name 5 topics in all their lists, 4 is the most; write a pattern, or the same "
        "list in all"
    )
    assert world.beat("b", topics=["v", "t", "u"]).error_code == 0
    assert world.beat("c", topics=["w"]).error_code == 0
    assert world.beat("c", 0, topics=["t"]).error_code == 0, "in place of what it named before"
    assert world.beat("c", -1).error_code == 0
    assert world.consumers().lists == {("t", "u", "v"): 2}


def test_a_group_has_no_more_patterns_than_it_may(world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advancing, "PATTERNS_MAX", 1)
    world.beat("a", topics=[], pattern="t.*")
    told = world.beat("b", topics=[], pattern="u.*")
    assert told.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert world.beat("b", topics=[], pattern="t.*").error_code == 0


def test_a_member_that_has_no_room_does_not_come_in(world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdings, "ADDRESS_BYTES_MAX", 8000)
    assert world.beat("a").error_code == 0
    codes = [world.beat(f"b{number}", host="10.0.0.1").error_code for number in range(5)]
    assert codes[-1] == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.beat("c", host="10.0.0.2").error_code == 0
    assert world.beat("a", 2).error_code == 0, "who is there goes on"


def test_a_target_that_the_log_does_not_take_is_not_tried_at_every_heartbeat() -> None:
    world = ConsumerWorld(group_consumer_assignment_interval_ms=1000)
    world.comes("a")
    world.advance(1000)
    world.topics.have("t", 5)
    world.journal.fault = ErrorCode.MESSAGE_TOO_LARGE
    assert world.beat("a", 2).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    world.journal.fault = None
    assert world.beat("a", 2).member_epoch == 2
    world.advance(1000)
    assert world.given(world.beat("a", 2)) == {"t": [0, 1, 2, 3, 4]}


# Regular expressions


def test_a_pattern_is_resolved_after_the_first_answer(world: ConsumerWorld) -> None:
    """As with Apache Kafka: epoch 1 and nothing at first, and with the next heartbeat what matches."""
    told = world.beat("a", topics=[], pattern="t|x.*")
    assert (told.member_epoch, world.given(told)) == (1, {})
    told = world.beat("a", 1)
    assert (told.member_epoch, world.given(told)) == (2, {"t": [0, 1, 2, 3]})
    assert world.consumers().names == {"t": 1}


def test_a_topic_that_matches_is_found_when_it_comes(world: ConsumerWorld) -> None:
    world.beat("a", topics=[], pattern="t|x.*")
    world.beat("a", 1)
    world.topics.have("x1", 1)
    world.beat("a", 2)
    assert world.given(world.beat("a", 2)) is None, "patterns are held against the topics once in ten seconds"
    world.advance(10_001)
    world.beat("a", 2)
    assert world.given(world.beat("a", 2)) == {"t": [0, 1, 2, 3], "x1": [0]}


def test_a_pattern_that_is_none_is_refused(world: ConsumerWorld) -> None:
    told = world.beat("a", topics=[], pattern="a(")
    assert told.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "`a(`" in str(told.error_message)
    assert not world.shard.groups


def test_a_pattern_that_nobody_has_any_more_is_forgotten(world: ConsumerWorld) -> None:
    world.topics.have("u", 1)
    world.beat("a", topics=[], pattern="t")
    told = world.beat("a", 1, topics=["u"], pattern="", owned={})
    assert world.given(told) == {"u": [0]}
    assert not world.consumers().resolved
    assert world.consumers().names == {"u": 1}


def test_what_a_pattern_matched_is_known_after_a_restart(world: ConsumerWorld) -> None:
    world.beat("a", topics=[], pattern="t")
    world.beat("a", 1)
    world.restart()
    assert world.consumers().resolved["t"].topics == {"t"}
    assert world.given(world.beat("a", 2)) is None


# Static members


def test_a_static_member_that_leaves_for_a_while_has_its_part_again(world: ConsumerWorld) -> None:
    world.beat("a", instance="i")
    world.beat("b")
    world.settled("a", "b")
    had = world.has("a")
    told = world.beat("a", -2, instance="i")
    assert (told.error_code, told.member_epoch) == (0, -2)
    told = world.beat("again", instance="i")
    assert world.given(told) == had
    assert told.member_epoch == world.consumers().epoch == 3, "nobody has to share anew"
    assert world.beat("a", 3, instance="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert sorted(world.consumers().members) == ["again", "b"]


def test_what_a_static_member_was_to_give_up_is_free_when_it_leaves_for_a_while(world: ConsumerWorld) -> None:
    """Its place stays, however short its rebalance timeout is: it has nothing to give up any more."""
    world.beat("a", instance="i", rebalance_ms=1000)
    world.beat("b")
    kept = world.given(world.beat("a", 2, instance="i", owned={"t": [0, 1, 2, 3]}))
    world.beat("a", -2, instance="i")
    assert kept is not None
    freed = [one for one in range(4) if one not in kept["t"]]
    assert world.given(world.beat("b", 3, owned={})) == {"t": freed}
    world.advance(44_000)
    assert sorted(world.consumers().members) == ["a", "b"]


def test_a_static_member_that_does_not_come_back_is_out_after_its_session(world: ConsumerWorld) -> None:
    world.beat("a", instance="i")
    world.beat("a", -2, instance="i")
    world.advance(44_000)
    assert list(world.consumers().members) == ["a"]
    world.advance(1000)
    assert world.consumers().is_empty


def test_an_instance_that_is_there_is_not_given_away(world: ConsumerWorld) -> None:
    world.beat("a", instance="i")
    told = world.beat("b", instance="i")
    assert told.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert told.error_message == (
        "Static member b with instance id i cannot join the group because the instance id is owned by a member."
    )
    assert world.beat("b", 2, instance="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert world.beat("b", 2, instance="j").error_code == ErrorCode.UNKNOWN_MEMBER_ID


# What is committed


@pytest.mark.parametrize(
    ("epoch", "version", "code"),
    [
        (4, 9, ErrorCode.STALE_MEMBER_EPOCH),
        (3, 9, ErrorCode.NONE),
        (1, 9, ErrorCode.STALE_MEMBER_EPOCH),
        (3, 8, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_a_commit_counts_by_its_epoch(world: ConsumerWorld, epoch: int, version: int, code: ErrorCode) -> None:
    world.comes("a")
    world.beat("b")
    world.settled("a", "b")
    own = world.has("a")["t"][0]
    assert committed(world, own, "a", epoch, version) == code


def test_a_commit_of_an_earlier_epoch_counts_for_what_was_had_since(world: ConsumerWorld) -> None:
    """KIP-1251: also for what is to be given up, until it is; not for what has come since."""
    world.comes("a")
    world.beat("b")
    kept = world.given(world.beat("a", 2, owned={"t": [0, 1, 2, 3]}))
    assert kept is not None
    lost = [one for one in range(4) if one not in kept["t"]]
    assert committed(world, lost[0], "a", 2) == ErrorCode.NONE
    world.beat("a", 2, owned=kept)
    assert committed(world, kept["t"][0], "a", 2) == ErrorCode.NONE
    assert committed(world, lost[0], "a", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert committed(world, lost[0], "a", 3) == ErrorCode.NONE, "in its own epoch a member commits what it wants"


def test_a_commit_of_an_earlier_epoch_counts_for_what_is_to_be_given_up(world: ConsumerWorld) -> None:
    """It was had in that epoch, and in the one after it, in which it is to go."""
    world.topics.have("u", 1)
    world.comes("a")
    assert world.beat("a", 2, topics=["t", "u"]).member_epoch == 3
    world.beat("b")
    kept = world.given(world.beat("a", 3, owned={"t": [0, 1, 2, 3], "u": [0]}))
    assert kept is not None
    lost = [one for one in range(4) if one not in kept["t"]]
    assert lost
    assert committed(world, lost[0], "a", 2) == ErrorCode.NONE
    assert committed(world, lost[0], "a", 1) == ErrorCode.STALE_MEMBER_EPOCH


def test_nobody_commits_while_there_are_members(world: ConsumerWorld) -> None:
    world.comes("a")
    assert committed(world, 0, "", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    world.beat("a", -1)
    assert committed(world, 0, "", -1) == ErrorCode.NONE
    assert committed(world, 0, "a", 2) == ErrorCode.UNKNOWN_MEMBER_ID


def committed(world: ConsumerWorld, partition: int, member_id: str, epoch: int, version: int = 9) -> int:
    try:
        return world.commit({partition: 1}, member_id=member_id, generation=epoch, version=version)[partition]
    except KafkaError as fault:
        return fault.code


def test_a_groups_own_settings_go_before_the_brokers(world: ConsumerWorld) -> None:
    world.group_settings["g"] = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "6000"}
    assert world.beat("a").heartbeat_interval_ms == 6000
    world.advance(49_000)
    assert list(world.consumers().members) == ["a"]
    world.advance(1000)
    assert world.consumers().is_empty


def test_how_often_groups_are_assigned_anew_is_counted(world: ConsumerWorld) -> None:
    world.comes("a")
    world.beat("a", 2)
    world.beat("b")
    assert world.shard.shared.counts.consumer_rebalances == 2


def test_what_patterns_match_and_the_log_does_not_take_is_not_tried_at_every_heartbeat(world: ConsumerWorld) -> None:
    world.beat("a", topics=[], pattern="x.*")
    world.beat("b", topics=[], pattern="t")
    world.advance(10_001)
    world.journal.fault = ErrorCode.MESSAGE_TOO_LARGE
    world.beat("a", 1)
    world.journal.fault = None
    world.beat("a", 1)
    assert "t" not in world.consumers().resolved, "not again yet"
    world.advance(10_001)
    world.beat("a", 1)
    assert "t" in world.consumers().resolved


def test_patterns_match_no_more_topics_than_they_may(world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolving, "MATCHES_MAX", 1)
    world.topics.have("u", 1)
    world.beat("a", topics=[], pattern="t|u")
    assert not world.consumers().resolved
    world.topics.lose("u")
    world.beat("a", 1)
    assert not world.consumers().resolved, "not again yet"
    world.advance(10_001)
    world.beat("a", 1)
    assert world.consumers().names == {"t": 1}


def test_members_of_a_group_of_many_names_that_are_due_at_once_go_one_a_step(
    world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All names of the group are gone through for each: 500 members took a second in one step."""
    monkeypatch.setattr(members, "NAMES_PER_ALARM", 1)
    names = [f"n{number}" for number in range(SPENT_MAX)]
    for name in ("stays", "a", "b", "c"):
        world.beat(name, topics=names)
    world.advance(30_000)
    world.beat("stays", 2)
    alarms = world.shard.shared.alarms
    alarms.advance(world.now_ms + 16_000)
    for left in (3, 2, 1):
        assert len(world.consumers().members) == left
        alarms.ring_due(world.now_ms + 16_000)
    assert list(world.consumers().members) == ["stays"]

"""One member: what it does when the group, its coordinator or its application does something out of the way."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from barnabas.client.consume.figures import metrics, statistics
from barnabas.client.consume.group.health import health_of
from barnabas.client.consume.group.standing import State
from barnabas.client.consume.group.subscription import Listener, Subscription
from barnabas.client.consume.group.values import OffsetAndMetadata, Offsets
from barnabas.client.errors import CommitFailed, NoPosition
from barnabas.net.errors import ClientTimeout, ConfigError, WaitRefused
from barnabas.net.network import PerVersion
from barnabas.net.topology import Node
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.requests.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.requests.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.requests.leave_group import LeaveGroupRequest
from barnabas.protocol.requests.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.requests.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.client.consume.group.simulated import Cluster, Member

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
QUICK = {"heartbeat.interval.ms": 50, "session.timeout.ms": 500}


def sent(member: Member, kind: type) -> list[Any]:
    return [each for each in member.sent if type(each) is kind]


def outcome(member: Member, cluster: Cluster, offsets: Offsets | None = None) -> BarnabasError | None:
    """Of a commit that is waited for."""
    found: list[BarnabasError | None] = []
    given = member.group.positions() if offsets is None else offsets
    member.group.commit(given, cluster.now_ms, lambda error, _: found.append(error), cluster.now_ms + 2000)
    cluster.run(2500)
    (error,) = found
    return error


# ---- joining --------------------------------------------------------------------------------------------------------


def test_nothing_is_joined_before_the_application_asks_for_records() -> None:
    cluster = Cluster({"t": 2})
    one = cluster.member()
    cluster.run(1000)
    assert one.group.coordinator.known
    assert not sent(one, JoinGroupRequest)
    cluster.settle(one)
    assert one.owned() == {T0, T1}
    first, second = sent(one, JoinGroupRequest)  # KIP-394: the coordinator names it first
    assert (first.member_id, second.member_id) == ("", "m1")
    assert (second.session_timeout_ms, second.rebalance_timeout_ms) == (45_000, 300_000)
    assert [each.name for each in second.protocols] == ["range", "cooperative-sticky"]


@pytest.mark.parametrize("code", [30, 26, 81, 23])
def test_a_group_that_refuses_is_told_of_and_asked_again(code: int) -> None:
    cluster = Cluster({"t": 2})
    cluster.refuse[JoinGroupRequest] = lambda _: JoinGroupResponse(error_code=code, protocol_name=None)
    one = cluster.member()
    with pytest.raises(KafkaError) as refused:
        cluster.run(200, [one])
    assert refused.value.code == code
    assert "group g: JoinGroup" in str(refused.value)
    remedy = "(range, cooperative-sticky): name one of theirs in partition.assignment.strategy"
    assert (remedy in str(refused.value)) == (code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    del cluster.refuse[JoinGroupRequest]
    cluster.settle(one)


@pytest.mark.parametrize(("excludes", "topics"), [(True, {"t"}), (False, {"t", "__consumer_offsets"})])
def test_a_pattern_leaves_internal_topics_out_unless_it_is_not_to(excludes: bool, topics: set[str]) -> None:
    cluster = Cluster({"t": 1, "__consumer_offsets": 1})
    one = cluster.member(pattern=".*", **QUICK, **{"exclude.internal.topics": excludes})
    cluster.settle(one)
    assert {where.topic for where in one.owned()} == topics


def test_what_a_pattern_gave_is_told_of_by_metadata_until_it_is_given_up() -> None:
    """Metadata of all topics ends with the pattern; without its topic a partition could not be read any more."""
    cluster = Cluster({"t": 1, "u": 1})
    one = cluster.member(pattern=".*", **QUICK)
    cluster.settle(one)
    one.core.subscribe(Subscription.of(("t",), None, Listener()))
    one.learn()
    assert TopicPartition("u", 0) in one.owned()
    assert one.metadata.cluster.partition("u", 0) is not None


def test_a_way_to_share_that_nobody_offered_is_refused() -> None:
    cluster = Cluster({"t": 2})
    cluster.refuse[JoinGroupRequest] = lambda _: JoinGroupResponse(
        generation_id=1, protocol_name="uniform", leader="m1", member_id="m1"
    )
    one = cluster.member()
    with pytest.raises(KafkaError, match="group g shares by 'uniform', which this member did not offer"):
        cluster.run(100, [one])
    cluster.refuse.clear()
    cluster.settle(one)


@pytest.mark.parametrize("code", [14, 15, 16, 27, 25, 22])
def test_a_coordinator_that_is_not_ready_is_asked_again(code: int) -> None:
    cluster = Cluster({"t": 2})
    left = [code] * 3

    def refuse(_: Any) -> Any:
        return JoinGroupResponse(error_code=left.pop(), protocol_name=None) if left else None

    cluster.refuse[JoinGroupRequest] = refuse
    one = cluster.member()
    cluster.settle(one)
    assert not left


@pytest.mark.parametrize("code", [14, 15, 16, 25, 22, 27])
def test_a_refused_sync_joins_again(code: int) -> None:
    cluster = Cluster({"t": 2})
    left = [code]
    cluster.refuse[SyncGroupRequest] = lambda _: SyncGroupResponse(error_code=left.pop()) if left else None
    one = cluster.member(**QUICK)
    cluster.settle(one)
    assert one.owned() == {T0, T1}


def test_a_coordinator_that_is_lost_while_a_join_lasts_is_looked_for_and_joined_anew() -> None:
    """As the answer to a commit shows, on another connection: the join was answered, and the sync went nowhere."""
    cluster = Cluster({"t": 2})
    one = cluster.member(**QUICK)
    answered = cluster.group.join
    lost: list[Node | None] = []

    def losing(request: JoinGroupRequest, now_ms: int, answer: Any) -> Any:
        def lose(told: JoinGroupResponse) -> None:
            if told.leader and not lost:
                lost.append(one.group.coordinator.node)
                one.group.coordinator.heard(ErrorCode.NOT_COORDINATOR, "OffsetCommit", now_ms)
            answer(told)

        return answered(request, now_ms, lose)

    cluster.group.join = losing
    cluster.settle(one)
    assert lost
    assert one.owned() == {T0, T1}


def test_a_coordinator_nobody_has_yet_is_looked_for_and_told_of() -> None:
    cluster = Cluster({"t": 2})
    cluster.refuse[FindCoordinatorRequest] = lambda _: FindCoordinatorResponse(
        coordinators=[Coordinator("g", -1, "", -1, 15, "not yet")]
    )
    one = cluster.member()
    cluster.run(3000, [one])
    health = health_of(one.core, cluster.now_ms)
    assert not health.ok
    assert "group g: not yet" in str(health.last_error)
    assert 3 <= len(sent(one, FindCoordinatorRequest)) <= 20
    cluster.refuse.clear()
    cluster.settle(one)
    assert health_of(one.core, cluster.now_ms).ok


@pytest.mark.parametrize("free", [1, 2, 3])
def test_the_coordinator_is_asked_for_at_the_node_with_the_fewest_requests_in_flight(
    free: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster({"t": 2})
    one = cluster.member()
    asked: list[int] = []

    def enqueue(node_id: int, request: Any, *rest: Any, **options: Any) -> None:
        if isinstance(request, PerVersion) and request.key is ApiKey.FIND_COORDINATOR:
            asked.append(node_id)
        one.send(node_id, request, *rest, **options)

    monkeypatch.setattr(one, "enqueue", enqueue)
    monkeypatch.setattr(one, "least_loaded_node", lambda _: Node(free, f"node{free}", 9092))
    cluster.settle(one)
    assert asked == [free]


def test_a_group_nobody_may_use_is_told_of() -> None:
    cluster = Cluster({"t": 2})
    cluster.refuse[FindCoordinatorRequest] = lambda _: FindCoordinatorResponse(
        coordinators=[Coordinator("g", -1, "", -1, 30, None)]
    )
    one = cluster.member()
    with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
        cluster.run(100, [one])


# ---- who is told ----------------------------------------------------------------------------------------------------


def test_an_eager_member_gives_up_all_and_a_cooperative_one_what_goes() -> None:
    for way, told in (
        ("range", [("revoked", [T0, T1]), ("assigned", [T0])]),
        ("cooperative-sticky", [("revoked", [T1]), ("assigned", []), ("assigned", [])]),
    ):
        cluster = Cluster({"t": 2})
        settings = {"partition.assignment.strategy": way, **QUICK}
        one = cluster.member(**settings)
        cluster.settle(one)
        assert one.told == [("assigned", [T0, T1])]
        two = cluster.member(**settings)
        cluster.settle(one, two)
        assert one.told[1:] == told, way


def test_a_listener_may_commit_and_seek_but_not_ask_for_records() -> None:
    cluster = Cluster({"t": 1}, records=20)
    one = cluster.member(**QUICK, **{"enable.auto.commit": False})
    one.during["assigned"] = lambda _: one.core.seek(T0, 5)
    one.during["revoked"] = lambda _: one.commit()
    cluster.settle(one)
    cluster.run(5, [one])
    one.during["revoked"] = lambda _: one.turn()
    cluster.member(**QUICK)
    with pytest.raises(WaitRefused, match="while a rebalance listener runs"):
        cluster.run(1000, cluster.members)


def test_what_a_listener_raises_is_raised_once_and_the_group_goes_on() -> None:
    cluster = Cluster({"t": 2})
    one = cluster.member(**QUICK)

    def fail(_: list[TopicPartition]) -> None:
        raise ValueError("mine")

    one.during["assigned"] = fail
    with pytest.raises(ValueError, match="mine"):
        cluster.settle(one)
    cluster.settle(one)
    assert one.owned() == {T0, T1}


def test_a_share_that_was_told_of_is_told_of_no_second_time_after_an_interrupt() -> None:
    cluster = Cluster({"t": 2})
    one = cluster.member()
    call = None
    while call is None:
        cluster.run(1)
        call = one.group.turn(cluster.now_ms)
    one.group.put_back()  # the thread that was to run it was interrupted
    assert one.group.turn(cluster.now_ms) == call
    one.group.called(cluster.now_ms)
    cluster.settle(one)
    assert one.told == []


# ---- what is lost ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [25, 22])
def test_a_place_that_is_lost_is_told_of_and_nothing_is_committed(code: int, caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster({"t": 2}, records=50)
    one = cluster.member(**QUICK, **{"auto.commit.interval.ms": 100_000})
    cluster.settle(one)
    cluster.run(30, [one])
    assert cluster.handed_out
    left = [code]
    cluster.refuse[HeartbeatRequest] = lambda _: HeartbeatResponse(error_code=left.pop()) if left else None
    cluster.run(100)
    assert one.group.membership.lost
    assert f"said {ErrorCode(code).name}: this member had been given up" in caplog.text
    assert isinstance(outcome(one, cluster), CommitFailed)
    cluster.settle(one)
    assert [name for name, _ in one.told] == ["assigned", "lost", "assigned"]
    assert not sent(one, OffsetCommitRequest)


def test_a_place_that_is_lost_during_the_last_commit_is_told_of_as_lost() -> None:
    cluster = Cluster({"t": 2}, records=50)
    one = cluster.member(**QUICK, **{"auto.commit.interval.ms": 100_000})
    cluster.settle(one)
    cluster.run(30, [one])
    cluster.refuse[OffsetCommitRequest] = lambda request: refused(request, 14)
    left = [25]
    cluster.refuse[HeartbeatRequest] = lambda _: HeartbeatResponse(error_code=left.pop()) if left else None
    one.group.membership.want_rejoin("the test wants it")
    one.turn()
    assert sent(one, OffsetCommitRequest)
    cluster.run(200)
    assert one.group.membership.lost
    del cluster.refuse[OffsetCommitRequest]
    cluster.settle(one)
    assert [name for name, _ in one.told] == ["assigned", "lost", "assigned"]


def test_an_application_that_stays_away_leaves_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster({"t": 2})
    one = cluster.member(**QUICK, **{"max.poll.interval.ms": 2000})
    cluster.settle(one)
    with caplog.at_level(logging.WARNING):
        cluster.run(1900)
        assert one.group.membership.in_generation, "heartbeats keep it in"
        cluster.run(300)
    assert "nothing was asked for within max.poll.interval.ms=2000" in caplog.text
    health = health_of(one.core, cluster.now_ms)
    assert (health.state, health.ok) == ("out", False)
    assert "max.poll.interval.ms=2000: this member left; poll to join" in str(health.last_error)
    assert len(sent(one, LeaveGroupRequest)) == 1
    assert not cluster.group.members
    cluster.settle(one)
    assert [name for name, _ in one.told] == ["assigned", "lost", "assigned"]
    assert health_of(one.core, cluster.now_ms).ok


def test_an_application_that_waits_or_iterates_is_there() -> None:
    cluster = Cluster({"t": 1}, records=50)
    one = cluster.member(**QUICK, **{"max.poll.interval.ms": 1000})
    cluster.settle(one)
    one.group.waiting = lambda: True
    cluster.run(5000)
    one.group.waiting = lambda: False
    one.iterate()
    while not one.ahead:
        cluster.run(1)
        one.iterate()
    one.ahead.extend([one.ahead[0]] * 20)
    for _ in range(12):
        cluster.run(300)
        one.ahead.popleft()
    assert one.group.membership.in_generation
    cluster.run(1200)
    assert not one.group.membership.in_generation


def test_what_an_iteration_has_ahead_is_recalled_for_a_rebalance() -> None:
    cluster = Cluster({"t": 2}, records=50)
    one = cluster.member(**QUICK)
    cluster.settle(one)
    while not one.ahead:
        cluster.run(1)
        one.iterate()
    done = dict(cluster.handed_out)
    two = cluster.member(**QUICK)
    for _ in range(1000):
        if not one.ahead:
            break
        cluster.run(1, [two])
    assert not one.ahead, "an iteration over slow records would hold up the group"
    assert {where: one.core.position(where) for where in done} == {w: len(each) for w, each in done.items()}


# ---- static members -------------------------------------------------------------------------------------------------


def test_a_static_member_comes_back_and_has_its_partitions() -> None:
    cluster = Cluster({"t": 2})
    settings = {**QUICK, "session.timeout.ms": 5000}
    one, two = (cluster.member(**settings, **{"group.instance.id": name}) for name in "ab")
    cluster.settle(one, two)
    had = one.owned()
    one.close()
    assert not sent(one, LeaveGroupRequest)
    again = cluster.member(**settings, **{"group.instance.id": "a"})
    cluster.settle(again, two)
    assert again.owned() == had


def test_a_leader_that_is_told_to_assign_nothing_asks_for_its_share() -> None:
    """KIP-814: a static leader that comes back shares out what changes later, and not what all have already."""
    cluster = Cluster({"t": 2})
    one = cluster.member(**QUICK)
    answered = cluster.group.join

    def skipping(request: JoinGroupRequest, now_ms: int, answer: Any) -> Any:
        def skip(told: JoinGroupResponse) -> None:
            told.skip_assignment = True
            answer(told)

        return answered(request, now_ms, skip)

    cluster.group.join = skipping
    cluster.run(100, [one])
    (sync,) = sent(one, SyncGroupRequest)
    assert sync.assignments == []


def test_joins_and_syncs_are_waited_for_as_long_as_the_others_may_take() -> None:
    cluster = Cluster({"t": 2})
    one = cluster.member(**QUICK, **{"request.timeout.ms": 1000, "max.poll.interval.ms": 20_000})
    waits: dict[type, set[int | None]] = {}
    send = one.group.coordinator.send

    def seen(request: Any, now_ms: int, on_done: Any, **options: Any) -> None:
        waits.setdefault(type(request), set()).add(options.get("timeout_ms"))
        send(request, now_ms, on_done, **options)

    one.group.coordinator.send = seen  # type: ignore[method-assign]
    cluster.settle(one)
    assert waits[JoinGroupRequest] == waits[SyncGroupRequest] == {25_000}


def test_a_second_member_of_the_same_name_fences_the_first() -> None:
    cluster = Cluster({"t": 2})
    one = cluster.member(**QUICK, **{"group.instance.id": "a"})
    cluster.settle(one)
    two = cluster.member(**QUICK, **{"group.instance.id": "a"})
    cluster.settle(two)
    with pytest.raises(KafkaError, match=r"group.instance.id a has taken this one's place; give each member"):
        cluster.run(1000, [one])
    assert one.group.membership.state is State.FENCED
    with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
        one.poll()
    assert one.told[-1] == ("lost", [T0, T1])
    error = outcome(one, cluster, {T0: OffsetAndMetadata(5)})
    assert isinstance(error, CommitFailed)
    assert "give each one of its own" in str(error)


# ---- offsets --------------------------------------------------------------------------------------------------------


def test_a_new_owner_begins_where_the_last_one_committed() -> None:
    cluster = Cluster({"t": 1}, records=50)
    one = cluster.member(**QUICK)
    cluster.settle(one)
    cluster.run(40, [one])
    one.close()
    done = len(cluster.handed_out[T0])
    assert 0 < done < 50
    assert cluster.group.offsets == {T0: done}
    two = cluster.member(**QUICK)
    cluster.settle(two)
    assert two.poll() == [] or cluster.handed_out[T0][done] == done


def test_a_close_without_a_commit_hands_out_again_what_was_in_hand() -> None:
    cluster = Cluster({"t": 1}, records=50)
    one = cluster.member(**QUICK)
    cluster.settle(one)
    cluster.run(40, [one])
    one.close(commit=False)
    assert cluster.group.offsets == {}


def test_nothing_is_committed_twice_at_the_end() -> None:
    cluster = Cluster({"t": 1}, records=10)
    one = cluster.member(**QUICK)
    cluster.settle(one)
    cluster.run(200, [one])
    assert outcome(one, cluster) is None
    before = len(sent(one, OffsetCommitRequest))
    one.close()
    assert len(sent(one, OffsetCommitRequest)) == before


def test_auto_commit_comes_in_time_while_records_are_waited_for() -> None:
    cluster = Cluster({"t": 1}, records=10)
    one = cluster.member(**QUICK, **{"auto.commit.interval.ms": 300})
    cluster.settle(one)
    cluster.run(100, [one])
    nudges = []
    one.group._on_change = lambda: nudges.append(cluster.now_ms)
    one.group.waiting = lambda: True
    cluster.run(1000)
    assert len(nudges) == 1, "the shell is told once, and looks when it can"
    one.turn()
    cluster.run(50)
    assert cluster.group.offsets == {T0: 10}


def test_auto_commit_that_was_refused_for_now_is_tried_again_soon() -> None:
    cluster = Cluster({"t": 1}, records=10)
    one = cluster.member(**QUICK, **{"auto.commit.interval.ms": 60_000, "retry.backoff.ms": 100})
    cluster.settle(one)
    cluster.run(100, [one])
    left = [14]
    cluster.refuse[OffsetCommitRequest] = lambda request: refused(request, left.pop()) if left else None
    cluster.run(60_000, [one])
    assert not left
    cluster.run(1000, [one])
    assert cluster.group.offsets == {T0: 10}


@pytest.mark.parametrize("code", [14, 15, 16, 3])
def test_a_commit_that_is_waited_for_is_tried_again(code: int) -> None:
    cluster = Cluster({"t": 1}, records=10)
    one = cluster.member(**QUICK)
    cluster.settle(one)
    left = [code] * 3
    cluster.refuse[OffsetCommitRequest] = lambda request: refused(request, left.pop()) if left else None
    assert outcome(one, cluster, {T0: OffsetAndMetadata(5)}) is None
    assert not left


def test_a_commit_that_is_not_waited_for_is_not_tried_again() -> None:
    """It would come after a later one, and undo it."""
    cluster = Cluster({"t": 1})
    one = cluster.member(**QUICK)
    cluster.settle(one)
    cluster.refuse[OffsetCommitRequest] = lambda request: refused(request, 14)
    found: list[BarnabasError | None] = []
    one.group.commit({T0: OffsetAndMetadata(5)}, cluster.now_ms, lambda error, _: found.append(error))
    cluster.run(1000)
    assert [str(error) for error in found] == ["COORDINATOR_LOAD_IN_PROGRESS(14): group g: commit of t-0"]
    assert len(sent(one, OffsetCommitRequest)) == 1


def refused(request: OffsetCommitRequest, code: int) -> OffsetCommitResponse:
    found = Cluster({}).group.commit(request, 0, lambda _: None)
    for topic in found.topics:
        for part in topic.partitions:
            part.error_code = code
    response: OffsetCommitResponse = found
    return response


def test_a_commit_that_is_refused_says_of_which_partition() -> None:
    cluster = Cluster({"t": 2})
    one = cluster.member(**QUICK)
    cluster.settle(one)

    def second(request: OffsetCommitRequest) -> OffsetCommitResponse:
        response = refused(request, 0)
        response.topics[0].partitions[1].error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        return response

    cluster.refuse[OffsetCommitRequest] = second
    error = outcome(one, cluster, {T0: OffsetAndMetadata(1), T1: OffsetAndMetadata(1, "long")})
    assert str(error) == "OFFSET_METADATA_TOO_LARGE(12): group g: commit of t-1"


def test_a_commit_that_is_refused_for_long_is_one_trouble_whatever_heartbeats_say() -> None:
    """Each heartbeat that went well ended it: "for 1 s" was in the log twenty times a minute."""
    cluster = Cluster({"t": 2})
    one = cluster.member(**QUICK)
    cluster.settle(one)
    cluster.refuse[OffsetCommitRequest] = lambda request: refused(request, 3)
    troubles = one.core.fetcher.metadata.troubles
    one.group.commit({T0: OffsetAndMetadata(1)}, cluster.now_ms, lambda *_: None, cluster.now_ms + 5000)
    cluster.run(1900)
    assert troubles.next_ms() < cluster.now_ms, "since the first refusal"
    assert not health_of(one.core, cluster.now_ms).ok
    cluster.run(3500)
    assert not troubles, "nobody waits for it any more"


def test_a_commit_nobody_answers_says_why() -> None:
    cluster = Cluster({"t": 1}, records=10)
    one = cluster.member(**QUICK)
    cluster.settle(one)
    cluster.refuse[OffsetCommitRequest] = lambda request: refused(request, 15)
    error = outcome(one, cluster, {T0: OffsetAndMetadata(5)})
    assert isinstance(error, ClientTimeout)
    assert "COORDINATOR_NOT_AVAILABLE" in str(error)


def test_a_commit_between_two_generations_is_made_as_the_next_ones_member() -> None:
    cluster = Cluster({"t": 1}, records=10)
    one = cluster.member(**QUICK)
    cluster.settle(one)
    left = [int(ErrorCode.REBALANCE_IN_PROGRESS)]
    cluster.refuse[OffsetCommitRequest] = lambda request: refused(request, left.pop()) if left else None
    error = outcome(one, cluster, {T0: OffsetAndMetadata(5)})
    assert isinstance(error, KafkaError), "a member that does not rebalance is told so"
    assert "poll, which takes part in it" in str(error)


@pytest.mark.parametrize("code", [22, 27])
def test_a_cooperative_member_commits_while_it_joins(code: int) -> None:
    """What it has meanwhile is its own; that the next generation begins just then is no failure."""
    cluster = Cluster({"t": 2}, records=30)
    settings = {**QUICK, "partition.assignment.strategy": "cooperative-sticky"}
    one, two = cluster.member(**settings), cluster.member(**settings)
    cluster.settle(one, two)
    cluster.member(**settings)
    while one.group.membership.state is not State.JOINING:
        cluster.run(1, [one, cluster.members[2]])
    cluster.run(20, [one])  # two does not come: the join waits
    assert one.group.membership.state is State.JOINING
    assert outcome(one, cluster) is None, "on the other connection, as a member of the generation that ends"
    left = [code]
    cluster.refuse[OffsetCommitRequest] = lambda request: refused(request, left.pop()) if left else None
    assert outcome(one, cluster, {T0: OffsetAndMetadata(7)}) is None
    assert not left
    assert cluster.group.offsets[T0] == 7


@pytest.mark.parametrize("way", ["range", "cooperative-sticky"])
def test_what_another_has_by_now_is_not_committed_over_it(way: str) -> None:
    """A commit is tried again and again, from a task of its own, while the group shares out anew."""
    cluster = Cluster({"t": 2}, records=30)
    settings = {**QUICK, "partition.assignment.strategy": way, "enable.auto.commit": False}
    one = cluster.member(**settings)
    cluster.settle(one)
    name = one.group.membership.member_id
    cluster.refuse[OffsetCommitRequest] = lambda request: refused(request, 14) if request.member_id == name else None
    found: list[BarnabasError | None] = []
    offsets = {where: OffsetAndMetadata(5) for where in (T0, T1)}
    one.group.commit(offsets, cluster.now_ms, lambda error, _: found.append(error), cluster.now_ms + 60_000)
    two = cluster.member(**settings)
    cluster.settle(one, two)
    (theirs,) = two.owned()
    assert outcome(two, cluster, {theirs: OffsetAndMetadata(9)}) is None
    cluster.refuse.clear()
    cluster.run(1000, [one, two])
    assert cluster.group.offsets == {theirs: 9}
    assert isinstance(found[0], CommitFailed)


def test_a_group_that_committed_nothing_and_no_reset() -> None:
    cluster = Cluster({"t": 1}, records=10)
    one = cluster.member(**QUICK, **{"auto.offset.reset": "none"})
    with pytest.raises(NoPosition, match=r"t-0 has no position and auto\.offset\.reset is none"):
        cluster.run(1000, [one])


def test_with_assign_a_group_only_keeps_offsets() -> None:
    cluster = Cluster({"t": 2}, records=10)
    one = cluster.member()
    with pytest.raises(ConfigError, match=r"group g says what is read here; unsubscribe\(\) first"):
        one.core.assign([T0], cluster.now_ms)
    one.group.depart("it unsubscribed", cluster.now_ms + 1000)
    one.turn()
    one.core.unsubscribe()
    one.core.assign([T0], cluster.now_ms)
    cluster.run(300, [one])
    assert outcome(one, cluster) is None
    assert cluster.group.offsets == {T0: len(cluster.handed_out[T0])}
    assert not sent(one, JoinGroupRequest)
    (commit,) = sent(one, OffsetCommitRequest)[-1:]
    assert (commit.generation_id_or_member_epoch, commit.member_id) == (-1, "")


# ---- the end, and how it is -----------------------------------------------------------------------------------------


def test_a_leave_does_not_wait_behind_a_join() -> None:
    cluster = Cluster({"t": 2})
    one = cluster.member(**QUICK)
    cluster.settle(one)
    two = cluster.member(**QUICK)
    cluster.run(100, [two])  # its join waits for the other one, who does not come
    assert two.group.membership.state is State.JOINING
    before = cluster.now_ms
    two.close()
    assert cluster.now_ms - before < 50
    assert set(cluster.group.members) == {one.group.membership.member_id}


def test_a_time_that_is_over_ends_it_all_the_same() -> None:
    cluster = Cluster({"t": 1}, records=10)
    one = cluster.member(**QUICK)
    cluster.settle(one)
    cluster.run(50, [one])
    cluster.refuse[OffsetCommitRequest] = lambda request: refused(request, 15)
    one.group.depart("it was closed", cluster.now_ms + 500)
    one.turn()
    assert not one.group.gone
    one.group.abandon(cluster.now_ms)
    cluster.run(50)
    assert one.owned() == set() or not one.group.subscription
    assert not cluster.group.members


def test_the_commit_of_a_close_is_tried_no_longer_than_that_lasts() -> None:
    cluster = Cluster({"t": 1}, records=10)
    one = cluster.member(**QUICK)
    cluster.settle(one)
    cluster.run(50, [one])
    cluster.refuse[OffsetCommitRequest] = lambda request: refused(request, 15)
    one.group.depart("it was closed", cluster.now_ms + 500)
    for _ in range(10):
        one.turn()
        cluster.run(100)
    assert one.group.gone
    assert not cluster.group.members


def test_health_tells_where_it_stands() -> None:
    cluster = Cluster({"t": 2}, records=30)
    one = cluster.member(**QUICK)
    health = health_of(one.core, cluster.now_ms)
    assert (health.state, health.assignment, health.coordinator, health.ok) == ("out", (), None, False)
    cluster.settle(one)
    cluster.run(30, [one])
    cluster.run(2000)
    health = health_of(one.core, cluster.now_ms)
    assert (health.state, health.group_id, health.member_id, health.generation) == ("stable", "g", "m1", 1)
    assert health.assignment == (T0, T1)
    assert health.coordinator == "node1:9092"
    assert health.lag == {where: 30 - len(cluster.handed_out[where]) for where in (T0, T1)}
    assert health.seconds_since_poll == 2.0
    assert health.seconds_since_heartbeat is not None
    assert health.seconds_since_heartbeat < 0.1
    assert health.ok
    one.group.coordinator.note(BarnabasError("something is wrong"), cluster.now_ms)
    told = health_of(one.core, cluster.now_ms)
    assert (told.state, told.ok) == ("stable", False), "it has its partitions, and something is wrong"
    one.group.waiting = lambda: True  # in a `poll` that began so long ago
    assert health_of(one.core, cluster.now_ms).seconds_since_poll == 0


def test_each_fault_is_told_and_what_ends_a_member_before_what_passes() -> None:
    cluster = Cluster({"t": 2}, records=1)
    one = cluster.member(**QUICK)
    cluster.settle(one)
    faults = [BarnabasError(f"fault {number}") for number in range(5)]

    def told() -> BarnabasError | None:
        health = health_of(one.core, cluster.now_ms)
        assert health.ok is (health.last_error is None)
        return health.last_error

    assert told() is None
    metadata = one.core.fetcher.metadata
    metadata.troubles.note("broker", faults[0], cluster.now_ms)
    assert told() is faults[0]
    metadata.fail_fatally(faults[1])
    assert told() is faults[1]
    one.core.fetcher.positions[T1].error = faults[2]
    assert told() is faults[2]
    one.group.coordinator.note(faults[3], cluster.now_ms)
    assert told() is faults[3]
    one.group.membership.error = faults[4]
    assert told() is faults[4]


def test_a_join_that_lasts_is_told_of() -> None:
    cluster = Cluster({"t": 2})
    one = cluster.member(**QUICK)
    cluster.settle(one)
    two = cluster.member(**QUICK)
    cluster.run(9000, [two])
    assert health_of(two.core, cluster.now_ms).last_error is None
    cluster.run(2000, [two])
    assert "waits for members that did not join again" in str(health_of(two.core, cluster.now_ms).last_error)
    cluster.settle(one, two)
    assert health_of(two.core, cluster.now_ms).ok


def test_figures_of_a_group() -> None:
    cluster = Cluster({"t": 2}, records=5)
    one = cluster.member(**QUICK)
    cluster.settle(one)
    cluster.run(500, [one])
    one.commit()
    cluster.run(50)
    told = metrics(one.core)["consumer-coordinator-metrics"]
    assert (told["assigned-partitions"], told["rebalance-total"], told["commit-total"]) == (2, 1, 1)
    assert told["heartbeat-total"] >= 5
    assert statistics(one.core)["cgrp"] == {
        "state": "up",
        "join_state": "stable",
        "rebalance_cnt": 1,
        "rebalance_reason": "",
        "assignment_size": 2,
    }


def test_the_topic_of_groups_is_waited_for_in_short_steps() -> None:
    """The first group of a cluster finds its coordinator once that topic is made, some ms later."""
    cluster = Cluster({"t": 2})
    cluster.slow_ms = 1
    began, made_at = cluster.now_ms, cluster.now_ms + 10
    cluster.refuse[FindCoordinatorRequest] = lambda _: (
        FindCoordinatorResponse(coordinators=[Coordinator("g", -1, "", -1, 15, "not yet")])
        if cluster.now_ms < made_at
        else None
    )
    one = cluster.member()
    while not one.owned():
        cluster.run(1, [one])
    assert cluster.now_ms < began + 60


def test_a_coordinator_that_names_a_member_without_end_is_asked_seldom() -> None:
    cluster = Cluster({"t": 2})
    cluster.refuse[JoinGroupRequest] = lambda _: JoinGroupResponse(
        error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m9", protocol_name=None
    )
    one = cluster.member()
    cluster.run(2000, [one])
    assert 3 <= len(sent(one, JoinGroupRequest)) <= 10

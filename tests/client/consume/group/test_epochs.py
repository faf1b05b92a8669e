"""One member of a group of the consumer protocol (KIP-848): what it says, and what it does about what it hears."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

from barnabas.client.consume.group.epoch_beats import Told, heartbeat
from barnabas.client.consume.group.epochs import new_id
from barnabas.client.consume.group.health import health_of
from barnabas.client.consume.group.standing import State
from barnabas.client.consume.group.subscription import Listener, Subscription
from barnabas.client.consume.group.values import OffsetAndMetadata
from barnabas.client.errors import CommitFailed
from barnabas.net.errors import ClientTimeout, ConfigError, FeatureMissing
from barnabas.protocol.errors import EncodeError, ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.requests.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from barnabas.protocol.requests.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from tests.client.consume.group.simulated import Cluster, Member
from tests.client.consume.group.test_member import outcome

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def beats(member: Member) -> list[ConsumerGroupHeartbeatRequest]:
    return [each for each in member.sent if type(each) is ConsumerGroupHeartbeatRequest]


def alone(topics: dict[str, int] | None = None, settings: dict[str, Any] | None = None) -> tuple[Cluster, Member]:
    cluster = Cluster(topics or {"t": 2}, records=30, by_epochs=True)
    one = cluster.member(**(settings or {}))
    cluster.settle(one)
    return cluster, one


def refuse(cluster: Cluster, *codes: int) -> None:
    left = list(codes)

    def answer(_: Any) -> Any:
        return ConsumerGroupHeartbeatResponse(error_code=left.pop(0), error_message="it says") if left else None

    cluster.refuse[ConsumerGroupHeartbeatRequest] = answer


def under_way(cluster: Cluster, member: Member) -> None:
    """A heartbeat is."""
    before = len(beats(member))
    while len(beats(member)) == before:
        cluster.run(1, [member])


# ---- what it says ---------------------------------------------------------------------------------------------------


def test_it_says_everything_once_and_then_what_is_new() -> None:
    cluster, one = alone(
        settings={"group.remote.assignor": "uniform", "max.poll.interval.ms": 9000, "client.rack": "r"}
    )
    first, owns, *rest = beats(one)
    name = one.group.membership.member_id
    assert first == ConsumerGroupHeartbeatRequest("g", name, 0, None, "r", 9000, ["t"], None, "uniform", [])
    assert [each.partitions for each in owns.topic_partitions or ()] == [[0, 1]]
    assert owns == ConsumerGroupHeartbeatRequest("g", name, 1, topic_partitions=owns.topic_partitions)
    cluster.run(500, [one])
    assert set(map(repr, [*rest, *beats(one)[2:]])) == {repr(ConsumerGroupHeartbeatRequest("g", name, 1))}


def test_the_broker_says_how_often() -> None:
    cluster, one = alone()
    cluster.group.session_ms = 5000
    for every_ms, least, most in ((50, 15, 20), (500, 1, 3)):
        cluster.group.heartbeat_ms = every_ms
        cluster.run(1000, [one])
        before = len(beats(one))
        cluster.run(1000, [one])
        assert least <= len(beats(one)) - before <= most


def test_its_name_is_one_as_kafka_writes_ids() -> None:
    assert new_id(lambda: 0.0) == "A" * 22
    assert new_id(lambda: 0.98)[0] == "A"  # it would be "-", and look like an option
    assert re.fullmatch(r"[\w-]{22}", new_id(lambda: 0.7))


def test_after_a_failure_it_says_everything_again() -> None:
    cluster, one = alone()
    cluster.group.session_ms = 5000
    for trouble in (lambda: refuse(cluster, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), one.cut):
        before = len(beats(one))
        under_way(cluster, one)
        trouble()
        cluster.run(1500, [one])
        again = [each for each in beats(one)[before:] if each.subscribed_topic_names == ["t"]]
        assert again
        assert again[0].member_epoch == 1
        assert again[0].topic_partitions
        assert beats(one)[-1].subscribed_topic_names is None
    assert one.owned() == {T0, T1}
    assert [name for name, _ in one.told] == ["assigned"]


@pytest.mark.parametrize("pattern", ["t.*", re.compile("t.*")])
def test_a_string_is_the_brokers_to_match_and_a_compiled_pattern_the_clients(pattern: Any) -> None:
    cluster = Cluster({"ta": 1, "tb": 1, "u": 1}, by_epochs=True)
    one = cluster.member(pattern=pattern)
    cluster.settle(one)
    assert {where.topic for where in one.owned()} == {"ta", "tb"}
    said = beats(one)[0]
    by_broker = isinstance(pattern, str)
    assert said.subscribed_topic_regex == ("t.*" if by_broker else None)
    assert said.subscribed_topic_names == ([] if by_broker else ["ta", "tb"])
    one.core.subscribe(Subscription.of(("u",), None, Listener()))
    cluster.settle(one)
    assert one.owned() == {U0}
    assert [each.subscribed_topic_regex for each in beats(one) if each.subscribed_topic_names == ["u"]] == [
        "" if by_broker else None
    ]


def test_a_pattern_for_a_broker_that_matches_none_is_refused() -> None:
    _, one = alone()
    request = heartbeat(one.config, "m", 0, Told((), "t.*", ()), None).make(0)
    with pytest.raises(EncodeError) as fault:
        codec.encode_request(68, 0, 1, "c", request)
    one.group.membership._on_answer(None, fault.value, 0)  # type: ignore[attr-defined]
    with pytest.raises(FeatureMissing, match=r"matches no patterns; subscribe with re\.compile"):
        one.poll()


def test_a_broker_that_never_heard_of_the_protocol_is_told_of() -> None:
    _, one = alone()
    missing = FeatureMissing("node 1 serves no version of CONSUMER_GROUP_HEARTBEAT that we speak")
    one.group.membership._on_answer(None, missing, 0)  # type: ignore[attr-defined]
    with pytest.raises(FeatureMissing, match=r"that we speak; .* set group\.protocol=classic"):
        one.poll()


def test_a_topic_made_anew_is_owned_by_its_new_id() -> None:
    cluster, one = alone()
    fresh = cluster.group.ids["t"] = b"n" * 16
    one.learn()
    before = len(beats(one))
    member = cluster.group.members[one.group.membership.member_id]
    member.assigned, cluster.group.generation = frozenset(), 2  # its share is worked out anew
    cluster.run(300, [one])
    owned = [each.topic_partitions for each in beats(one)[before:] if each.topic_partitions is not None]
    assert [(each.topic_id, each.partitions) for each in owned[-1]] == [(fresh, [0, 1])]
    assert one.owned() == {T0, T1}


def test_an_empty_pattern_is_refused() -> None:
    with pytest.raises(ConfigError, match="pattern: it is empty"):
        Subscription.of((), "", Listener(), broker_matches=True)


# ---- its share ------------------------------------------------------------------------------------------------------


def test_it_gives_up_first_and_nobody_ever_has_what_another_has() -> None:
    cluster, one = alone({"t": 4})
    two = cluster.member()
    while one.owned() != two.owned() and len(two.owned()) < 2:
        cluster.run(1, [one, two])
        assert not one.owned() & two.owned()
    cluster.settle(one, two)
    parts = [TopicPartition("t", number) for number in range(4)]
    kept = sorted(one.owned())
    given = sorted(two.owned())
    assert one.told == [("assigned", parts), ("revoked", given), ("assigned", [])]
    assert two.told == [("assigned", []), ("assigned", given)]
    assert len(kept) == len(given) == 2
    cluster.run(500, [one, two])
    for where in parts:  # what was read of it was committed before it went
        assert cluster.handed_out[where] == list(range(30))


def test_what_was_taken_back_before_it_came_is_acknowledged() -> None:
    """Its coordinator waits to hear what it owns, though that is what it said before."""
    cluster, one = alone({"t": 4})
    two = cluster.member()
    cluster.settle(one, two)
    two.close()
    cluster.members.remove(two)
    cluster.run(200)  # one is given all, and does not take it, for nobody polls
    assert len(cluster.group.members[one.group.membership.member_id].assigned) == 4
    three = cluster.member()
    cluster.run(300, [three])  # what one never took is to go to three
    assert three.owned() == set()
    cluster.settle(one, three)
    assert len(one.owned()) == len(three.owned()) == 2
    assert not one.owned() & three.owned()


def test_a_topic_that_metadata_has_not_told_of_comes_when_it_has() -> None:
    cluster = Cluster({"ta": 1}, by_epochs=True)
    one = cluster.member(pattern="t.*")
    cluster.settle(one)
    learn, one.learn = one.learn, lambda: None  # type: ignore[method-assign]
    cluster.topics["tb"] = 1
    cluster.run(500, [one])
    assert {where.topic for where in one.owned()} == {"ta"}
    assert one.metadata.update_requested
    one.learn = learn  # type: ignore[method-assign]
    cluster.settle(one)
    assert {where.topic for where in one.owned()} == {"ta", "tb"}


def test_a_topic_that_metadata_misses_for_a_while_stays() -> None:
    cluster, one = alone({"t": 2, "u": 1})
    count = cluster.topics.pop("u")
    cluster.group._counted.pop("u")  # the broker goes on as before
    one.learn()
    refuse(cluster, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)  # so that it says in full what it owns
    cluster.run(500, [one])
    assert one.owned() == {T0, T1, U0}
    assert [name for name, _ in one.told] == ["assigned"]
    cluster.topics["u"] = count


def test_another_subscription_gives_up_at_once_what_is_not_in_it() -> None:
    cluster, one = alone({"t": 2, "u": 1})
    one.core.subscribe(Subscription.of(("u",), None, Listener()))
    one.poll()
    assert one.owned() == {U0}
    cluster.settle(one)
    assert one.owned() == {U0}


# ---- what it hears --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [25, 69, 110])
def test_a_place_that_is_lost_is_told_of_and_taken_anew(code: int, caplog: pytest.LogCaptureFixture) -> None:
    cluster, one = alone()
    name = one.group.membership.member_id
    cluster.run(20, [one])
    cluster.group.members.clear()
    refuse(cluster, code)
    cluster.run(200)
    assert one.group.membership.lost
    assert f"said {ErrorCode(code).name}: this member had been given up" in caplog.text
    assert not one.group.membership.in_generation
    assert isinstance(outcome(one, cluster), CommitFailed)
    cluster.settle(one)
    assert [name for name, _ in one.told] == ["assigned", "lost", "assigned"]
    assert not cluster.group.offsets
    assert one.group.membership.member_id == name


@pytest.mark.parametrize("code", [14, 15, 16, 25, 110])
def test_a_coordinator_that_is_not_ready_is_asked_again(code: int) -> None:
    cluster = Cluster({"t": 2}, by_epochs=True)
    refuse(cluster, code, code)
    one = cluster.member()
    cluster.settle(one)
    assert one.owned() == {T0, T1}


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (35, "set group.protocol=classic"),
        (69, "members of the classic protocol"),
        (111, "give each member one of its own, or wait"),
        (30, "it says"),
        (42, "it says"),
        (81, "it says"),
        (112, "it says"),
        (128, "it says"),
    ],
)
def test_a_refusal_is_told_of_and_asked_again(code: int, told: str) -> None:
    cluster = Cluster({"t": 2}, by_epochs=True)
    refuse(cluster, code)
    one = cluster.member()
    with pytest.raises(KafkaError, match=told) as refused:
        cluster.run(200, [one])
    assert refused.value.code == code
    cluster.settle(one)


def test_a_member_that_is_refused_something_stays_one() -> None:
    cluster, one = alone()
    refuse(cluster, ErrorCode.INVALID_REGULAR_EXPRESSION)
    with pytest.raises(KafkaError, match="INVALID_REGULAR_EXPRESSION"):
        cluster.run(200, [one])
    cluster.settle(one)
    assert [name for name, _ in one.told] == ["assigned"]


def test_an_application_that_stays_away_leaves_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    cluster, one = alone(settings={"max.poll.interval.ms": 300})
    with caplog.at_level(logging.WARNING):
        cluster.run(1000)
    assert "nothing was asked for within max.poll.interval.ms=300: this member left" in caplog.text
    assert not cluster.group.members
    health = health_of(one.core, cluster.now_ms)
    assert (health.state, health.ok, type(health.last_error)) == ("out", False, ClientTimeout)
    assert "max.poll.interval.ms=300: this member left" in str(health.last_error)
    cluster.settle(one)
    assert [name for name, _ in one.told] == ["assigned", "lost", "assigned"]
    assert health_of(one.core, cluster.now_ms).ok


def test_a_static_member_goes_for_a_while_and_comes_back() -> None:
    settings = {"group.instance.id": "i"}
    cluster, one = alone(settings=settings)
    before = one.owned()
    second = cluster.member(**settings)
    with pytest.raises(KafkaError, match="UNRELEASED_INSTANCE_ID"):
        cluster.run(100, [second])
    second.stopped = True
    cluster.members.remove(second)
    one.close()
    assert beats(one)[-1].member_epoch == -2
    cluster.members.remove(one)
    again = cluster.member(**settings)
    cluster.settle(again)
    assert again.owned() == before
    assert cluster.group.generation == 2  # of the second that came, or nothing was shared out anew


def test_a_second_member_of_the_same_name_fences_the_first() -> None:
    cluster, one = alone(settings={"group.instance.id": "i"})
    refuse(cluster, ErrorCode.FENCED_INSTANCE_ID)
    with pytest.raises(KafkaError, match=r"another member with group\.instance\.id i has taken this one's place"):
        cluster.run(300, [one])
    assert one.group.membership.state is State.FENCED
    with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
        one.poll()
    assert [name for name, _ in one.told] == ["assigned", "lost"]


# ---- commits, and the end -------------------------------------------------------------------------------------------


def test_a_commit_carries_the_epoch_and_is_tried_again_until_that_is_known() -> None:
    cluster, one = alone()
    name, handle = one.group.membership.member_id, cluster.handle

    def slow(request: Any, answer: Any) -> None:
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            said = cluster.group.heartbeat(request, cluster.now_ms)
            cluster.later(100, lambda: answer(said))
        else:
            handle(request, answer)

    cluster.run(50, [one])
    cluster.handle = slow  # type: ignore[method-assign]
    cluster.group.generation = 7  # it rises, and the answer that says so takes its time
    under_way(cluster, one)
    assert outcome(one, cluster) is None
    commits = [each for each in one.sent if type(each) is OffsetCommitRequest]
    assert [each.generation_id_or_member_epoch for each in commits] == [1, 7]
    assert {each.member_id for each in commits} == {name}
    assert cluster.group.offsets == {where: len(cluster.handed_out[where]) for where in (T0, T1)}


def test_what_was_read_of_a_topic_is_not_committed_of_one_made_anew() -> None:
    """Whoever begins there would leave out so many of its records."""
    cluster, one = alone()
    cluster.run(100, [one])
    old = cluster.group.ids["t"]
    cluster.refuse[OffsetCommitRequest] = lambda request: refused(request, ErrorCode.UNKNOWN_TOPIC_ID, old)
    before = dict(cluster.group.offsets)
    found: list[Any] = []
    stood = one.group.positions()
    assert stood.keys() == {T0, T1}
    one.group.commit(stood, cluster.now_ms, lambda error, _: found.append(error), cluster.now_ms + 5000)
    cluster.run(50)
    cluster.group.ids["t"] = b"n" * 16
    one.learn()
    assert one.group.positions() == {}, "it stands nowhere in the new one yet"
    cluster.run(2000)
    assert [(type(error), error.code) for error in found] == [(KafkaError, ErrorCode.UNKNOWN_TOPIC_ID)]
    assert cluster.group.offsets == before


def refused(request: OffsetCommitRequest, code: int, topic_id: bytes) -> OffsetCommitResponse | None:
    """With that error, where it names that topic."""
    if request.topics[0].topic_id != topic_id:
        return None
    parts = [OffsetCommitResponsePartition(one.partition_index, code) for one in request.topics[0].partitions]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic("", topic_id, parts)])


def test_what_is_committed_of_a_topic_made_anew_is_asked_by_its_new_id() -> None:
    """The old one is nobody's any more: asked by it again and again, a consumer stands still for good."""
    cluster, one = alone()
    cluster.group.ids["t"] = fresh = b"n" * 16
    cluster.refuse[OffsetFetchRequest] = lambda request: unknown(request, fresh)
    cluster.group.offsets[T0] = 7
    found: list[Any] = []
    one.group.offsets.committed([T0], cluster.now_ms, lambda offsets, error, _: found.append((offsets, error)))
    cluster.run(1000)
    assert found == [({T0: OffsetAndMetadata(7)}, None)]


def test_what_was_committed_of_a_topic_is_no_place_in_one_made_anew() -> None:
    """Whoever began there would leave out so many of its records."""
    cluster = Cluster({"t": 2}, records=30, by_epochs=True)
    cluster.group.offsets[T0] = 7
    one = cluster.member()

    def answered_before(request: OffsetFetchRequest) -> OffsetFetchResponse:
        del cluster.refuse[OffsetFetchRequest]
        answer: OffsetFetchResponse = cluster.group.fetch(request)
        cluster.group.ids["t"] = b"n" * 16
        cluster.group.offsets.clear()
        one.learn()
        return answer

    cluster.refuse[OffsetFetchRequest] = answered_before
    cluster.run(1000, [one])
    assert cluster.handed_out[T0] == list(range(30))


def unknown(request: OffsetFetchRequest, topic_id: bytes) -> OffsetFetchResponse | None:
    """As a broker answers of topics of other ids."""
    group = request.groups[0]
    assert group.topics
    if group.topics[0].topic_id == topic_id:
        return None
    parts = [OffsetFetchResponsePartitions(0, -1, error_code=ErrorCode.UNKNOWN_TOPIC_ID)]
    told = [OffsetFetchResponseTopics("", group.topics[0].topic_id, parts)]
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group.group_id, told)])


def test_who_leaves_is_not_told_what_was_refused_before() -> None:
    cluster, one = alone()
    refuse(cluster, ErrorCode.INVALID_REGULAR_EXPRESSION)
    while one.group.membership.error is None:
        cluster.run(1)
    one.close()
    assert not cluster.group.members


def test_leaving_says_so_and_ends_though_nobody_answers() -> None:
    cluster, one = alone()
    one.close()
    assert beats(one)[-1].member_epoch == -1
    assert not cluster.group.members
    cluster, one = alone()
    cluster.handle = lambda request, answer: None  # type: ignore[method-assign]
    one.group.depart("it was closed", cluster.now_ms + 500)
    one.turn()
    cluster.run(600)
    one.turn()
    one.group.abandon(cluster.now_ms)
    assert beats(one)[-1].member_epoch == -1
    assert one.group.membership.state is State.OUT

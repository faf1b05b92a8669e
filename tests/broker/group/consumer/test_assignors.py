"""Both assignors: each partition once and to a subscriber; even; nothing moves that need not."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.group.consumer.assignors import ASSIGNORS, Assignments, MemberSubscription, assign, assigning
from barnabas.broker.group.consumer.assignors.member import WORK_PER_STEP

Members = dict[str, MemberSubscription]

A, B, C, GONE = (name * 16 for name in (b"a", b"b", b"c", b"g"))
TOPICS = st.dictionaries(st.sampled_from([A, B, C]), st.integers(1, 7))
SUBSCRIPTIONS = st.frozensets(st.sampled_from([A, B, C, GONE]))
IDS = [f"m{number}" for number in range(6)]


def subscribed(*topics: bytes, **changed: object) -> MemberSubscription:
    return MemberSubscription(frozenset(topics))._replace(**changed)  # type: ignore[arg-type]


def owning(members: Members, shares: Assignments) -> Members:
    """The same members, with what they were given."""
    return {name: one._replace(owned=shares.get(name, {})) for name, one in members.items()}


def given_once(members: Members, partitions: dict[bytes, int], shares: Assignments) -> None:
    assert shares.keys() == members.keys()
    given = Counter(
        (topic, number) for share in shares.values() for topic, numbers in share.items() for number in numbers
    )
    wanted = frozenset().union(*(one.topics for one in members.values()))
    assert given == Counter(
        (topic, number) for topic in partitions.keys() & wanted for number in range(partitions[topic])
    )
    for name, share in shares.items():
        assert share.keys() <= members[name].topics
        assert all(numbers and list(numbers) == sorted(numbers) for numbers in share.values())


def load(share: dict[bytes, tuple[int, ...]]) -> int:
    return sum(map(len, share.values()))


def moved(before: Assignments, after: Assignments) -> int:
    """Partitions that were somebody's, and are another's."""
    was = {(topic, number): name for name, share in before.items() for topic in share for number in share[topic]}
    now = {(topic, number): name for name, share in after.items() for topic in share for number in share[topic]}
    return sum(1 for where, name in was.items() if name in after and now.get(where, name) != name)


ANY_OWNED = st.dictionaries(st.sampled_from([A, B, C, GONE]), st.frozensets(st.integers(0, 9)))
"""What a member may say that it has: of topics it does not want, partitions that are not there, others' too."""
ANY_MEMBERS = st.dictionaries(st.sampled_from(IDS), st.builds(MemberSubscription, SUBSCRIPTIONS, ANY_OWNED))


@given(st.sampled_from(sorted(ASSIGNORS)), ANY_MEMBERS, TOPICS)
def test_each_partition_is_given_once_to_a_subscriber(name: str, members: Members, topics: dict[bytes, int]) -> None:
    given_once(members, topics, assign(name, members, topics))


@given(ANY_MEMBERS, SUBSCRIPTIONS, TOPICS)
def test_uniform_is_even_where_all_want_the_same(
    members: Members, wanted: frozenset[bytes], topics: dict[bytes, int]
) -> None:
    alike = {name: one._replace(topics=wanted) for name, one in members.items()}
    shares = assign("uniform", alike, topics)
    given_once(alike, topics, shares)
    loads = [load(share) for share in shares.values()] or [0]
    assert max(loads) - min(loads) <= 1


@given(ANY_MEMBERS, TOPICS)
def test_uniform_leaves_no_two_subscribers_of_a_topic_that_one_move_would_even_out(
    members: Members, topics: dict[bytes, int]
) -> None:
    shares = assign("uniform", members, topics)
    for name, share in shares.items():
        for topic in share:
            for other, one in members.items():
                assert topic not in one.topics or load(share) - load(shares[other]) < 2, (name, other, topic)


@given(ANY_MEMBERS, TOPICS)
def test_nothing_moves_when_nothing_changed(members: Members, topics: dict[bytes, int]) -> None:
    shares = assign("uniform", members, topics)
    assert assign("uniform", owning(members, shares), topics) == shares


@given(st.integers(2, 6), TOPICS, st.data())
def test_who_leaves_moves_only_its_own(count: int, topics: dict[bytes, int], data: st.DataObject) -> None:
    members = {name: subscribed(*topics) for name in IDS[:count]}
    shares = assign("uniform", members, topics)
    left = owning(members, shares)
    del left[data.draw(st.sampled_from(IDS[:count]))]
    assert moved(shares, assign("uniform", left, topics)) == 0


@given(st.integers(1, 5), TOPICS)
def test_who_joins_takes_its_part_and_no_more_moves(count: int, topics: dict[bytes, int]) -> None:
    members = {name: subscribed(*topics) for name in IDS[:count]}
    shares = assign("uniform", members, topics)
    more = owning(members, shares) | {IDS[5]: subscribed(*topics)}
    after = assign("uniform", more, topics)
    assert moved(shares, after) == load(after[IDS[5]])


@given(st.integers(1, 6), TOPICS, st.integers(1, 5))
def test_new_partitions_move_none_of_the_old(count: int, topics: dict[bytes, int], more: int) -> None:
    members = {name: subscribed(*topics) for name in IDS[:count]}
    shares = assign("uniform", members, topics)
    grown = {topic: number + more for topic, number in topics.items()}
    # As even as before, or one apart at most: nobody had more than the new share.
    assert moved(shares, assign("uniform", owning(members, shares), grown)) == 0


def test_who_has_more_than_another_subscriber_gives_some_away() -> None:
    members = {"both": subscribed(A, B), "a": subscribed(A), "b": subscribed(B, owned={B: (0, 1, 2, 3, 4, 5)})}
    shares = assign("uniform", members, {A: 2, B: 6})
    assert {name: load(share) for name, share in shares.items()} == {"both": 3, "a": 2, "b": 3}
    assert set(shares["b"][B]) <= set(range(6))
    assert moved({"b": {B: (0, 1, 2, 3, 4, 5)}}, shares) == 3


def test_ranges_are_kafkas() -> None:
    members = {"m2": subscribed(A, B), "m1": subscribed(A, B), "z": subscribed(A, B, instance_id="i")}
    assert assign("range", members, {A: 4, B: 4}) == {
        "z": {A: (0, 1), B: (0, 1)},
        "m1": {A: (2,), B: (2,)},
        "m2": {A: (3,), B: (3,)},
    }


def test_ranges_of_a_topic_go_to_its_subscribers() -> None:
    members = {"m1": subscribed(A), "m2": subscribed(A, B), "m3": subscribed(B)}
    assert assign("range", members, {A: 3, B: 1}) == {"m1": {A: (0, 1)}, "m2": {A: (2,), B: (0,)}, "m3": {}}


def test_static_members_are_in_the_order_of_their_instance_ids() -> None:
    members = {"a": subscribed(A, instance_id="2"), "b": subscribed(A, instance_id="1"), "c": subscribed(A)}
    assert assign("range", members, {A: 3}) == {"b": {A: (0,)}, "a": {A: (1,)}, "c": {A: (2,)}}


def test_work_for_many_is_done_in_steps() -> None:
    """Who wants what is looked at in bounded portions."""
    topics = [number.to_bytes(16, "big") for number in range(500)]
    members = {f"m{number}": subscribed(*topics[number:]) for number in range(100)}
    for name in ASSIGNORS:
        steps = 1 + sum(1 for _ in assigning(name, members, dict.fromkeys(topics, 1)))
        assert steps >= 100 * 400 // WORK_PER_STEP, name


def test_many_members_of_two_releases_are_two_kinds() -> None:
    """Who wants the same topics is looked at once: 1,000 subscriptions of 100 topics, and few steps."""
    topics = [number.to_bytes(16, "big") for number in range(101)]
    before, after = frozenset(topics[:100]), frozenset(topics[1:])
    members = {f"m{number}": MemberSubscription(after if number % 2 else before) for number in range(1000)}
    shares = assign("uniform", members, dict.fromkeys(topics, 10))
    assert {load(share) for share in shares.values()} <= {1, 2}
    assert sum(1 for _ in assigning("uniform", members, dict.fromkeys(topics, 10))) <= 2

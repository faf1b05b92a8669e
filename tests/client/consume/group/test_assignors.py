"""The four ways to share: the examples of Kafka's documentation, and what always holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.consume.group.assignors import ASSIGNORS, Member, PartitionAssignor, Shares, assignors_of
from barnabas.client.consume.group.assignors.sticky import owners
from barnabas.net.errors import ConfigError
from barnabas.protocol.ids import TopicPartition
from tests.client.consume.group.simulated import Cluster


def wants(
    name: str, topics: str, owned: Sequence[str] = (), generation: int = -1, instance: str | None = None
) -> Member:
    """`wants("C0", "t0 t1", ["t0p0"])`."""
    return Member(name, frozenset(topics.split()), instance, tuple(map(place, owned)), generation)


def place(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("p")
    return TopicPartition(topic, int(number))


def told(shares: Shares) -> dict[str, str]:
    """As Kafka's documentation writes it: `{"C0": "t0p0 t0p1"}`."""
    return {name: " ".join(f"{each.topic}p{each.partition}" for each in share) for name, share in shares.items()}


def share(way: str, partitions: Mapping[str, int], *members: Member) -> dict[str, str]:
    return told(ASSIGNORS[way].share(partitions, members))


# ---- Kafka's examples -----------------------------------------------------------------------------------------------


def test_range_gives_each_topic_in_runs_and_the_first_one_more() -> None:
    two = [wants("C1", "t0 t1"), wants("C0", "t0 t1")]
    assert share("range", {"t0": 3, "t1": 3}, *two) == {"C0": "t0p0 t0p1 t1p0 t1p1", "C1": "t0p2 t1p2"}


def test_static_members_come_first_by_their_instance() -> None:
    """RangeAssignor's documentation: names change with a restart, instances do not."""
    members = [wants("a", "t0"), wants("z", "t0", instance="i2"), wants("y", "t0", instance="i3")]
    assert share("range", {"t0": 3}, *members) == {"z": "t0p0", "y": "t0p1", "a": "t0p2"}
    assert share("roundrobin", {"t0": 4}, *members) == {"z": "t0p0 t0p3", "y": "t0p1", "a": "t0p2"}


def test_round_robin_goes_on_with_the_next_topic() -> None:
    two = [wants("C0", "t0 t1"), wants("C1", "t0 t1")]
    assert share("roundrobin", {"t0": 3, "t1": 3}, *two) == {"C0": "t0p0 t0p2 t1p1", "C1": "t0p1 t1p0 t1p2"}


UNLIKE = {"t0": 1, "t1": 2, "t2": 3}


def test_round_robin_passes_over_who_does_not_want_a_topic() -> None:
    members = [wants("C0", "t0"), wants("C1", "t0 t1"), wants("C2", "t0 t1 t2")]
    expected = {"C0": "t0p0", "C1": "t1p0", "C2": "t1p1 t2p0 t2p1 t2p2"}
    assert share("roundrobin", UNLIKE, *members) == expected


def test_sticky_is_more_even_where_subscriptions_differ() -> None:
    members = [wants("C0", "t0"), wants("C1", "t0 t1"), wants("C2", "t0 t1 t2")]
    assert share("sticky", UNLIKE, *members) == {"C0": "t0p0", "C1": "t1p0 t1p1", "C2": "t2p0 t2p1 t2p2"}


FOUR = {f"t{n}": 2 for n in range(4)}
ALL = "t0 t1 t2 t3"


def test_sticky_moves_only_what_the_one_who_left_had() -> None:
    """StickyAssignor's first example: C1 goes; the others keep theirs and share its."""
    before = {"C0": "t0p0 t1p1 t3p0", "C2": "t1p0 t2p1"}
    members = [wants(name, ALL, owned.split(), 1) for name, owned in before.items()]
    after = ASSIGNORS["sticky"].share(FOUR, members)
    for name, owned in before.items():
        assert set(map(place, owned.split())) <= set(after[name])
    assert sorted(map(len, after.values())) == [4, 4]


def test_sticky_keeps_all_where_the_first_of_unlike_members_leaves() -> None:
    """StickyAssignor's second example: C0 goes, C1 and C2 keep what they have."""
    members = [wants("C1", "t0 t1", ["t1p0", "t1p1"], 1), wants("C2", "t0 t1 t2", ["t2p0", "t2p1", "t2p2"], 1)]
    assert share("sticky", UNLIKE, *members) == {"C1": "t0p0 t1p0 t1p1", "C2": "t2p0 t2p1 t2p2"}


def test_cooperative_takes_first_and_gives_with_the_next_generation() -> None:
    old = wants("a", "t", [f"tp{n}" for n in range(4)], 3)
    first = ASSIGNORS["cooperative-sticky"].share({"t": 4}, [old, wants("b", "t")])
    assert told(first) == {"a": "tp0 tp1", "b": ""}
    members = [wants("a", "t", ["tp0", "tp1"], 4), wants("b", "t", [], 4)]
    assert share("cooperative-sticky", {"t": 4}, *members) == {"a": "tp0 tp1", "b": "tp2 tp3"}


def test_of_two_who_claim_a_partition_the_later_generation_has_it() -> None:
    old, new = wants("a", "t", ["tp0", "tp1"], 4), wants("b", "t", ["tp0"], 5)
    assert owners([old, new]) == {place("tp0"): "b", place("tp1"): "a"}
    assert owners([old, wants("b", "t", ["tp0"], 4)]) == {place("tp1"): "a"}


def test_a_way_through_others_is_found() -> None:
    """a has two more than c, wants nothing that c does, and gives to b, who gives to c."""
    members = [
        wants("a", "t", ["tp0", "tp1", "tp2"], 1),
        wants("b", "t u", ["up0", "up1"], 1),
        wants("c", "u", [], 1),
    ]
    shares = ASSIGNORS["sticky"].share({"t": 3, "u": 2}, members)
    assert {name: len(share) for name, share in shares.items()} == {"a": 2, "b": 2, "c": 1}


def test_a_topic_that_nobody_wants_and_one_that_is_not_there() -> None:
    for way in ASSIGNORS:
        assert share(way, {"t": 1, "u": 5}, wants("a", "t x", ["xp0", "tp7"], 1)) == {"a": "tp0"}
        assert share(way, {"t": 2}, wants("a", "")) == {"a": ""}


# ---- what always holds ----------------------------------------------------------------------------------------------

TOPICS = ["t", "u", "v"]


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, int], list[Member]]:
    partitions = {topic: draw(st.integers(1, 6)) for topic in TOPICS}
    everything = [TopicPartition(topic, n) for topic, count in partitions.items() for n in range(count + 1)]
    alike = draw(st.booleans())
    members = []
    for number in range(draw(st.integers(1, 6))):
        topics = TOPICS if alike else draw(st.lists(st.sampled_from(TOPICS), unique=True))
        owned = draw(st.lists(st.sampled_from(everything), unique=True, max_size=8))
        instance = draw(st.sampled_from([None, f"i{9 - number}"]))
        members.append(Member(f"m{number}", frozenset(topics), instance, tuple(owned), draw(st.integers(-1, 2))))
    return partitions, members


@pytest.mark.parametrize("way", ["range", "roundrobin", "sticky"])
@settings(max_examples=60)
@given(group=groups())
def test_every_partition_that_is_wanted_has_one_owner_who_wants_it(
    way: str, group: tuple[dict[str, int], list[Member]]
) -> None:
    partitions, members = group
    shares = ASSIGNORS[way].share(partitions, members)
    assert set(shares) == {each.id for each in members}
    given_out = Counter(where for share in shares.values() for where in share)
    wanted = {topic for member in members for topic in member.topics}
    assert given_out == Counter(TopicPartition(t, n) for t in wanted for n in range(partitions[t]))
    for member in members:
        assert {where.topic for where in shares[member.id]} <= member.topics
    assert shares == ASSIGNORS[way].share(partitions, members[::-1]), "the order of members must not matter"


@settings(max_examples=60)
@given(group=groups())
def test_sticky_shares_are_as_even_as_can_be_and_stay(group: tuple[dict[str, int], list[Member]]) -> None:
    partitions, members = group
    shares = ASSIGNORS["sticky"].share(partitions, members)
    if len({member.topics for member in members}) == 1:
        sizes = list(map(len, shares.values()))
        assert max(sizes) - min(sizes) <= 1
        kept = owners(members)
        valid = Counter(
            name
            for where, name in kept.items()
            if where.partition < partitions[where.topic] and where.topic in members[0].topics
        )
        stayed = sum(kept.get(where) == name for name, share in shares.items() for where in share)
        least, more = divmod(sum(sizes), len(members))
        keepable = sorted((min(valid[m.id], least + 1) for m in members), reverse=True)
        best = sum(keepable[:more]) + sum(min(count, least) for count in keepable[more:])
        assert stayed == best, "more partitions moved than had to"
    settled = [Member(each.id, each.topics, each.instance_id, tuple(shares[each.id]), 7) for each in members]
    assert ASSIGNORS["sticky"].share(partitions, settled) == shares, "what is even stays"


@settings(max_examples=60)
@given(group=groups())
def test_no_share_is_more_even(group: tuple[dict[str, int], list[Member]]) -> None:
    """Nobody with two more than another can give him anything."""
    partitions, members = group
    shares = ASSIGNORS["sticky"].share(partitions, members)
    for giver in members:
        for taker in members:
            if len(shares[giver.id]) >= len(shares[taker.id]) + 2:
                assert not {where.topic for where in shares[giver.id]} & taker.topics


@settings(max_examples=60)
@given(group=groups())
def test_cooperative_gives_nothing_away_that_somebody_has(group: tuple[dict[str, int], list[Member]]) -> None:
    partitions, members = group
    shares = ASSIGNORS["cooperative-sticky"].share(partitions, members)
    had = owners(members)
    for name, share in shares.items():
        assert all(had.get(where, name) == name for where in share)
    wanted = {topic for member in members for topic in member.topics}
    alike = len({member.topics for member in members}) == 1
    for generation in range(9, 11 if alike else 15):  # who leads shares anew each time
        again = [Member(each.id, each.topics, each.instance_id, tuple(shares[each.id]), generation) for each in members]
        shares = ASSIGNORS["cooperative-sticky"].share(partitions, again)
    assert sum(map(len, shares.values())) == sum(partitions[topic] for topic in wanted), "it comes to an end"


# ---- names ----------------------------------------------------------------------------------------------------------


def test_kafkas_class_names_are_taken() -> None:
    names = ["org.apache.kafka.clients.consumer.CooperativeStickyAssignor", "range"]
    assert [each.name for each in assignors_of(names)] == ["cooperative-sticky", "range"]


@pytest.mark.parametrize(
    ("names", "message"),
    [(["rnage"], "'rnage' is none of range, roundrobin"), ([], "nothing; name"), (["range", "range"], "name each")],
)
def test_what_is_no_way_to_share(names: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        assignors_of(names)


# ---- a program's own ------------------------------------------------------------------------------------------------


class ByWeight(PartitionAssignor):
    """Who says that it weighs more gets everything."""

    name = "by-weight"

    def __init__(self, weight: int = 0) -> None:
        self.weight = weight

    def user_data(self, topics: Sequence[str]) -> bytes:
        return b"%d %s" % (self.weight, b",".join(map(str.encode, topics)))

    def share(self, partitions: Mapping[str, int], members: Sequence[Member]) -> dict[str, list[tuple[str, int]]]:
        heaviest = max(members, key=lambda each: each.user_data)
        return {heaviest.id: [(topic, number) for topic in partitions for number in range(partitions[topic])]}


def test_a_programs_own_way_shares_out_by_what_members_say_of_themselves() -> None:
    cluster = Cluster({"t": 3})
    light, heavy = (cluster.member(**{"partition.assignment.strategy": ByWeight(weight)}) for weight in (1, 2))
    cluster.settle(light, heavy)
    assert light.owned() == set()
    assert len(heavy.owned()) == 3
    assert cluster.group.way == "by-weight"


def test_a_cooperative_way_of_ones_own_waits_until_what_goes_is_given_up() -> None:
    way = ByWeight()
    way.cooperative = True
    (given,) = assignors_of([way])
    members = [Member("a", frozenset("t"), owned=(TopicPartition("t", 0),), user_data=b"1"), wants("b", "t")]
    assert told(given.share({"t": 2}, members)) == {"a": "tp0 tp1", "b": ""}
    members = [
        Member("a", frozenset("t"), owned=(TopicPartition("t", 0),)),
        Member("b", frozenset("t"), user_data=b"1"),
    ]
    assert told(given.share({"t": 2}, members)) == {"a": "", "b": "tp1"}


class Broken:
    name = "broken"

    def __init__(self, given: Any) -> None:
        self.given = given

    def share(self, partitions: Mapping[str, int], members: Sequence[Member]) -> Any:
        return self.given(members[0].id)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda _: {"x": [("t", 0)]}, r"broken gave \('t', 0\) .*to 'x' .*who is no member"),
        (lambda me: {me: [("t", 5)]}, r"gave \('t', 5\) .*to m1, and there is no such partition"),
        (lambda me: {me: [("u", 0)]}, "there is no such partition"),
        (lambda me: {me: [("t", 0), ("t", 0)]}, "to m1, and to m1"),
        (lambda me: {me: [7]}, "broken failed: TypeError"),
        (lambda me: None, "broken failed: AttributeError"),
    ],
)
def test_what_cannot_be_given_is_told_where_records_are_asked_for(given: Any, message: str) -> None:
    way = Broken(given)
    cluster = Cluster({"t": 2})
    one = cluster.member(**{"partition.assignment.strategy": [way]})
    with pytest.raises(ConfigError, match=message):
        cluster.run(500, [one])
    way.given = lambda me: {me: [("t", 0)]}
    cluster.settle(one)
    assert one.owned() == {TopicPartition("t", 0)}


def test_a_topic_that_a_member_does_not_want_is_not_given_to_it() -> None:
    (way,) = assignors_of([Broken(lambda me: {me: [("u", 0)]})])
    with pytest.raises(ConfigError, match="who does not want the topic"):
        way.share({"t": 1, "u": 1}, [wants("a", "t"), wants("b", "u")])


def test_user_data_that_is_none_is_told_where_records_are_asked_for() -> None:
    way = ByWeight()
    way.user_data = lambda topics: "1"  # type: ignore[assignment,method-assign,return-value]
    cluster = Cluster({"t": 2})
    one = cluster.member(**{"partition.assignment.strategy": way})
    with pytest.raises(ConfigError, match=r"by-weight: user_data gave '1' \(str\); give bytes"):
        cluster.run(500, [one])
    way.user_data = lambda topics: None  # type: ignore[assignment,method-assign,return-value]
    cluster.settle(one)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (7, r"7 \(int\) is no way to share; give a name, or an object"),
        (ByWeight, "is no way to share"),
        (["range", ByWeight(), ByWeight()], "range, by-weight, by-weight; name each way once"),
    ],
)
def test_an_object_that_is_no_way_to_share(given: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ConsumerConfig.of({"group.id": "g", "partition.assignment.strategy": given})


def test_the_names_of_kafkas_ways_are_theirs() -> None:
    way = ByWeight()
    way.name = "range"
    with pytest.raises(ConfigError, match="'range' is one of Kafka's; call yours by a name of its own"):
        assignors_of([way])

"""What fencing and unfencing a broker comes to for partitions."""

from __future__ import annotations

import pytest

from barnabas.broker.cluster.elections import PREFERRED, UNCLEAN, all_of, asked, needing
from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.leadership import fenced, unfenced, without
from barnabas.broker.cluster.records import BrokerChange, Partition, PartitionChange, RegisterBroker, Topic
from barnabas.broker.cluster.turns import SMALL_MAX
from barnabas.broker.jobs import at_once
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition


def image_of(*partitions, dead=()):
    """Brokers 1 to 3, of which `dead` are fenced; partitions are (replicas, isr, leader) of one topic."""
    image = Image()
    image.apply([RegisterBroker(one, one, bytes(16), (), None, one in dead) for one in (1, 2, 3)])
    image.apply([Topic(b"t" * 16, "t")])
    image.apply([Partition(b"t" * 16, number, *one) for number, one in enumerate(partitions)])
    return image


@pytest.mark.parametrize(
    ("replicas", "isr", "leader", "dead", "expected"),
    [
        ((1, 2, 3), (1, 2, 3), 1, (), ((2, 3), 2)),  # the next in assignment order
        ((2, 1, 3), (1, 2, 3), 2, (), ((1, 3), 1)),
        ((1, 3, 2), (1, 2), 1, (), ((2,), 2)),  # out of sync: passed over
        ((1, 2, 3), (1, 2, 3), 1, (2,), ((2, 3), 3)),  # in sync and dead: passed over
        ((1, 2, 3), (1, 2), 1, (2,), ((2,), -1)),  # nobody is there, the ISR stays for who comes back
        ((1, 2, 3), (1,), 1, (), (None, -1)),  # the last of the ISR stays in it
        ((2, 1, 3), (1, 2, 3), 2, (1, 3), ((1, 3), -1)),
        ((2, 1, 3), (2, 1), 2, (), ((1,), 1)),
    ],
)
def test_who_is_fenced_leads_nothing_and_leaves_the_isr(replicas, isr, leader, dead, expected):
    image = image_of((replicas, isr, leader), dead=dead)
    state = image.partition("t", 0)
    assert without(image, state, leader) == expected


def test_a_follower_that_is_fenced_leaves_the_isr_in_the_same_leader_epoch():
    image = image_of(((1, 2, 3), (1, 2, 3), 1))
    image.apply(at_once(fenced(image, 3)))
    state = image.partition("t", 0)
    assert (state.isr, state.leader, state.leader_epoch, state.partition_epoch) == ((1, 2), 1, 0, 1)


def test_who_is_unfenced_leads_what_waits_for_it_and_nothing_else():
    image = image_of(((1, 2, 3), (2,), -1), ((1, 2, 3), (1,), -1), ((2, 3, 1), (2, 3), 3))
    assert at_once(unfenced(image, 2)) == [PartitionChange(b"t" * 16, 0, leader=2)]
    assert at_once(fenced(image, 2)) == [PartitionChange(b"t" * 16, 2, isr=(3,))]


def test_where_nobody_in_sync_is_alive_one_out_of_sync_leads_if_its_topic_lets_it():
    image = image_of(((1, 2, 3), (1,), 1), ((1, 2, 3), (1, 2), 1), ((1,), (1,), 1))
    kept = at_once(fenced(image, 1))
    assert kept == [
        PartitionChange(b"t" * 16, 0, leader=-1),
        PartitionChange(b"t" * 16, 1, isr=(2,), leader=2),
        PartitionChange(b"t" * 16, 2, leader=-1),
    ]
    lets = at_once(fenced(image, 1, lambda topic: topic == "t"))
    assert lets == [PartitionChange(b"t" * 16, 0, isr=(2,), leader=2, recovering=True), *kept[1:]]
    image.apply([BrokerChange(1, fenced=True), *kept])
    assert at_once(unfenced(image, 3)) == []
    change = PartitionChange(b"t" * 16, 0, isr=(3,), leader=3, recovering=True)
    assert at_once(unfenced(image, 3, lambda topic: topic == "t")) == [change]
    image.apply([change])
    assert image.partition("t", 0).recovering
    copy = Image()
    copy.apply(image.to_records())
    assert copy.partition("t", 0) == image.partition("t", 0)


@pytest.mark.parametrize(
    ("replicas", "isr", "leader", "dead", "election", "expected"),
    [
        ((1, 2), (1, 2), 1, (), PREFERRED, ErrorCode.ELECTION_NOT_NEEDED),
        ((1, 2), (1, 2), 2, (), PREFERRED, PartitionChange(b"t" * 16, 0, leader=1)),
        ((1, 2), (2,), 2, (), PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        ((1, 2), (1, 2), 2, (1,), PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        ((1, 2), (1, 2), 2, (1,), UNCLEAN, ErrorCode.ELECTION_NOT_NEEDED),
        ((1, 2), (1,), -1, (1, 2), UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
        ((1, 2, 3), (1,), -1, (1,), UNCLEAN, PartitionChange(b"t" * 16, 0, (2,), 2, recovering=True)),
        ((1, 2, 3), (1, 3), -1, (1,), UNCLEAN, PartitionChange(b"t" * 16, 0, leader=3)),
        ((1, 2), (1, 2), 1, (), 2, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_election_that_is_asked_for(replicas, isr, leader, dead, election, expected):
    image = image_of((replicas, isr, leader), dead=dead)
    told: dict[TopicPartition, tuple[int, str]] = {}
    key, unknown = TopicPartition("t", 0), TopicPartition("t", 1)
    changes = at_once(asked(image, [key, unknown], election, told))
    code = expected if isinstance(expected, ErrorCode) else 0
    assert told[key][0] == code
    assert changes == ([] if code else [expected])
    if election in (PREFERRED, UNCLEAN):
        assert told[unknown] == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as t-1")
        assert list(needing(image, election)) == ([] if code == ErrorCode.ELECTION_NOT_NEEDED else [key])
        alone = at_once(all_of(image, election))
        assert alone == (changes if election == PREFERRED else []), "nobody is made leader uncleanly unless it may"
        assert at_once(all_of(image, election, lambda topic: True)) == changes


def test_many_partitions_are_looked_at_a_few_in_each_step():
    image = image_of(*[((1, 2, 3), (1, 2, 3), 2)] * (2 * SMALL_MAX))
    steps = fenced(image, 2)
    assert [next(steps), next(steps)] == [None, None]
    with pytest.raises(StopIteration) as ended:
        next(steps)
    assert len(ended.value.value) == 2 * SMALL_MAX
    image.apply([BrokerChange(2, fenced=True), *ended.value.value])
    assert {state.leader for state in image.topics["t"].partitions.values()} == {1}

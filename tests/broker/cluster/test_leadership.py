"""What fencing and unfencing a broker comes to for partitions."""

from __future__ import annotations

import pytest

from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.leadership import fenced, unfenced, without
from barnabas.broker.cluster.records import BrokerChange, Partition, PartitionChange, RegisterBroker, Topic
from barnabas.broker.cluster.turns import SMALL_MAX
from barnabas.broker.jobs import at_once


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


def test_many_partitions_are_looked_at_a_few_in_each_step():
    image = image_of(*[((1, 2, 3), (1, 2, 3), 2)] * (2 * SMALL_MAX))
    steps = fenced(image, 2)
    assert [next(steps), next(steps)] == [None, None]
    with pytest.raises(StopIteration) as ended:
        next(steps)
    assert len(ended.value.value) == 2 * SMALL_MAX
    image.apply([BrokerChange(2, fenced=True), *ended.value.value])
    assert {state.leader for state in image.topics["t"].partitions.values()} == {1}

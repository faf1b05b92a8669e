"""What moving a partition to other brokers comes to, decision by decision."""

from __future__ import annotations

from dataclasses import replace

import pytest

from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.reassignment import Move, begin, changed, decide, give_up
from barnabas.broker.cluster.records import Partition, RegisterBroker, Topic
from barnabas.broker.cluster.succession import Terms, default_terms
from barnabas.broker.cluster.turns import SMALL_MAX
from barnabas.broker.jobs import at_once
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition

ID = b"t" * 16


class One:
    """One partition, which changes as is decided."""

    def __init__(self, replicas, isr=None, leader=None, dead=(), count=1):
        self.image = Image()
        self.image.apply([RegisterBroker(one, one, bytes(16), (), None, one in dead) for one in range(1, 6)])
        isr = replicas if isr is None else isr
        first = (replicas, isr, isr[0] if leader is None else leader)
        self.image.apply([Topic(ID, "t"), *(Partition(ID, number, *first) for number in range(count))])

    @property
    def state(self):
        return self.image.partition("t", 0)

    def take(self, change):
        if change is not None:
            self.image.apply([change])
        return self.told()

    def told(self):
        """Replicas, adding, removing, ISR, leader, its epoch."""
        state = self.state
        return state.replicas, state.adding, state.removing, state.isr, state.leader, state.leader_epoch

    def begin(self, *target, **options):
        return self.take(begin(self.image, 0, self.state, target, **options))

    def give_up(self, *, unclean=False):
        return self.take(give_up(self.image, 0, self.state, terms=Terms(unclean=unclean)))

    def in_sync(self, *isr, **options):
        return self.take(changed(self.image, 0, self.state, isr, **options))


def refused(call, *arguments, **options):
    with pytest.raises(KafkaError) as caught:
        call(*arguments, **options)
    return caught.value.code


def test_it_goes_once_all_of_the_target_is_in_sync_and_the_leader_that_goes_leads_no_more():
    one = One((1, 2, 3))
    assert one.begin(4, 2, 3) == ((4, 2, 3, 1), (4,), (1,), (1, 2, 3), 1, 0)
    assert one.in_sync(1, 2) == ((4, 2, 3, 1), (4,), (1,), (1, 2), 1, 0)
    assert one.in_sync(1, 2, 4) == ((4, 2, 3, 1), (4,), (1,), (1, 2, 4), 1, 0)
    assert one.in_sync(1, 2, 4, 3) == ((4, 2, 3), (), (), (2, 4, 3), 4, 1)
    assert not one.state.moves


def test_a_leader_that_stays_leads_on_in_a_later_epoch_for_somebody_goes():
    one = One((1, 2, 3))
    one.begin(1, 2, 4)
    assert one.in_sync(1, 2, 3, 4) == ((1, 2, 4), (), (), (1, 2, 4), 1, 1)


def test_more_replicas_change_no_leader_epoch():
    one = One((1,))
    assert one.begin(1, 2) == ((1, 2), (2,), (), (1,), 1, 0)
    assert one.in_sync(1, 2) == ((1, 2), (), (), (1, 2), 1, 0)


def test_what_only_takes_away_or_orders_anew_is_through_at_once_if_the_rest_is_in_sync():
    assert One((1, 2, 3)).begin(3, 1, 2) == ((3, 1, 2), (), (), (1, 2, 3), 1, 0)
    assert One((1, 2, 3)).begin(2) == ((2,), (), (), (2,), 2, 1)
    assert One((1, 2, 3), (1, 3)).begin(1, 2) == ((1, 2, 3), (), (3,), (1, 3), 1, 0)
    assert One((1, 2, 3)).begin(1, 2, 3) == ((1, 2, 3), (), (), (1, 2, 3), 1, 0)


def test_nothing_is_written_where_nothing_changes():
    one = One((1, 2, 3))
    assert begin(one.image, 0, one.state, (1, 2, 3)) is None
    one.begin(4, 2, 3)
    assert begin(one.image, 0, one.state, (4, 2, 3)) is None
    assert changed(one.image, 0, one.state, (1, 2, 3)) is None


def test_another_target_on_the_way_goes_from_where_it_is():
    one = One((1, 2, 3))
    one.begin(4, 2, 3)
    assert one.begin(5, 2, 3) == ((5, 2, 3, 1, 4), (5,), (1, 4), (1, 2, 3), 1, 0)
    assert one.in_sync(1, 2, 3, 5) == ((5, 2, 3), (), (), (2, 3, 5), 5, 1)


def test_back_to_where_it_was_is_through_at_once():
    one = One((1, 2, 3))
    one.begin(4, 2, 3)
    assert one.begin(1, 2, 3) == ((1, 2, 3), (), (), (1, 2, 3), 1, 1)


def test_one_that_was_to_go_and_is_in_the_new_target_stays():
    one = One((1, 2, 3))
    one.begin(1, 2, 4)
    assert one.begin(1, 2, 3, 4) == ((1, 2, 3, 4), (4,), (), (1, 2, 3), 1, 0)
    assert one.in_sync(1, 2, 3, 4) == ((1, 2, 3, 4), (), (), (1, 2, 3, 4), 1, 0)


def test_given_up_it_has_what_it_had_and_nobody_who_came_is_believed():
    one = One((1, 2, 3))
    one.begin(4, 5, 3)
    assert one.in_sync(1, 4, 3) == ((4, 5, 3, 1, 2), (4, 5), (1, 2), (1, 4, 3), 1, 0)
    assert one.give_up() == ((3, 1, 2), (), (), (1, 3), 1, 1)
    assert refused(one.give_up) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_giving_up_needs_one_in_sync_or_leave_to_lose():
    one = One((1, 2))
    one.begin(4, 5)
    one.in_sync(1, 4)
    one.image.apply([RegisterBroker(1, 1, bytes(16), (), None, True)])
    assert one.in_sync(4) == ((4, 5, 1, 2), (4, 5), (1, 2), (4,), 4, 1)
    assert refused(one.give_up) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert one.give_up(unclean=True) == ((1, 2), (), (), (2,), 2, 2)
    assert one.state.recovering


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 9), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, -1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        ((1, 2, 3, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_a_target_that_cannot_be_is_refused(target, code):
    one = One((1, 2, 3))
    one.begin(1, 2, 4)  # three are to be, though there are four for now
    assert refused(one.begin, *target, may_resize=False) == code


def test_a_broker_that_is_away_may_be_gone_to_and_is_waited_for():
    one = One((1, 2), dead=(4,))
    assert one.begin(4, 2) == ((4, 2, 1), (4,), (1,), (1, 2), 1, 0)


def test_nobody_out_of_sync_leads_but_where_that_is_allowed():
    one = One((1, 2), (1,), dead=(1,))
    assert one.begin(4, 2) == ((4, 2, 1), (4,), (1,), (1,), -1, 1)
    assert changed(one.image, 0, one.state, (1,)) is None
    change = changed(one.image, 0, one.state, (1,), terms=Terms(unclean=True))
    assert change is not None
    assert (change.leader, change.isr, change.recovering) == (4, (4,), True)


def test_a_move_that_begins_lets_nobody_lead_who_is_out_of_sync_even_where_that_is_allowed():
    one = One((1, 2, 3), isr=(1,), leader=-1, dead=(1,))
    assert one.begin(4, 2, 3, terms=Terms(unclean=True)) == ((4, 2, 3, 1), (4,), (1,), (1,), -1, 0)


def test_giving_up_takes_nobody_who_alone_is_in_sync_for_one_that_is_eligible_and_away():
    """What is eligible has all that was committed, but may come back without it, as after a loss of power."""
    one = One((1, 2))
    one.begin(4, 1)
    one.image.apply([RegisterBroker(1, 1, bytes(16), (), None, True)])
    led = replace(one.state, isr=(4,), leader=4, elr=(1,))
    certain = Terms(unclean=False)
    assert refused(give_up, one.image, 0, led, terms=certain) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert give_up(one.image, 0, replace(led, isr=(), leader=-1), terms=certain) is not None


def test_each_of_many_is_decided_on_its_own_and_in_steps():
    one = One((1, 2), count=SMALL_MAX + 5)
    moves = [Move(TopicPartition("t", number), (1, 3)) for number in range(SMALL_MAX + 4)]
    moves += [Move(TopicPartition("t", SMALL_MAX + 4), None), Move(TopicPartition("t", 9999), (1,))]
    moves += [Move(TopicPartition("u", 0), None)]
    told: list[KafkaError | None] = []
    steps = decide(one.image, moves, told, terms_of=default_terms)
    assert next(steps) is None
    assert len(told) == SMALL_MAX
    told.clear()
    changes = at_once(decide(one.image, moves, told, terms_of=default_terms))
    assert len(changes) == SMALL_MAX + 4
    assert [fault.code for fault in told if fault] == [
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    one.image.apply(changes)
    again = Image()
    again.apply(one.image.to_records())
    assert again.topics == one.image.topics, "a snapshot keeps what is under way"

"""Sequences of one partition: what may leave, and when the epoch goes up."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.client.produce.batch import ProducerBatch
from barnabas.client.produce.state import PartitionState, ProducerState
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition

HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)


def with_id() -> ProducerState:
    state = ProducerState()
    state.set_id(9, 0)
    return state


def batch(where: TopicPartition = HERE) -> ProducerBatch:
    made = ProducerBatch(where, bytearray(200), 0)
    assert made.try_append(0, None, b"x", ()) == 0
    return made


def drained(state: ProducerState, where: TopicPartition = HERE) -> ProducerBatch:
    made = batch(where)
    assert state.may_drain(made)
    state.on_drained(made)
    made.in_flight = True
    return made


def heard() -> ProducerState:
    """As `with_id`, and the first batch of the partition, of sequence 0, is acknowledged."""
    state = with_id()
    state.on_acked(drained(state), 0)
    return state


def test_nothing_leaves_without_an_id():
    assert not ProducerState().may_drain(batch())
    assert with_id().may_drain(batch())


def test_the_first_of_an_epoch_is_acknowledged_before_the_next_leaves():
    """A broker that knows nothing of the producer would write the next one even if it refused the first."""
    state = with_id()
    first = drained(state)
    assert not state.may_drain(batch())
    assert state.may_drain(batch(THERE))
    state.on_acked(first, 0)
    second = drained(state)
    assert second.base_sequence == 1
    state.on_failed(second, 87, sequence_unused=True)
    state.resolve()
    assert drained(state).base_sequence == 0
    assert not state.may_drain(batch())


def test_what_was_sent_to_the_topic_before_goes_first_in_one_made_anew():
    """Its broker, too, knows nothing of the producer."""
    state, anew = heard(), b"anew" * 4
    first, second, fresh = drained(state), drained(state), batch()
    assert not state.may_drain(fresh, anew)
    assert state.may_drain(first, anew)
    first.topic_id = anew
    assert not state.may_drain(fresh, anew), "nobody knows yet whether it was written there"
    state.on_acked(first, 0)
    assert not state.may_drain(fresh, anew), "one was sent to the topic before, and goes again"
    assert state.may_drain(second, anew)
    second.topic_id = anew
    assert state.may_drain(fresh, anew), "it follows what is known there"


def test_the_first_that_leaves_for_a_topic_made_anew_goes_alone():
    state, anew = heard(), b"anew" * 4
    first = batch()
    assert state.may_drain(first, anew)
    state.on_drained(first)
    first.topic_id, first.in_flight = anew, True
    assert not state.may_drain(batch(), anew)
    state.on_acked(first, 0)
    assert state.may_drain(batch(), anew)


def test_sequences_follow_each_other_by_partition():
    state = heard()
    assert [drained(state).base_sequence for _ in range(3)] == [1, 2, 3]
    assert drained(state, THERE).base_sequence == 0


def test_only_the_first_in_flight_may_be_sent_again():
    state = heard()
    first, second = drained(state), drained(state)
    assert state.may_drain(first)
    assert not state.may_drain(second)
    state.on_acked(first, 0)
    assert state.may_drain(second)


def test_nothing_new_leaves_while_the_fate_of_an_expired_batch_is_open():
    state = heard()
    expired, rest = drained(state), drained(state)
    state.on_expired_in_flight(expired)
    assert not state.may_drain(batch())
    assert state.may_drain(batch(THERE))
    state.resolve()
    assert not state.may_drain(batch()), "the rest is still out"
    state.on_failed(rest, 45, sequence_unused=False)
    assert state.resolve()
    assert state.epoch == 1
    assert drained(state).base_sequence == 0


def test_an_expired_batch_that_was_written_after_all_leaves_no_gap():
    state = with_id()
    expired = drained(state)
    state.on_expired_in_flight(expired)
    state.on_acked(expired, 0)
    assert not state.resolve()
    assert state.epoch == 0
    assert drained(state).base_sequence == 1


def test_after_a_bump_other_partitions_finish_their_old_epoch_first():
    state = with_id()
    failed, other = drained(state), drained(state, THERE)
    state.on_failed(failed, 87, sequence_unused=True)
    assert state.resolve()
    fresh = batch(THERE)
    assert not state.may_drain(fresh)
    state.on_acked(other, 0)
    assert state.may_drain(fresh)
    state.on_drained(fresh)
    assert (fresh.producer_epoch, fresh.base_sequence) == (1, 0)


def test_batches_that_wait_for_a_retry_begin_the_new_epoch_at_0():
    state = heard()
    failed, waiting = drained(state), drained(state)
    state.on_failed(failed, 87, sequence_unused=True)
    state.resolve()
    assert (waiting.producer_epoch, waiting.base_sequence, waiting.sequence_reset) == (1, 0, True)
    state.on_acked(waiting, 1)
    assert drained(state).base_sequence == 1


def test_sequences_go_round_after_2_to_the_31():
    """Sequences are 31 bits: 0 follows the last, and is after it, not before."""
    state = heard()
    state.partition(HERE).next_sequence = 2**31 - 2
    first, last, round_again = (drained(state) for _ in range(3))
    assert [each.base_sequence for each in (first, last, round_again)] == [2**31 - 2, 2**31 - 1, 0]
    state.partition(HERE).last_acked = 2**31 - 3
    state.on_acked(first, -1)
    state.on_acked(last, -1)
    # 0 is the next after 2**31 - 1: if even that is out of order, the broker has lost count, and the epoch goes up.
    assert state.can_retry(round_again, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert HERE in state._to_bump
    state.on_acked(round_again, -1)
    assert state.partition(HERE).last_acked == 0


def test_an_expired_batch_at_the_end_of_the_circle_is_followed_by_0():
    state = heard()
    state.partition(HERE).next_sequence = 2**31 - 1
    state.on_expired_in_flight(drained(state))
    assert state.partition(HERE).unresolved == 0


def test_what_is_open_is_settled_without_a_look_at_all_partitions(monkeypatch: pytest.MonkeyPatch):
    """A step of the sender asks each time: of ten thousand partitions it must not look at each."""

    class Asked(dict[TopicPartition, PartitionState]):
        def items(self) -> Any:
            raise AssertionError("all partitions are looked at")

        __iter__ = values = items

    state = with_id()
    monkeypatch.setattr(state, "_partitions", Asked())
    state.on_acked(drained(state), 0)
    expired, rest, other = drained(state), drained(state), drained(state, THERE)
    for gone in (expired, other):
        state.on_expired_in_flight(gone)
    assert state.resolve(), "nobody knows whether the other was written"
    assert not state.may_drain(batch())
    state.on_failed(rest, None, sequence_unused=False)
    assert state.resolve()
    assert state.may_drain(batch())
    assert not state.resolve(), "all is settled"

"""Acknowledgements leave in the order of arrival, and none for a connection that is gone; reconnecting backs off."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.mqtt.ledger import Ledger, Open
from barnabas.mqtt.reconnect import HELD_MS, LAST_MS, Reconnect

STEPS = st.lists(st.one_of(st.just("arrive"), st.just("connect"), st.integers(0, 40)), max_size=80)


@given(STEPS)
def test_what_leaves_is_a_settled_beginning_of_what_came_on_this_connection(steps: list[str | int]) -> None:
    ledger = Ledger()
    waiting: list[Open] = []
    came: list[int] = []  # on this connection
    left: list[int] = []
    settled: set[int] = set()
    number = acknowledged = late = 0
    for step in steps:
        if step == "arrive":
            number += 1
            came.append(number)
            waiting.append(ledger.arrived(number, number))
        elif step == "connect":
            assert ledger.renew() == len(came) - len(left)
            came, left, settled = [], [], set()
        elif waiting:
            one = waiting.pop(int(step) % len(waiting))
            mine = one.epoch == ledger.epoch
            late += not mine
            if mine:
                settled.add(one.mid)
            may = ledger.settle(one)
            leaving = ledger.leaving()
            assert may is bool(leaving)
            left += leaving
            acknowledged += len(leaving)
        assert left == came[: len(left)], "in the order they came in"
        assert set(left) <= settled, "none whose record is not there"
        assert len(left) == len(came) or came[len(left)] not in settled, "none waits without a reason"
        assert len(ledger) == len(came) - len(left)
    assert (ledger.arrived_count, ledger.acknowledged, ledger.late) == (number, acknowledged, late)


def test_a_number_given_again_after_a_reconnect_is_another_message() -> None:
    ledger = Ledger()
    before = ledger.arrived(7, 10)
    assert ledger.oldest_ms(25) == 15
    ledger.renew()
    again = ledger.arrived(7, 30)
    assert not ledger.settle(before)
    assert ledger.leaving() == []
    assert ledger.settle(again)
    assert ledger.leaving() == [7]
    assert (ledger.late, ledger.oldest_ms(99)) == (1, 0)


def test_a_message_is_settled_once() -> None:
    ledger = Ledger()
    one = ledger.arrived(1, 0)
    ledger.settle(one)
    with pytest.raises(AssertionError, match="settled twice"):
        ledger.settle(one)


def test_waits_grow_and_begin_anew_once_a_connection_held() -> None:
    policy = Reconnect(lambda: 0.5)
    waits = [policy.lost(0) for _ in range(9)]
    assert waits == [100, 200, 400, 800, 1600, 3200, 6400, LAST_MS, LAST_MS]
    policy.connected(1000)
    assert policy.lost(1000 + HELD_MS - 1) == LAST_MS, "it held for no time to speak of"
    policy.connected(1000)
    assert policy.lost(1000 + HELD_MS) == 100

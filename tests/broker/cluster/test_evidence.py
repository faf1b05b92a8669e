"""Closed connections and refusals: the table of `evidence`, line by line, and by chance."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.cluster.evidence import AGAIN_MS, Doubt, Evidence


class World:
    """Brokers at whose doors the controller knocks; nobody answers before the test says so."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.knocks: list[tuple[int, Callable[[bool], None]]] = []
        self.gone: list[tuple[int, int]] = []
        self.evidence = Evidence(
            lambda broker_id, done: self.knocks.append((broker_id, done)), self._gone, lambda then: then(self.now_ms)
        )

    def _gone(self, broker_id: int, doubt: Doubt, now_ms: int) -> None:
        assert self.evidence.holds(broker_id, doubt)
        self.gone.append((broker_id, now_ms))

    def answer(self, refused: bool) -> int:
        """The oldest knock is answered; who was knocked for."""
        broker_id, done = self.knocks.pop(0)
        done(refused)
        return broker_id

    def advance(self, ms: int = AGAIN_MS) -> None:
        self.now_ms += ms
        self.evidence.tick(self.now_ms)


@pytest.fixture
def world() -> World:
    return World()


def test_a_closed_connection_and_two_refusals_100_ms_apart(world: World) -> None:
    world.evidence.closed(2, 7)
    assert world.answer(True) == 2
    assert (world.gone, world.knocks, world.evidence.next_deadline_ms()) == ([], [], AGAIN_MS)
    assert AGAIN_MS >= 100, "a broker that is started anew has so long"
    world.advance(AGAIN_MS - 1)
    assert not world.knocks
    world.advance(1)
    assert world.answer(True) == 2
    assert world.gone == [(2, AGAIN_MS)]


@pytest.mark.parametrize("refusals", [0, 1])
def test_who_accepts_or_is_silent_waits_for_its_session(world: World, refusals: int) -> None:
    world.evidence.closed(2, 7)
    for _ in range(refusals):
        world.answer(True)
        world.advance()
    world.answer(False)
    world.advance(60_000)
    assert (world.gone, world.knocks, world.evidence.next_deadline_ms()) == ([], [], None)


def test_connections_that_close_one_after_the_other_are_one_doubt(world: World) -> None:
    for _ in range(5):
        world.evidence.closed(2, 7)
    assert len(world.knocks) == 1
    world.answer(True)
    world.advance()
    world.answer(True)
    assert len(world.gone) == 1


def test_an_accept_from_before_the_last_connection_closed_says_nothing(world: World) -> None:
    world.evidence.closed(2, 7)
    world.evidence.closed(2, 7)
    world.answer(False)
    for _ in range(2):
        assert not world.gone
        world.advance()
        world.answer(True)
    assert len(world.gone) == 1


def test_the_two_refusals_follow_each_other(world: World) -> None:
    world.evidence.closed(2, 7)
    world.answer(True)
    world.evidence.closed(2, 7)
    world.advance()
    world.answer(False)
    world.advance()
    world.answer(True)
    assert not world.gone
    world.advance()
    world.answer(True)
    assert len(world.gone) == 1


@pytest.mark.parametrize("refusals", [0, 1])
def test_a_sign_of_life_ends_the_doubt_and_what_was_under_way(world: World, refusals: int) -> None:
    world.evidence.closed(2, 7)
    for _ in range(refusals):
        world.answer(True)
        world.advance()
    world.evidence.alive(2)
    world.answer(True)
    world.advance()
    assert (world.gone, world.knocks) == ([], [])


def test_a_refusal_of_an_earlier_life_does_not_count_for_the_next(world: World) -> None:
    world.evidence.closed(2, 7)
    world.answer(True)
    world.evidence.closed(2, 8)
    assert world.answer(True) == 2
    assert not world.gone
    world.advance()
    world.answer(True)
    assert len(world.gone) == 1


def test_a_fence_that_could_not_be_written_is_worth_another_knock(world: World) -> None:
    world.evidence.closed(2, 7)
    world.answer(True)
    world.advance()
    world.answer(True)
    world.evidence.again(2, world.now_ms + 1000)
    world.evidence.again(3, world.now_ms + 1000)  # nothing is known of it
    world.advance(999)
    assert not world.knocks
    world.advance(1)
    world.answer(True)
    assert [one for one, _ in world.gone] == [2, 2]


def test_many_brokers_have_a_doubt_each(world: World) -> None:
    for broker in range(100):
        world.evidence.closed(broker, 1)
    for broker in range(100):
        world.answer(broker % 2 == 0)
    world.advance()
    for _ in range(50):
        world.answer(True)
    assert [one for one, _ in world.gone] == list(range(0, 100, 2))
    assert not world.knocks


@given(st.lists(st.sampled_from(["closed", "alive", "refused", "other", "wait", "short"]), max_size=60))
def test_nobody_is_gone_without_two_refusals_in_a_row_100_ms_apart_and_no_sign_of_life(events: list[str]) -> None:
    world = World()
    refusals: list[int] = []
    for event in events:
        if event == "closed":
            world.evidence.closed(2, 1)
        elif event == "alive":
            world.evidence.alive(2)
            refusals, world.knocks = [], []  # what is under way then is the earlier test's
        elif event in ("refused", "other") and world.knocks:
            refusals = [*refusals, world.now_ms] if event == "refused" else []
            world.answer(event == "refused")
        else:
            world.advance(AGAIN_MS if event == "wait" else 30)
        assert len(world.knocks) <= 1
        if world.gone:
            assert len(refusals) >= 2
            assert refusals[-1] - refusals[-2] >= AGAIN_MS
            return

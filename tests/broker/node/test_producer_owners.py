"""Whoever floods a partition with producer ids that nobody gave out forgets its own, and nobody else's."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.context import Connection
from barnabas.broker.log import producer_state
from barnabas.broker.log.apart import RECORDS_AT_ONCE
from barnabas.broker.log.producer_owners import Limits, owner_of
from barnabas.broker.log.producer_state import ProducerBatch, ProducerRoom, ProducerState
from barnabas.protocol.ids import TopicPartition
from tests.broker.node.world import Answer, World, batch

PLACES = 40
PER_CONNECTION = 5
HONEST = 7
MADE_UP = 10**12


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "PRODUCERS_MAX", PLACES)
    monkeypatch.setattr(producer_state, "CONNECTION_MAX", PER_CONNECTION)


def connection(number: int, address: str = "10.0.0.1") -> Connection:
    return Connection(number, "PLAINTEXT", address, "kafka", 0)


def offset_of(answer: Answer) -> int:
    part = answer.response.responses[0].partition_responses[0]
    assert part.error_code == 0, (part.error_code, part.error_message)
    return int(part.base_offset)


class Stage:
    """A broker to which producers write, in one of three ways: flat, as any request, and behind a batch that takes
    its time (so that all wait in line, whoever sent them)."""

    def __init__(self, way: str) -> None:
        self.late = way == "late"
        self.world = World(flat=way == "flat")
        self.world.create("t", cleanup_policy="compact")

    def flood(self, attackers: list[tuple[Connection, str]], count: int) -> list[Answer]:
        """Producers that send one batch each, in turn over each of the connections."""
        if self.late:
            keys: list[bytes | None] = [b"k"] * (RECORDS_AT_ONCE * 2)
            self.world.produce({("t", 0): batch(*[b"v"] * len(keys), keys=keys, at_ms=self.world.wall_ms)})
        answers = []
        for number in range(count):
            over, name = attackers[number % len(attackers)]
            answers.append(self.send(MADE_UP + number, over, name))
        return answers

    def send(self, producer_id: int, over: Connection, client_id: str) -> Answer:
        records = batch(b"v", keys=[b"k"], pid=producer_id, epoch=0, sequence=0, at_ms=self.world.wall_ms)
        return self.world.produce({("t", 0): records}, connection=over, client_id=client_id)

    def known(self) -> dict[int, Any]:
        return self.world.core.logs.logs[TopicPartition("t", 0)].producers.producers


ATTACKERS = {
    "a connection": ([(connection(9), "honest")], PER_CONNECTION),
    "a client id": ([(connection(number), "bad") for number in range(10, 40)], PLACES // 2),
    "an address": ([(connection(n, "10.0.0.2"), f"bad-{n}") for n in range(10, 40)], PLACES * 9 // 10),
}


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("way", ["flat", "common", "late"])
@pytest.mark.parametrize("by", ATTACKERS)
def test_a_flood_forgets_its_own_producers_alone(way: str, by: str) -> None:
    """Another's retry was written twice: its one batch was older than the flood's."""
    attackers, share = ATTACKERS[by]
    stage = Stage(way)
    first = stage.send(HONEST, connection(1), "honest")
    stage.world.settle()
    answers = stage.flood(attackers, 5 * PLACES)
    assert answers[-1].done is not stage.late
    stage.world.settle()
    assert [offset_of(answer) for answer in answers], "all are taken"
    again = stage.send(HONEST, connection(2), "honest")
    stage.world.settle()
    assert offset_of(again) == offset_of(first)
    known = stage.known()
    assert len(known) <= share + 1
    assert MADE_UP + 5 * PLACES - 1 in known, "the newest stays"


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("way", ["flat", "common", "late"])
def test_each_producer_counts_for_who_sent_it(way: str) -> None:
    stage = Stage(way)
    senders = [(connection(1), "a"), (connection(2, "10.0.0.2"), "b" * 32_000)]
    stage.flood(senders, 4)
    stage.world.settle()
    one, other = (known.owner for known in list(stage.known().values())[:2])
    assert [stage.known()[MADE_UP + number].owner for number in range(4)] == [one, other] * 2
    assert one == owner_of((1, "10.0.0.1", "a"))
    assert other == owner_of((2, "10.0.0.2", "b" * 32_000))
    assert len(repr(other)) < 100, "a long name is not kept"


def test_the_groups_of_who_asks_are_told_apart() -> None:
    askers = [(0, "a", None), (1, "a", "x"), (2, "a", "x\ud800"), (3, "b", "x"), (4, "bx", "")]
    owners = [owner_of(asker) for asker in askers]
    assert [(one.connection, one.address) for one in owners] == [asker[:2] for asker in askers]
    assert len({one.client for one in owners}) == 5
    assert all(one.client < 0 for one in owners)
    assert owner_of((9, "a", "x")).client == owners[1].client


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("clean", [True, False])
def test_after_a_start_nobody_is_known_as_an_owner_and_a_flood_still_forgets_its_own(clean: bool) -> None:
    stage = Stage("flat")
    first = stage.send(HONEST, connection(1), "honest")
    stage.world.settle()
    stage.world.restart(clean=clean)
    assert stage.known()[HONEST].owner is None
    stage.flood(*ATTACKERS["an address"][:1], count=5 * PLACES)
    stage.world.settle()
    assert offset_of(stage.send(HONEST, connection(2), "honest")) == offset_of(first)


def learn(state: ProducerState, producer_id: int, asker: tuple[int, str, str | None] | None) -> None:
    state.update(producer_id, 0, ProducerBatch(0, 0, producer_id, 0, 0), 0, asker)


@pytest.mark.parametrize(("one", "other"), [("127.0.0.1", "127.9.8.7"), ("2001:db8::1", "2001:db8::2")])
def test_the_addresses_of_one_machine_are_one(one: str, other: str) -> None:
    """Each of 127.0.0.0/8, or of an IPv6 network, had a share of its own."""
    assert owner_of((1, one, "a")) == owner_of((1, other, "a"))


def test_two_thousand_producers_behind_one_gateway_are_all_remembered() -> None:
    """With one client id, too."""
    state = ProducerState()
    state.enter(ProducerRoom())
    for number in range(2000):
        learn(state, number, (number, "172.17.0.1", "producer-1"))
    assert len(state.producers) == 2000


def test_one_producer_of_ten_thousand_partitions_is_remembered_in_each() -> None:
    room = ProducerRoom()
    states = [ProducerState() for _ in range(10_000)]
    for state in states:
        state.enter(room)
        learn(state, 7, (1, "10.0.0.1", "spark"))
    assert all(7 in state.producers for state in states)
    for state in states:
        state.leave()
    assert room.count == 0
    assert not room.shares.spent(owner_of((1, "10.0.0.1", "spark")), Limits(1, 1, 1)), "all is given back"


@pytest.mark.parametrize(
    ("askers", "share"),
    [
        ([(1, "a", "x")], 10),
        ([(number, "a", "x") for number in range(50)], 30),
        ([(number, "a", f"x{number}") for number in range(50)], 54),
    ],
    ids=["connection", "client id", "address"],
)
def test_over_all_partitions_a_flood_has_its_share_and_one_in_each(
    monkeypatch: pytest.MonkeyPatch, askers: list[tuple[int, str, str | None]], share: int
) -> None:
    monkeypatch.setattr(producer_state, "PRODUCERS_OF_ALL_MAX", 60)
    monkeypatch.setattr(producer_state, "CONNECTION_OF_ALL_MAX", 10)
    room = ProducerRoom()
    states = [ProducerState() for _ in range(12)]
    for number, state in enumerate(states):
        state.enter(room)
        learn(state, HONEST, (99, "b", None) if number % 2 else None)
    for number in range(600):
        for state in states:
            learn(state, MADE_UP + number, askers[number % len(askers)])
    assert all(HONEST in state.producers for state in states)
    assert room.count == sum(len(state.producers) for state in states)
    assert room.count - len(states) <= share + len(states)


def test_who_has_its_share_of_all_takes_nobodys_place_where_it_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_state, "PRODUCERS_OF_ALL_MAX", 20)
    monkeypatch.setattr(producer_state, "CONNECTION_OF_ALL_MAX", 10)
    room, here, elsewhere = ProducerRoom(), ProducerState(), ProducerState()
    here.enter(room)
    elsewhere.enter(room)
    for number in range(10):
        learn(elsewhere, MADE_UP + number, (1, "a", None))
        learn(here, HONEST + number, (2 + number, "b", None))
    assert room.count == 20, "all places are taken"
    learn(here, 1, (1, "a", None))
    assert set(here.producers) == {1, *range(HONEST, HONEST + 10)}


@pytest.mark.usefixtures("few")
def test_when_all_places_are_taken_the_address_that_has_most_makes_room() -> None:
    state = ProducerState()
    learn(state, HONEST, (0, "c", None))
    for number in range(30):
        learn(state, 100 + number, (number, "a", str(number)))
    for number in range(PLACES - 31):
        learn(state, 200 + number, (number, "b", str(number)))
    learn(state, 1, (99, "d", None))
    assert HONEST in state.producers
    assert {*range(100, 103)} & set(state.producers) == set(), "a tenth of its thirty"
    assert len(state.producers) == PLACES - 2
    for number in range(3):
        learn(state, 300 + number, (50 + number, "b", "x"))
    assert 200 not in state.producers, "who has a tenth itself makes room itself"
    assert 103 in state.producers

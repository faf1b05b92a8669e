"""How many connections, and how fast: honest crowds get in, floods do not."""

from __future__ import annotations

import re

import pytest

from barnabas.broker.config import BrokerConfig
from barnabas.broker.host.admission import Admission


def test_two_thousand_clients_of_one_address_get_in_at_once_with_the_defaults() -> None:
    admission = Admission(BrokerConfig(), 100_000)
    connections = 2 * 2000  # most clients open one to bootstrap, and one to the broker they are told of
    assert [admission.admit("172.17.0.1", 0) for _ in range(connections)] == [None] * connections


def test_a_flood_of_one_address_is_refused_and_others_get_in() -> None:
    admission = Admission(BrokerConfig(), 1_000_000)
    answers = []
    for _ in range(10_000):
        answers.append(admission.admit("10.0.0.1", 0))
        if answers[-1] is None:
            admission.leave("10.0.0.1")
    assert answers.count(None) == 5000
    assert answers[-1] == ("it opened more than 500 connections a second; max.connection.creation.rate allows no more")
    assert admission.admit("10.0.0.2", 0) is None
    assert admission.admit("10.0.0.1", 1) is not None
    assert admission.admit("10.0.0.1", 2) is None, "tokens come back at 500 a second"


def test_all_addresses_together_are_bounded_too() -> None:
    admission = Admission(BrokerConfig(max_connections=1_000_000), 1_000_000)
    answers = [admission.admit(f"10.0.{number // 100}.{number % 100}", 0) for number in range(11_000)]
    assert answers.count(None) == 10_000
    assert "more than 1000 connections a second were opened" in str(answers[-1])


@pytest.mark.parametrize(
    ("allowed", "sockets_max", "why"),
    [
        (20, 100, "20 connections are open; max.connections allows no more"),
        (100, 20, r"20 .*\(raise the limit: ulimit -n\)"),
    ],
)
def test_no_more_are_open_than_may_be_and_who_leaves_makes_room(allowed: int, sockets_max: int, why: str) -> None:
    admission = Admission(BrokerConfig(max_connections=allowed), sockets_max)
    answers = [admission.admit(f"10.0.0.{number}", 0) for number in range(21)]
    assert answers[:20] == [None] * 20
    assert re.search(why, str(answers[20]))
    assert (admission.open, admission.refused) == (20, 1)
    admission.leave("10.0.0.7")
    assert admission.admit("10.0.0.99", 0) is None


@pytest.mark.parametrize(("sockets_max", "most"), [(1_000_000, 1000), (4000, 1000), (3996, 999), (3, 1), (0, 1)])
def test_the_administrator_has_a_quarter_of_the_sockets_and_one_at_least(sockets_max: int, most: int) -> None:
    assert Admission(BrokerConfig(), sockets_max).locals_max == most


@pytest.mark.parametrize(("sockets_max", "most"), [(1_000_000, 100), (20, 10), (1, 1)])
def test_strangers_among_brokers_have_half_of_the_sockets_and_the_longest_goes(sockets_max: int, most: int) -> None:
    admission = Admission(BrokerConfig(), sockets_max)
    assert [admission.admit_stranger(number) for number in range(most)] == [None] * most
    assert admission.admit_stranger(most) == 0
    assert admission.strangers == most
    admission.leave_stranger(1 if most > 1 else most)
    assert admission.admit_stranger(most + 1) is None
    assert admission.admit_stranger(most + 2) == (2 if most > 1 else most + 1)


def test_a_changed_rate_is_in_force_at_once() -> None:
    config = BrokerConfig(max_connection_creation_rate=1)
    admission = Admission(config, 100)
    assert [admission.admit("a", 0) is None for _ in range(12)].count(True) == 10
    config.max_connection_creation_rate = 100
    assert admission.admit("a", 0) is None


def test_addresses_are_remembered_in_a_bounded_table() -> None:
    admission = Admission(BrokerConfig(max_connection_creation_rate=1_000_000), 10_000_000)
    for number in range(20_000):
        admission.admit(str(number), 0)
        admission.leave(str(number))
    assert len(admission._buckets) <= 4096
    assert not admission._by_address


@pytest.mark.parametrize("address", ["127.{}.3.4", "2001:db8::{}", "fe80::{}%eth0"])
def test_whoever_has_one_address_has_no_more_by_having_others(address: str) -> None:
    admission = Admission(BrokerConfig(max_connections_per_ip=10), 100)
    admitted = [admission.admit(address.format(number), 0) is None for number in range(12)]
    assert admitted.count(True) == 10
    admission.leave(address.format(50))
    assert admission.admit(address.format(60), 0) is None
    for other in ("10.0.0.1", "2001:db8:0:1::1", "::1", "local"):
        assert admission.admit(other, 0) is None

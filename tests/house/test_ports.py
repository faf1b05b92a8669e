"""Ports for brokers that must be told theirs before they start."""

from __future__ import annotations

from pathlib import Path

from tests.oracle.kafka import PORTS, free_port


def test_no_port_is_given_twice_before_it_is_listened_on() -> None:
    given = [free_port() for _ in range(50)]
    assert len(set(given)) == len(given)


def test_the_system_gives_none_of_them_to_others() -> None:
    """Of 39000 to 39900, Linux gave any to a connection, or to who asks for port 0, before a broker listened there."""
    said = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(said.read_text().split()[0]) if said.exists() else 32768
    assert first <= 1024 or PORTS.stop <= first, "a system that gives every port has none for us alone"

"""The raw members of the benchmarks play a group to its end, and say what went wrong."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.benchmarks import group_load, load, servers
from tests.benchmarks.rows_groups import PROTOCOLS
from tests.benchmarks.servers import Server

MEMBERS = 5
PARTITIONS = 12


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    at_once = ("group.initial.rebalance.delay.ms=0", "group.consumer.assignment.interval.ms=0")
    with servers.barnabas(*(word for setting in at_once for word in ("--set", setting))) as running:
        load.create_topic(running, "shared", PARTITIONS)
        yield running


def test_the_first_member_finds_a_coordinator_and_has_its_assignment(server: Server) -> None:
    found = group_load.first(server, "first", "shared", retry_ms=10)
    assert 0 < found.found < found.elapsed
    assert found.asked >= 1
    assert found.cpu > 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_joins_and_shares_again_what_one_had_that_left(server: Server, protocol: str) -> None:
    """That every partition has one owner at both ends, the generator itself looks at."""
    played = group_load.cycles(server, protocol, f"cycle-{protocol}", "shared", PARTITIONS, MEMBERS, 2)
    assert len(played) == 2
    found = group_load.medians(played)
    assert found.generations >= 1
    for phase in (found.join, found.leave):
        assert 0 < phase.net <= phase.all
        assert phase.own > 0
    # The system tells a process' time when it gives up its processor: a phase of a millisecond can look like none.
    assert found.join.cpu + found.leave.cpu > 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_heartbeats_are_counted(server: Server, protocol: str) -> None:
    found = group_load.beats(server, protocol, f"beats-{protocol}", "shared", PARTITIONS, MEMBERS, 0.1)
    assert found.per_s > 0
    assert 0 < found.p50_us <= found.p99_us
    assert found.server_cpu_us > 0


def test_a_failure_is_said(server: Server) -> None:
    with socket.socket() as bound:  # nobody listens
        bound.bind(("127.0.0.1", 0))
        nobody = Server("nobody", server.pid, bound.getsockname()[1])
        with pytest.raises(group_load.Refused, match="nobody: connect: Connection refused"):
            group_load.cycles(nobody, "classic", "refused", "shared", PARTITIONS, 2, 1)


def test_a_cycle_of_one_member_is_refused(server: Server) -> None:
    """When it leaves nobody is there to settle: it was waited for until the generator's patience ended."""
    with pytest.raises(group_load.Refused, match="a cycle takes 2 members or more"):
        group_load.cycles(server, "classic", "alone", "shared", PARTITIONS, 1, 1)


def test_commits_that_are_refused_are_no_figure(server: Server) -> None:
    assert load.commits(server, "commits", "shared", 1, 1, 0.05).count > 0
    with pytest.raises(RuntimeError, match="refuses a commit with error 3"):
        load.commits(server, "commits", "nowhere", 1, 1, 0.05)

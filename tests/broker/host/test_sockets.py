from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from barnabas.broker.config import BrokerConfig, ConfigError, Endpoint
from barnabas.broker.host.host import Host
from barnabas.broker.host.sockets import BindError, Listening, listen
from barnabas.broker.metrics import MetricsRegistry
from barnabas.net.host.keepalive import IDLE_S
from tests.broker.host.fake_core import FakeCore


def addresses(listening: list[Listening]) -> list[tuple[str, int]]:
    return [one.getsockname()[:2] for each in listening for one in each.sockets]


def has_ipv6_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_loopback_is_served_on_both_families_on_one_free_port(host: str) -> None:
    listening = listen([Endpoint("PLAINTEXT", host, 0)], 10)
    port = listening[0].endpoint.port
    try:
        assert port > 0
        expected = [("127.0.0.1", port)] + ([("::1", port)] if has_ipv6_loopback() else [])
        assert addresses(listening) == expected
        assert listening[0].endpoint.host == host
    finally:
        listening[0].close()


def test_tcp_asks_a_client_that_says_nothing_whether_it_is_there() -> None:
    listening = listen([Endpoint("PLAINTEXT", "127.0.0.1", 0)], 10)[0]
    try:
        with socket.create_connection(listening.sockets[0].getsockname()):
            listening.sockets[0].setblocking(True)
            accepted, _ = listening.sockets[0].accept()
            with accepted:
                assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                if sys.platform == "linux":
                    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == IDLE_S
    finally:
        listening.close()


def test_a_port_in_use_is_one_sentence_and_leaves_nothing_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BindError, match=rf"127\.0\.0\.1:{port} is in use by another program; .*--port 0"):
            listen([Endpoint("A", "127.0.0.1", 0), Endpoint("B", "127.0.0.1", port)], 10)


@pytest.mark.skipif(not has_ipv6_loopback(), reason="this machine has no ::1")
def test_a_port_that_only_the_second_family_has_taken_is_in_use() -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as taken:
        taken.bind(("::1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        with pytest.raises(BindError, match=rf"\[::1\]:{port} is in use"):
            listen([Endpoint("PLAINTEXT", "127.0.0.1", port)], 10)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(BindError, match=r"192\.0\.2\.1:9 is no address of this machine"):
        listen([Endpoint("PLAINTEXT", "192.0.2.1", 9)], 10)


def test_a_protocol_that_is_not_served_is_refused() -> None:
    with pytest.raises(ConfigError, match="listener SAFE asks for SSL, which this release does not serve"):
        listen([Endpoint("SAFE", "127.0.0.1", 0, "SSL")], 10)


def test_a_burst_of_connections_waits_for_no_second_try() -> None:
    """The system drops the first packet of one that finds no room in the queue, and it is sent again a second later."""
    somaxconn = Path("/proc/sys/net/core/somaxconn")
    burst = min(1000, int(somaxconn.read_text()) if somaxconn.exists() else 128)
    listening = listen([Endpoint("PLAINTEXT", "127.0.0.1", 0)], BrokerConfig().socket_listen_backlog_size)
    with ExitStack() as opened:
        opened.callback(listening[0].close)
        for _ in range(burst):  # nobody accepts: who finds no room is let in by no later try either
            opened.enter_context(socket.create_connection(("127.0.0.1", listening[0].endpoint.port), timeout=30))


CROWD = 64
ROUNDS_MAX = 12
"""Four for the crowd, some more for who comes in to be made a connection."""


async def _rounds(port: int, host: Host) -> int:
    """How often the loop looks at its sockets until a crowd that connected at once has come in."""
    rounds = 0
    with ExitStack() as stack:
        for _ in range(CROWD):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))  # it waits in the system's queue
        while len(host.channels) < CROWD:
            await asyncio.sleep(0)
            rounds += 1
    return rounds


def test_many_come_in_between_two_looks_at_the_sockets() -> None:
    """One did, and each look took 5 ms of others' work: who came behind 300 waited for a second."""
    uvloop = pytest.importorskip("uvloop")

    async def crowd() -> int:
        listening = listen([Endpoint("PLAINTEXT", "127.0.0.1", 0)], CROWD)
        host = Host(cast("Any", FakeCore()), BrokerConfig(), MetricsRegistry())
        await host.start(listening)
        try:
            return await _rounds(listening[0].endpoint.port, host)
        finally:
            await host.stop()
            listening[0].close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(crowd()) <= ROUNDS_MAX

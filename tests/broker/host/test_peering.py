"""The ways to other brokers on the loop: which address of a name is tried, and what a knock at all of them says."""

from __future__ import annotations

import asyncio
import select
import socket
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.broker.config import BrokerConfig
from barnabas.broker.host import peering
from barnabas.broker.host.peering import Line, Peering
from barnabas.broker.ports import Lane
from barnabas.net.host.transport import Transport
from tests.broker.host.fake_core import until

DEAD, ALIVE = "192.0.2.1", "192.0.2.2"


class Loop:
    """Connects to one address alone, and remembers who was asked for."""

    def __init__(self) -> None:
        self.tried: list[str] = []

    async def create_connection(self, factory: Any, host: str, _port: int) -> None:
        self.tried.append(host)
        if host == DEAD:
            raise ConnectionRefusedError
        factory().connection_made(SimpleNamespace(write=lambda _: None, abort=lambda: None, writelines=lambda _: None))


async def test_each_attempt_tries_the_next_address_of_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(*_asked: Any) -> list[str]:
        return [DEAD, ALIVE]

    monkeypatch.setattr(peering, "resolve", resolve)
    loop = Loop()
    others = SimpleNamespace(
        host=SimpleNamespace(loop=loop, now_ms=lambda: 0, complete=lambda work: work()),
        timeout_ms=lambda _lane: 1000,
        introduce=lambda _broker: None,
        is_fenced=lambda _broker: False,
        address_of=lambda _broker: ("name", 9093),
    )
    line = Line(cast("Peering", others), 2, Lane.RECORDS)
    opened: list[str] = []
    line.way.opened = lambda _now_ms: opened.append(loop.tried[-1])  # type: ignore[method-assign, assignment]
    for _ in range(4):
        line._transport = transport = Transport(2, line, -1, -1)
        monkeypatch.setattr(transport, "connection_made", lambda _made, one=transport: line.transport_open(one))
        await line._open(transport)
    assert loop.tried == [DEAD, ALIVE, ALIVE, ALIVE]
    assert opened == [ALIVE, ALIVE, ALIVE]
    line.close()


@pytest.mark.parametrize(
    ("addresses", "refused"),
    [
        ([DEAD], True),
        ([DEAD, DEAD], True),
        ([ALIVE], False),
        ([DEAD, ALIVE], False),
        ([], False),
        (["192.0.2.3"], False),  # no way there: that is no refusal
    ],
)
async def test_a_knock_is_refused_where_every_address_behind_a_name_refuses(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str], refused: bool
) -> None:
    async def resolve(*_asked: Any) -> list[str]:
        return addresses

    async def connect(factory: Any, host: str, _port: int) -> tuple[Any, Any]:
        if host == DEAD:
            raise ConnectionRefusedError
        if host != ALIVE:
            raise OSError("no route to host")
        return SimpleNamespace(abort=lambda: None), factory()

    monkeypatch.setattr(peering, "resolve", resolve)
    running = asyncio.get_running_loop()
    config = BrokerConfig(node_id=1, controller_quorum_voters=("1@here:9093",))
    others = Peering(config, "BROKERS", b"s" * 16, cast("Any", None))
    image = SimpleNamespace(brokers={2: SimpleNamespace(endpoint=lambda _listener: ("name", 9093))})
    loop = SimpleNamespace(create_connection=connect, create_task=running.create_task)
    others.host = cast(
        "Any", SimpleNamespace(loop=loop, core=SimpleNamespace(image=image), complete=lambda work: work())
    )
    told: asyncio.Future[bool] = running.create_future()
    others.knock(2, told.set_result)
    assert await told is refused
    others.close()


async def test_a_knock_that_is_let_in_by_a_process_that_ends_is_refused() -> None:
    """It had closed its connections and listened still: nobody fenced it before its session was over."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        knock = asyncio.ensure_future(peering._all_refuse(asyncio.get_running_loop(), "127.0.0.1", port))
        await until(lambda: bool(select.select([listening], [], [], 0)[0]))
    assert await knock


async def test_a_knock_that_is_hung_up_on_again_is_none() -> None:
    """Somebody listens there: one whose connections are all taken, say."""
    came: list[int] = []

    def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(1)
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert not await peering._all_refuse(asyncio.get_running_loop(), "127.0.0.1", port)
        assert len(came) == 2


async def test_a_knock_that_is_let_in_and_nothing_more_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A paused process."""
    monkeypatch.setattr(peering, "_HELD_MS", 10)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert not await peering._all_refuse(asyncio.get_running_loop(), "127.0.0.1", port)

"""The ways to other brokers on the loop: which address of a name is tried, and what a knock at all of them says."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import barnabas.aio
from barnabas import NewTopic
from barnabas.broker.config import BrokerConfig
from barnabas.broker.host import peering
from barnabas.broker.host.peering import Line, Peering
from barnabas.broker.ports import Lane
from barnabas.explain.stage import CountingEntropy
from barnabas.net.host.transport import Transport
from barnabas.protocol.requests.fetch import FetchRequest
from tests.broker.host.fake_core import until
from tests.broker.host.test_peer_channel import port_between
from tests.broker.node.cluster import CLUSTER_ID

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


async def test_a_connection_to_where_a_broker_does_not_listen_any_more_is_not_used() -> None:
    """Another process with its id was there still, and was followed in its place."""
    loop, came = asyncio.get_running_loop(), [0, 0]

    def door(number: int) -> asyncio.Protocol:
        came[number] += 1
        return asyncio.Protocol()

    servers = [await loop.create_server(lambda number=number: door(number), "127.0.0.1", 0) for number in (0, 1)]  # type: ignore[misc]
    told = [server.sockets[0].getsockname()[:2] for server in servers]
    broker = SimpleNamespace(endpoint=lambda _listener: told[0], fenced=False)
    core = SimpleNamespace(
        image=SimpleNamespace(brokers={2: broker}),
        services=SimpleNamespace(cluster_id=CLUSTER_ID),
        config=SimpleNamespace(node_id=1),
    )
    others = Peering(BrokerConfig(node_id=1), "BROKERS", b"secret", CountingEntropy())
    host = SimpleNamespace(core=core, loop=loop, now_ms=lambda: int(loop.time() * 1000), complete=lambda work: work())
    others.host = cast("Any", host)
    answers: list[Any] = []
    others.send(2, FetchRequest(), answers.append)
    await until(lambda: came == [1, 0])
    others.send(2, FetchRequest(), answers.append)
    broker.endpoint = lambda _listener: told[1]
    others.send(2, FetchRequest(), answers.append)
    await until(lambda: came == [1, 1])
    assert answers == [None, None], "who had asked there is told that no answer comes"
    others.close()
    for server in servers:
        server.close()
        await server.wait_closed()


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


class Door:
    """An address in front of a listener, as a router's or a container's: what comes there is handed on."""

    def __init__(self) -> None:
        self.to = 0
        self.came = 0
        self._ways: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Door:
        self._server = await asyncio.start_server(self._let_in, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for way in self._ways:
            way.close()
        await self._server.wait_closed()

    async def _let_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came += 1
        inner_reader, inner = await asyncio.open_connection("127.0.0.1", self.to)
        self._ways += [writer, inner]
        await asyncio.gather(_hand_on(reader, inner), _hand_on(inner_reader, writer))


async def _hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
    writer.close()


async def test_brokers_are_reached_where_they_say_and_not_where_they_listen(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"known to brokers alone")
    secret.chmod(0o600)
    shared = {
        "listeners": "PLAINTEXT://127.0.0.1:0,BROKERS://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
        "barnabas.cluster.secret.file": str(secret),
        "barnabas.cluster.id": CLUSTER_ID,
        "min.insync.replicas": "2",
    }
    async with Door() as door, barnabas.aio.Broker({**shared, "controller.quorum.voters": "1@127.0.0.1:1"}) as one:
        at = port_between(one._assembly)
        second = {
            **shared,
            "node.id": "2",
            "controller.quorum.voters": f"1@127.0.0.1:{at}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:0,BROKERS://127.0.0.1:{door.port}",
        }
        async with barnabas.aio.Broker(second) as two, barnabas.aio.Admin(one.bootstrap_servers) as admin:
            door.to = port_between(two._assembly)
            assert door.to != door.port
            assert door.came == 0, "it has asked others, and nobody has asked it"
            await admin.create_topics(NewTopic("t", partitions=2, replication_factor=2))
            async with barnabas.aio.Producer(one.bootstrap_servers, acks="all") as producer:
                for partition in (0, 1):  # each of the two leads one of them
                    await (await producer.send("t", b"x", partition=partition))
            assert door.came >= 1, "1 follows 2 by the address that 2 has told"
            image = one._assembly.host.core.image
            assert image.brokers[2].endpoint("BROKERS") == ("127.0.0.1", door.port)

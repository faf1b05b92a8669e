"""The shell of the network core: what comes of sockets that are replaced, names that are wrong, and its own end."""

from __future__ import annotations

import asyncio
import re
import socket
from typing import Any
from unittest.mock import Mock

import pytest

from barnabas.net.config import ClientConfig
from barnabas.net.errors import ClientClosed
from barnabas.net.host.addresses import resolve, words_of
from barnabas.net.host.connection import Client
from barnabas.net.host.transport import Transport
from barnabas.net.network import Connect

WAIT = 60


@pytest.fixture
async def client() -> Any:
    """One that does nothing of its own accord; its core only takes note."""
    client: Any = Client(ClientConfig.of(bootstrap_servers="127.0.0.1:1"))
    client._loop = asyncio.get_running_loop()
    client.network = Mock()
    client.pump = Mock()
    return client


@pytest.mark.parametrize(
    ("call", "heard"), [("frame", "on_received"), ("written", "on_written"), ("lost", "on_disconnected")]
)
async def test_a_socket_that_was_replaced_says_nothing_any_more(client: Any, call: str, heard: str) -> None:
    """What comes late of the last connection would be taken for an answer, or for the end, of this one."""
    old, new = (Transport(1, client, -1, -1) for _ in range(2))
    client._transports[1] = new
    more: tuple[Any, ...] = {"frame": (memoryview(b"1234"),), "lost": ("gone",)}.get(call, ())
    told = getattr(client, f"transport_{call}")
    told(old, *more)
    assert client.network.mock_calls == []
    assert client._transports == {1: new}
    told(new, *more)
    getattr(client.network, heard).assert_called_once()


async def test_a_connection_is_opened_in_place_of_the_last(client: Any) -> None:
    last, under_way = Mock(), Mock()
    client._transports[1], client._tasks[1] = last, under_way
    opened: asyncio.Future[Connect] = client._loop.create_future()

    async def connect(action: Connect) -> None:
        opened.set_result(action)

    client._connect = connect
    client._open(Connect(1, "b", 9092, None))
    last.abort.assert_called_once_with()
    under_way.cancel.assert_called_once_with()
    assert client._transports == {}
    async with asyncio.timeout(WAIT):
        assert (await opened).host == "b"


@pytest.mark.parametrize(
    ("action", "addresses", "said"),
    [
        (Connect(1, "127.0.0.1", 99_999, "127.0.0.1"), [], "127.0.0.1:99999: .*0-65535"),
        (Connect(1, "a..b", 9092, None), [], "a..b:9092: .*label"),
        (Connect(1, "127.0.0.1", 9092, None), None, "127.0.0.1:9092: 127.0.0.1 has no address"),
    ],
    ids=["port", "name", "no address"],
)
async def test_what_a_broker_advertises_may_be_nonsense(
    client: Any, action: Connect, addresses: list[str] | None, said: str
) -> None:
    """It is a connection that is not made, as any other, and tried again later."""
    client.network.resolved.return_value = addresses
    async with asyncio.timeout(WAIT):
        await client._connect(action)
    ((node_id, reason, _), _) = client.network.on_disconnected.call_args
    assert node_id == 1
    assert reason.startswith("cannot connect to ")
    assert re.search(said, reason), reason


async def test_whoever_waits_for_metadata_hears_of_the_end_at_once() -> None:
    client = Client(ClientConfig.of(bootstrap_servers="127.0.0.1:1"))
    client.open()
    waiting = asyncio.create_task(client.wait_for_metadata(lambda: False, 10**7))
    await asyncio.sleep(0)  # it waits by now
    assert client._waiters
    await client.close()
    async with asyncio.timeout(WAIT):
        with pytest.raises(ClientClosed):
            await waiting


async def test_an_address_is_tried_once_however_often_a_name_has_it() -> None:
    loop: Any = Mock()

    async def found(*_: Any, **__: Any) -> list[Any]:
        return [(2, 1, 6, "", (one, 9092)) for one in ("10.0.0.2", "10.0.0.1", "10.0.0.2")]

    loop.getaddrinfo = found
    assert await resolve(loop, "b", 9092) == ["10.0.0.2", "10.0.0.1"]


def test_a_name_that_is_not_known_is_asked_about() -> None:
    error = socket.gaierror(-2, "Name or service not known")
    assert words_of(error) == "Name or service not known (is the host's name right?)"

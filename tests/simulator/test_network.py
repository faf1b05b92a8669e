"""Bytes between processes: in order, copied, late, in pieces; ways that are cut, peers that are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from barnabas.net.host.keepalive import AGAIN_S, IDLE_S, UNANSWERED_MAX
from barnabas.simulator.clock import Clock
from barnabas.simulator.loop import ProcessLoop, new_loop
from barnabas.simulator.network import Network, socket_of
from barnabas.simulator.world import MS, SECOND, World

SERVER, CLIENT = "10.0.0.1", "10.0.0.2"
PLACE = (SERVER, 9092)


class Peer(asyncio.BufferedProtocol):
    """Keeps what it is told; its buffer is small, so that a read is seldom all there is."""

    def __init__(self) -> None:
        self.got = bytearray()
        self.lost: list[Exception | None] = []
        self.eof = False
        self.paused = False
        self._buffer = bytearray(1000)
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.got += self._buffer[:nbytes]
        self._buffer[:] = bytes(1000)

    def eof_received(self) -> bool:
        self.eof = True
        return False

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Pair:
    """A server and a client that are connected."""

    def __init__(self, seed: str = "1", *, window: int = 65536, trickles: int = 0) -> None:
        self.world = World(seed)
        self.network = Network(self.world)
        self.network.window, self.network.trickles = window, trickles
        self.server_loop = new_loop(self.world, Clock(self.world), self.network, SERVER, "server")
        self.client_loop = new_loop(self.world, Clock(self.world), self.network, CLIENT, "client")
        self.server, self.client = Peer(), Peer()
        self.errors: list[BaseException] = []
        self.run(self.server_loop, self._listen)
        self.connect()
        assert self.wait(lambda: hasattr(self.client, "transport") and hasattr(self.server, "transport"))

    async def _listen(self) -> None:
        await self.server_loop.create_server(lambda: self.server, sock=socket_of(PLACE))

    def run(self, loop: ProcessLoop, work: Callable[[], object]) -> None:
        async def guarded() -> None:
            try:
                await work()  # type: ignore[misc]
            except OSError as error:
                self.errors.append(error)

        def begin() -> None:
            loop.create_task(guarded())

        loop.call_soon(begin)

    def connect(self) -> None:
        self.run(self.client_loop, lambda: self.client_loop.create_connection(lambda: self.client, *PLACE))

    def wait(self, condition: Callable[[], bool], seconds: int = 60) -> bool:
        return self.world.run(self.world.now_ns + seconds * SECOND, condition)


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_bytes_arrive_once_in_order_and_as_they_were_when_written(seed: str) -> None:
    pair = Pair(seed, trickles=500, window=4096)
    written = bytearray()
    for number in range(1500):
        data = bytearray(b"%d," % number * 20)
        written += data
        pair.client.transport.writelines([data[:7], memoryview(data)[7:]])
        data[:] = bytes(len(data))
    assert pair.client.paused
    assert pair.wait(lambda: len(pair.server.got) == len(written))
    assert pair.server.got == written
    assert not pair.client.paused


def test_who_does_not_read_stalls_the_writer() -> None:
    pair = Pair(window=4096)
    pair.server.transport.pause_reading()
    pair.client.transport.write(bytes(200_000))
    assert not pair.wait(lambda: not pair.client.paused, 5)
    assert pair.client.transport.get_write_buffer_size() == 200_000 - 4096
    pair.server.transport.resume_reading()
    assert pair.wait(lambda: len(pair.server.got) == 200_000)
    assert pair.client.transport.get_write_buffer_size() == 0


def test_a_close_comes_behind_all_that_was_written() -> None:
    pair = Pair(window=4096)
    pair.client.transport.write(bytes(50_000))
    pair.client.transport.close()
    assert pair.wait(lambda: bool(pair.server.lost))
    assert len(pair.server.got) == 50_000
    assert pair.server.eof
    assert pair.client.lost == pair.server.lost == [None]


def test_a_way_that_is_cut_holds_bytes_back_until_it_is_open() -> None:
    pair = Pair()
    pair.network.cut(CLIENT, SERVER)
    pair.client.transport.write(b"question")
    pair.server.transport.write(b"the other way is open")
    assert pair.wait(lambda: bool(pair.client.got), 5)
    assert not pair.wait(lambda: bool(pair.server.got), 5)
    pair.network.heal()
    assert pair.wait(lambda: pair.server.got == b"question")


def test_who_hears_nothing_for_long_gives_up() -> None:
    pair = Pair()
    pair.network.cut(CLIENT, SERVER)
    pair.client.transport.write(b"question")
    assert pair.wait(lambda: bool(pair.client.lost), pair.network.patience_ns // SECOND + 10)
    assert isinstance(pair.client.lost[0], TimeoutError)
    assert not pair.server.lost


def test_a_killed_process_is_heard_of_and_a_machine_without_power_is_not() -> None:
    pair = Pair()
    pair.server_loop.kill()
    assert pair.wait(lambda: bool(pair.client.lost), 5)

    pair = Pair()
    pair.server.transport.write(b"last words")
    pair.network.power(SERVER, on=False)
    pair.server_loop.kill()
    assert pair.wait(lambda: pair.client.got == b"last words"), "they had left"
    pair.client.transport.write(b"is anybody there?")
    assert not pair.wait(lambda: bool(pair.client.lost), 5), "half open"
    pair.network.power(SERVER, on=True)
    assert pair.wait(lambda: bool(pair.client.lost), 10)
    assert isinstance(pair.client.lost[0], ConnectionResetError)
    assert not pair.server.got


@pytest.mark.parametrize(("back", "reason"), [(True, ConnectionResetError), (False, TimeoutError)])
def test_who_waits_for_a_machine_without_power_hears_once_tcp_has_asked(back: bool, reason: type[OSError]) -> None:
    pair = Pair()
    pair.network.power(SERVER, on=False)
    pair.server_loop.kill()
    if back:
        pair.network.power(SERVER, on=True)
    assert not pair.wait(lambda: bool(pair.client.lost), IDLE_S - 1)
    assert pair.wait(lambda: bool(pair.client.lost), 2 if back else 2 + AGAIN_S * UNANSWERED_MAX)
    assert isinstance(pair.client.lost[0], reason)


def test_a_reset_loses_what_is_on_its_way_and_both_hear_of_it() -> None:
    pair = Pair()
    pair.server.transport.write(b"an answer that is lost")
    assert pair.network.reset(SERVER) == 1
    assert pair.wait(lambda: bool(pair.client.lost) and bool(pair.server.lost), 5)
    assert not pair.client.got


def test_a_connection_is_refused_where_nobody_listens_and_waits_where_nothing_passes() -> None:
    pair = Pair()
    pair.server_loop.kill()
    pair.connect()
    assert pair.wait(lambda: bool(pair.errors), 5)
    assert isinstance(pair.errors[0], ConnectionRefusedError)
    pair = Pair()
    pair.network.cut(SERVER, CLIENT)
    pair.client = Peer()
    pair.connect()
    assert not pair.wait(lambda: hasattr(pair.client, "transport") or bool(pair.errors), 20)
    pair.network.heal()
    assert pair.wait(lambda: hasattr(pair.client, "transport"), 5)


def test_delays_are_chances_and_the_seeds() -> None:
    delays = [[Network(World(seed)).delay_ns() for _ in range(1)] for seed in ("1", "1", "2")]
    assert delays[0] == delays[1] != delays[2]
    network = Network(World("1"))
    before = [network.delay_ns() for _ in range(100)]
    network.slow = 50
    assert max(before) > 0
    assert sum(network.delay_ns() for _ in range(100)) > 10 * sum(before) > MS

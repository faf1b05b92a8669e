"""Hostile bytes on the wire: the connection is refused, the broker and every other connection go on."""

from __future__ import annotations

import asyncio
import logging
import random
import struct

import pytest

from barnabas.broker.host import looking
from barnabas.broker.host.host import Host
from barnabas.broker.host.receive import OWN_BYTES_MIN
from tests.broker.host.fake_core import FakeCore, client, serving, until

MAX = 104_857_600


async def serves_on(host: Host) -> bool:
    async with client(host.port) as raw:
        raw.ask(77)
        return await raw.answer() == 77


@pytest.fixture(autouse=True)
def _warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "barnabas")


@pytest.mark.parametrize("preamble", [b"", b"BNB1"])
async def test_random_garbage_ends_its_connection_only(preamble: bytes, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(20_130_101)
    core = FakeCore()
    async with serving(core) as host:
        for _ in range(300):
            async with client(host.port) as raw:
                body = chance.randbytes(chance.randrange(200))
                lying = chance.random() < 0.5
                length = chance.randrange(-(2**31), 2**31) if lying else len(body)
                raw.send(preamble + struct.pack(">i", length) + body)
                raw.writer.write_eof()
                await raw.ended()
        await until(lambda: not host.channels)
        assert await serves_on(host)
    assert "Traceback" not in caplog.text
    assert all(len(record.getMessage().splitlines()) == 1 for record in caplog.records)


@pytest.mark.parametrize("length", [-1, -(2**31), MAX + 1, 2**31 - 1])
async def test_nonsense_lengths_end_the_connection_with_one_line(length: int, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(FakeCore()) as host, client(host.port) as raw:
        raw.ask(1)
        raw.send(struct.pack(">i", length) + b"rest")
        assert await raw.answer() == 1
        assert await raw.ended() == b""
        assert await serves_on(host)
    setting = "; socket.request.max.bytes is the most" if length > MAX else ""
    assert [record.getMessage() for record in caplog.records] == [
        f"closing the connection of 127.0.0.1 (#1): frame length {length} is not between 0 and {MAX}{setting}"
    ]


async def test_two_hundred_half_sent_frames_cost_what_was_sent() -> None:
    async with serving(FakeCore()) as host:
        peers = [await asyncio.open_connection("127.0.0.1", host.port) for _ in range(200)]
        for index, (_, writer) in enumerate(peers):
            writer.write(struct.pack(">i", MAX - index) + b"five.")
        await until(lambda: host.received_bytes == 200 * 9)
        held = [looking.connection(channel, 0)["receive_bytes"] for channel in host.channels.values()]
        assert held == [OWN_BYTES_MIN] * 200
        assert await serves_on(host)
        for _, writer in peers:
            writer.close()
        await until(lambda: not host.channels)


async def test_a_large_frame_that_comes_slowly_grows_with_what_came() -> None:
    async with serving(FakeCore()) as host, client(host.port) as raw:
        raw.send(struct.pack(">i", 8_000_000) + struct.pack(">hhih", 18, 0, 1, -1))
        sent = 14
        for piece in (1_000, 10_000, 100_000, 1_000_000):
            raw.send(bytes(piece))
            sent += piece
            await until(lambda want=sent: host.received_bytes == want)  # type: ignore[misc]
            (channel,) = host.channels.values()
            assert looking.connection(channel, 0)["receive_bytes"] <= 8 * sent
        raw.send(bytes(4 + 8_000_000 - sent))
        assert await raw.answer() == 1
        assert looking.connection(channel, 0)["receive_bytes"] == 0


async def test_a_frame_above_a_smaller_bound_is_refused() -> None:
    async with serving(FakeCore(), socket_request_max_bytes=100) as host, client(host.port) as raw:
        raw.send(struct.pack(">i", 101))
        assert await raw.ended() == b""


async def test_an_endless_http_head_is_refused() -> None:
    async with serving(FakeCore()) as host, client(host.port) as raw:
        raw.send(b"GET /" + b"x" * 20_000)
        assert b"431" in (await raw.ended())[:20]
        assert await serves_on(host)


async def test_a_request_of_the_shape_but_with_counts_that_lie_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """Metadata v1 that announces two thousand million topics: refused by its bytes, not by trying."""
    async with serving(FakeCore()) as host, client(host.port) as raw:
        body = struct.pack(">hhih", 3, 1, 9, -1) + struct.pack(">i", 2**31 - 1)
        raw.send(struct.pack(">i", len(body)) + body)
        assert await raw.ended() == b""
        assert await serves_on(host)
    assert len(caplog.records) == 1


async def test_a_reset_in_the_middle_of_an_answer_harms_nobody() -> None:
    core = FakeCore()
    async with serving(core) as host:
        for _ in range(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", host.port)
            for number in range(100):
                writer.write(struct.pack(">ihhih", 10, 18, 0, number, -1))
            await asyncio.wait_for(reader.readexactly(4), 60)
            writer.transport.abort()
        await until(lambda: not host.channels)
        assert await serves_on(host)

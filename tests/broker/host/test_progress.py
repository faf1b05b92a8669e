"""Whoever has begun something goes on with it, or goes."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator

import pytest

from barnabas.broker.context import RequestContext
from barnabas.broker.host import progress
from barnabas.broker.host.host import Host
from barnabas.broker.host.http import TEXT, Answer
from barnabas.broker.host.states import STALLED, State
from barnabas.protocol.requests.api_versions import ApiVersionsResponse
from tests.broker.host.fake_core import FakeCore, Raw, api_versions_request, client, parks, serving, until

WINDOW_MS = 1000
RATE = 100


class Clock:
    """Time that a test moves, and looks at progress that happen when it does."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.now_ms = host.now_ms()
        host.now_ms = lambda: self.now_ms

    def move(self, elapsed_ms: int) -> None:
        self.now_ms += elapsed_ms
        if self.host.progress._timer is not None:
            self.host.progress._timer.cancel()
            self.host.progress._look()


def settings() -> dict[str, int]:
    return {"barnabas_connection_progress_ms": WINDOW_MS, "barnabas_connection_progress_bytes_per_second": RATE}


async def accepted(host: Host) -> None:
    await until(lambda: len(host.channels) == 1)


async def trickle(host: Host, clock: Clock, raw: Raw, data: bytes, size: int, period_ms: int) -> None:
    """Send `data` in pieces of `size` bytes, one every `period_ms`, until it is through or the broker has enough."""
    for at in range(0, len(data), size):
        if not host.channels:
            return
        piece = data[at : at + size]
        end = host.received_bytes + len(piece)  # asyncio's own loop fills what is left of a buffer first, then the next
        raw.send(piece)
        await until(lambda: host.received_bytes >= end or not host.channels)  # noqa: B023 - awaited at once
        clock.move(period_ms)
        await asyncio.sleep(0)


async def test_who_opens_and_stays_silent_goes(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(FakeCore(), **settings()) as host, client(host.port) as raw:
        clock = Clock(host)
        await accepted(host)
        clock.move(WINDOW_MS - 1)
        assert host.channels
        clock.move(1)
        assert await raw.ended() == b""
    assert "its first request, or the answer's reading came to 0 bytes in" in caplog.text
    assert "barnabas.connection.progress.bytes.per.second asks for" in caplog.text, "and the setting"


@pytest.mark.parametrize(
    "data", [struct.pack(">i", 5000) + bytes(5000), b"GET /health HTTP/1.1\r\nX: " + b"x" * 5000, b"BNB1" + bytes(5000)]
)
async def test_a_byte_a_second_is_too_slow_for_a_frame_and_for_a_head_of_http(data: bytes) -> None:
    async with serving(FakeCore(), **settings()) as host, client(host.port) as raw:
        clock = Clock(host)
        await accepted(host)
        await trickle(host, clock, raw, data, 1, 1000)
        assert not host.channels
        assert host.received_bytes <= 8


async def test_who_has_brought_much_and_stops_goes_as_soon_as_anybody_else() -> None:
    async with serving(FakeCore(), **settings()) as host, client(host.port) as raw:
        clock = Clock(host)
        await accepted(host)
        await trickle(host, clock, raw, struct.pack(">i", 60_000) + bytes(50_000), 50_004, WINDOW_MS)
        assert host.channels
        clock.move(WINDOW_MS)
        assert await raw.ended() == b"", "what it brought in an earlier window is no credit"


async def test_a_slow_honest_upload_lives_however_long_it_takes() -> None:
    core = FakeCore()
    async with serving(core, **settings()) as host, client(host.port) as raw:
        clock = Clock(host)
        await accepted(host)
        # ApiVersions v0 with bytes behind it, which its decoder refuses: what counts is that it is decoded at all.
        body = api_versions_request(5)[4:]
        upload = struct.pack(">i", len(body) + 20_000) + body + bytes(20_000)
        await trickle(host, clock, raw, upload, 2 * RATE, 1000)
        (channel,) = host.channels.values() or [None]
        assert channel is None or channel.requests == 1
        assert host.received_bytes == len(upload), "a hundred seconds, and nobody ended it"


async def test_what_is_not_begun_has_no_deadline() -> None:
    async with serving(FakeCore(), **settings()) as host, client(host.port) as raw:
        clock = Clock(host)
        raw.ask(1)
        assert await raw.answer() == 1
        for _ in range(10):
            clock.move(10 * WINDOW_MS)
        raw.ask(2)
        assert await raw.answer() == 2
        assert host.progress._timer is None or not host.progress._marks


async def test_the_clock_stands_while_a_request_of_the_connection_is_parked() -> None:
    core = FakeCore(parks)
    async with serving(core, **settings()) as host, client(host.port) as raw:
        clock = Clock(host)
        raw.ask(1)
        raw.send(api_versions_request(2)[:10])
        await until(lambda: any(channel.paused for channel in host.channels.values()))
        for _ in range(10):
            clock.move(WINDOW_MS)
        assert host.channels
        core.contexts[0].respond(ApiVersionsResponse())
        host.settle()
        assert await raw.answer() == 1
        await until(lambda: not next(iter(host.channels.values())).paused)
        clock.move(WINDOW_MS)
        assert host.channels, "the window began anew"
        clock.move(WINDOW_MS)
        assert await raw.ended() == b""


async def test_a_byte_a_second_behind_every_answer_is_not_for_ever() -> None:
    """What is begun after a parked fetch is measured like anything else."""
    core = FakeCore()
    async with serving(core, **settings()) as host, client(host.port) as raw:
        clock = Clock(host)
        raw.ask(1)
        assert await raw.answer() == 1
        await trickle(host, clock, raw, api_versions_request(2), 1, 1000)
        assert not host.channels


async def test_who_does_not_read_its_last_answer_goes() -> None:
    def much(request: object, context: RequestContext, now_ms: int) -> None:
        context._channel.send([bytes(20_000_000)])  # type: ignore[attr-defined]
        context.close("enough")

    async with serving(FakeCore(much), **settings()) as host, client(host.port) as raw:
        clock = Clock(host)
        raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
        raw.ask(1)
        await until(
            lambda: any(progress.unfinished(channel) == "its last answer" for channel in host.channels.values())
        )
        clock.move(WINDOW_MS)
        clock.move(WINDOW_MS)
        await until(lambda: not host.channels)


async def test_who_does_not_read_its_page_goes_and_who_reads_slowly_does_not() -> None:
    def endless() -> Iterator[str]:
        while True:
            yield "x" * 100_000

    async with serving(FakeCore(), **settings()) as host, client(host.port) as raw:
        clock = Clock(host)
        host.web._pages = {"/endless": lambda fields: Answer(200, TEXT, endless())}
        raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
        raw.send(b"GET /endless HTTP/1.0\r\n\r\n")
        await until(lambda: any(one.waits & STALLED for one in host.channels.values()))
        (channel,) = host.channels.values()
        clock.move(WINDOW_MS)
        for _ in range(3):
            before = host.web.moved_bytes(channel)
            assert before is not None
            raw.writer.transport.resume_reading()  # type: ignore[attr-defined]
            for _ in range(1_000):
                if (host.web.moved_bytes(channel) or 0) >= before + 100_000:
                    break
                await raw.reader.read(1_000_000)
            raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
            clock.move(WINDOW_MS)
            assert host.channels
        clock.move(WINDOW_MS)
        clock.move(WINDOW_MS)
        await until(lambda: not host.channels)


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="the system does not tell a connection's state")
async def test_a_connection_that_is_closed_behind_a_parked_request_goes_though_it_is_not_read() -> None:
    """Bytes behind the request stop the reading, and with it the news of the end."""
    core = FakeCore(parks)
    async with serving(core, **settings()) as host, client(host.port) as stays:
        clock = Clock(host)
        async with client(host.port) as leaves:
            for raw in (stays, leaves):
                raw.ask(1)
                raw.send(b"x")
            await until(lambda: len(host.channels) == 2 and all(one.paused for one in host.channels.values()))
        clock.move(WINDOW_MS)
        clock.move(WINDOW_MS)
        await until(lambda: len(core.closed) == 1)
        assert len(host.channels) == 1
        clock.move(10 * WINDOW_MS)
        assert len(host.channels) == 1, "who is there waits for its answer as long as it takes"


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="the system does not tell a connection's state")
async def test_a_connection_that_was_reset_behind_a_parked_request_goes_at_the_next_look() -> None:
    core = FakeCore(parks)
    async with serving(core, **settings()) as host, client(host.port) as leaves:
        clock = Clock(host)
        leaves.ask(1)
        leaves.send(b"x")
        await until(lambda: len(host.channels) == 1 and all(one.paused for one in host.channels.values()))
        sock = leaves.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        leaves.writer.transport.abort()
        (channel,) = host.channels.values()
        await until(lambda: progress.is_closed(channel, progress.RESET))
        clock.move(1)
        await until(lambda: len(core.closed) == 1)


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="the system does not tell a connection's state")
async def test_those_that_left_are_gone_within_ten_seconds_whatever_the_window_some_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two thousand with a frame begun behind a parked request kept what they held for thirty seconds after that."""
    monkeypatch.setattr(progress, "AT_ONCE_MAX", 3)
    core = FakeCore(parks)
    async with serving(core) as host:
        assert host.config.barnabas_connection_progress_ms == 30_000
        clock = Clock(host)
        peers = [client(host.port) for _ in range(8)]
        for one in peers:
            raw = await one.__aenter__()
            raw.ask(1)
            raw.send(b"x" * 3)
        await until(lambda: len(host.channels) == 8 and all(one.paused for one in host.channels.values()))
        clock.move(0)
        for one in peers:
            await one.__aexit__(None, None, None)
        assert len(host.channels) == 8, "nothing tells"
        clock.move(progress.CLOSED_MS_MAX)
        assert sum(one.state is State.GONE for one in host.channels.values()) == 3
        await until(lambda: not host.channels)
        assert core.account.total == 0

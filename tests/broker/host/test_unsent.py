"""Large answers on a loop that joins and copies what it is given: they leave in portions, whole and in order."""

from __future__ import annotations

import random
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.account import UNREAD
from barnabas.broker.context import RequestContext
from barnabas.broker.host.channel import Channel
from barnabas.broker.host.http import TEXT, Answer
from barnabas.broker.host.states import STALLED
from barnabas.broker.host.unsent import LEFT_BYTES_MAX, PORTION_BYTES
from tests.broker.host.fake_core import FakeCore, Raw, api_versions_request, client, serving, until

MIB = 1024 * 1024
LARGE = random.Random(5).randbytes(20 * MIB)
PIECES = (1, PORTION_BYTES - 1, 3, 7 * MIB, 100, PORTION_BYTES, 5 * MIB)
"""Where it is cut into buffers; the rest is one more."""


def buffers() -> list[Any]:
    """The answer as several buffers, some of them views."""
    found: list[Any] = [struct.pack(">i", len(LARGE))]
    at = 0
    for number, size in enumerate((*PIECES, len(LARGE) - sum(PIECES))):
        piece = LARGE[at : at + size]
        found.append(memoryview(piece) if number % 2 else piece)
        at += size
    return found


def answers(request: Any, context: RequestContext, now_ms: int) -> None:
    context._channel.send(buffers())  # type: ignore[attr-defined]
    context.respond(None)


def answers_in_one(request: Any, context: RequestContext, now_ms: int) -> None:
    context._channel.send([b"".join(buffers())])  # type: ignore[attr-defined]
    context.respond(None)


class Counted:
    """A transport whose writes are counted."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.sizes: list[int] = []

    def write(self, data: Any) -> None:
        self.sizes.append(len(data))
        self._transport.write(data)

    def writelines(self, data: Any) -> None:
        self.sizes.append(sum(map(len, data)))
        self._transport.writelines(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


async def begun(core: FakeCore, host: Any, raw: Raw) -> tuple[Channel, Counted]:
    """A connection on such a loop, whose peer has heard of the broker and reads nothing now."""
    host.copies_unsent = True
    raw.ask(0)
    await raw.answer()
    (channel,) = host.channels.values()
    counted = Counted(channel.transport)
    channel.transport = counted
    core.handler = answers
    return channel, counted


@pytest.mark.parametrize("joined", [False, True], ids=["in buffers", "in one"])
async def test_a_large_answer_leaves_in_portions_and_what_follows_comes_after(joined: bool) -> None:
    """57 MB were one step of 67 ms; as one buffer, as answers are that are made piece by piece, of 28."""

    core = FakeCore()
    async with serving(core) as host, client(host.port) as raw:
        _, counted = await begun(core, host, raw)
        core.handler = answers_in_one if joined else answers
        raw.send(b"".join(api_versions_request(number) for number in range(3)))
        for _ in range(3):
            assert await raw.frame() == LARGE
        assert max(counted.sizes) == PORTION_BYTES
        assert sum(counted.sizes) == 3 * (len(LARGE) + 4)


async def test_whoever_does_not_read_it_is_stalled_and_no_more_of_it_is_copied() -> None:
    core = FakeCore()
    async with serving(core) as host, client(host.port) as raw:
        channel, counted = await begun(core, host, raw)
        own = sum(len(one) for one in buffers())  # views into bytes: kept for this answer alone
        raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
        raw.send(b"".join(api_versions_request(number) for number in range(2)))
        await until(lambda: channel.transport.get_write_buffer_size() > 0)
        assert channel.waits & STALLED
        assert len(core.requests) == 2, "the second waits"
        copied_max = PORTION_BYTES + LEFT_BYTES_MAX  # one portion more, as long as so little of another is left
        assert channel.transport.get_write_buffer_size() <= copied_max
        charged = core.account.by_kind[UNREAD]
        assert own - sum(counted.sizes) <= charged <= own + copied_max
        raw.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert await raw.frame() == LARGE
        assert await raw.frame() == LARGE
        await until(lambda: core.account.by_kind[UNREAD] == 0)


async def test_what_is_in_one_buffer_is_charged_as_long_as_any_of_it_is_left() -> None:
    """Who read all but the last of 58 MB was charged with that last part, and all of it was kept for him."""
    core = FakeCore()
    async with serving(core) as host, client(host.port) as raw:
        channel, counted = await begun(core, host, raw)
        core.handler = answers_in_one
        raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
        raw.ask(1)
        await until(lambda: channel.transport.get_write_buffer_size() > 0)
        assert sum(counted.sizes) >= PORTION_BYTES
        assert core.account.by_kind[UNREAD] >= len(LARGE)
        raw.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert await raw.frame() == LARGE
        await until(lambda: core.account.by_kind[UNREAD] == 0)


async def test_what_is_answered_later_comes_behind_what_is_left() -> None:
    """Two requests of one event: the first one's answer is larger than a portion, the second is parked meanwhile."""
    core = FakeCore()
    parked: list[RequestContext] = []
    large = LARGE[: 3 * PORTION_BYTES]

    def answers_the_first(request: Any, context: RequestContext, now_ms: int) -> None:
        if not core.requests[:-1]:
            context._channel.send([struct.pack(">i", len(large)), large])  # type: ignore[attr-defined]
            context.respond(None)
        else:
            parked.append(context)

    async with serving(core) as host, client(host.port) as raw:
        channel, _ = await begun(core, host, raw)
        core.handler = answers_the_first
        core.requests.clear()
        channel.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
        raw.send(b"".join(api_versions_request(number) for number in range(2)))
        await until(lambda: bool(parked) and channel.rest is not None)
        channel.send([struct.pack(">i", 5), b"later"])
        parked[0].respond(None)
        host.settle()
        raw.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert await raw.frame() == large
        assert await raw.frame() == b"later"
        await until(lambda: core.account.by_kind[UNREAD] == 0)


async def test_of_a_page_what_is_left_counts_as_read_by_nobody() -> None:
    """Who read a page slowly seemed to stand still once all of it was on its way, and was ended for that."""
    async with serving(FakeCore()) as host, client(host.port) as raw:
        host.copies_unsent = True
        host.web._pages = {"/large": lambda fields: Answer(200, TEXT, "x" * len(LARGE))}
        raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
        raw.send(b"GET /large HTTP/1.0\r\n\r\n")
        await until(lambda: any(one.transport.get_write_buffer_size() > 0 for one in host.channels.values()))
        (channel,) = host.channels.values()
        moved = host.web.moved_bytes(channel)
        assert moved is not None
        assert moved < len(LARGE) - 5 * MIB, "the system takes some, and nobody has read any"
        raw.writer.transport.resume_reading()  # type: ignore[attr-defined]
        await raw.reader.readexactly(len(LARGE) - 2 * MIB)
        assert (host.web.moved_bytes(channel) or len(LARGE)) >= len(LARGE) - 2 * MIB


@pytest.mark.parametrize("end", [Channel.abort, lambda channel: channel.end("it is over")], ids=["abort", "end"])
async def test_a_connection_that_ends_within_it_keeps_nothing(end: Callable[[Channel], None]) -> None:
    core = FakeCore()
    async with serving(core) as host, client(host.port) as raw:
        channel, counted = await begun(core, host, raw)
        raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
        raw.ask(1)
        await until(lambda: channel.transport.get_write_buffer_size() > 0)
        end(channel)
        assert channel.rest is None
        assert core.account.by_kind[UNREAD] == 0
        written = len(counted.sizes)
        await until(lambda: not host.channels)
        assert len(counted.sizes) == written


async def test_one_that_is_closed_within_it_still_has_all_of_it() -> None:
    core = FakeCore()
    async with serving(core) as host, client(host.port) as raw:
        channel, _ = await begun(core, host, raw)
        raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
        raw.ask(1)
        await until(lambda: channel.transport.get_write_buffer_size() > 0)
        channel.close()
        raw.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert await raw.frame() == LARGE
        assert await raw.ended() == b""

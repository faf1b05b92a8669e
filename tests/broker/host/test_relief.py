"""While memory is short, who holds much is not read from, and everybody else is served."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from fcntl import ioctl
from termios import FIONREAD
from typing import Any

import pytest

from barnabas.broker.account import KEPT, KINDS, PARKED, RECEIVED, REQUESTS, UNREAD, Account
from barnabas.broker.context import RequestContext
from barnabas.broker.host import looking, progress
from barnabas.broker.host import relief as relief_module
from barnabas.broker.host.channel import OUT_BYTES_MAX
from barnabas.broker.host.host import Host
from barnabas.broker.host.in_flight import DECODED_WEIGHT
from barnabas.broker.host.progress import RESET
from barnabas.broker.host.receive import SHARED_BYTES, SHARED_BYTES_RECOVERING, SHARED_BYTES_SHORT, Receiver
from barnabas.broker.host.refusals import ADDRESS_LINES_MAX
from barnabas.broker.host.states import LEFT, STALLED
from barnabas.broker.host.turns import TURN_MS_MAX, Turns
from barnabas.protocol.api import ApiKey
from barnabas.protocol.requests.api_versions import ApiVersionsResponse
from barnabas.protocol.requests.list_offsets import ListOffsetsResponse
from tests.broker.host.fake_core import FakeCore, Raw, client, parks, serving, until

MIB = 1024 * 1024
FETCH_WEIGHT = DECODED_WEIGHT
FRAME = 4 * MIB


def small_core(limit: int = 10 * MIB) -> FakeCore:
    core = FakeCore()
    core.account = Account(limit, FRAME)
    return core


def large_request(size: int = FRAME) -> bytes:
    """ApiVersions at version 0 with so many bytes behind it, which its decoding leaves alone or refuses."""
    return struct.pack(">ihhih", size, 18, 0, 7, -1) + bytes(size - 10)


async def served(host: Host) -> None:
    async with client(host.port) as other:
        other.ask(77)
        assert await other.answer() == 77


async def received(host: Host, count: int) -> None:
    await until(lambda: host.received_bytes >= count)


async def test_who_holds_most_is_not_read_from_and_others_are_served(caplog: pytest.LogCaptureFixture) -> None:
    core = small_core()
    async with serving(core, socket_request_max_bytes=FRAME) as host:
        peers = [client(host.port) for _ in range(12)]
        raws = [await one.__aenter__() for one in peers]
        for raw in raws:
            raw.send(large_request()[: FRAME - 1])
        await until(lambda: len(host.relief.waiting) >= 8)
        assert core.account.total <= core.account.limit
        await served(host)
        waiting = len(host.relief.waiting)
        assert host.snapshot()["memory"]["waiting"] == waiting
        assert host.registry.read("barnabas:Memory", "WaitingConnections") == {"value": waiting}
        assert core.account.by_kind[RECEIVED] == core.account.total
        told = re.findall(
            r"the connection of (127\.0\.0\.1) \(#(\d+)\) with ([\d.]+) MiB waits for memory", caplog.text
        )
        assert len(told) == ADDRESS_LINES_MAX, "of one address no more"
        assert {int(number) for _, number, _ in told} <= set(range(1, 13)), "none but those twelve"
        assert all(float(held) * MIB >= relief_module.SMALL_BYTES for *_, held in told)
        assert f"{core.account.limit // MIB} MiB for requests are held (queued.max.request.bytes; above" in caplog.text
        for one in peers:
            await one.__aexit__(None, None, None)
        await until(lambda: not host.channels)
        assert core.account.total == host.buffers.pooled_bytes, "all but the pool went with the connections"


async def test_large_frames_that_do_not_fit_together_are_all_handled_one_after_the_other() -> None:
    core = small_core()
    core.handler = lambda request, context, now_ms: context.respond(None)
    async with serving(core, socket_request_max_bytes=FRAME) as host:
        peers = [client(host.port) for _ in range(12)]
        raws = [await one.__aenter__() for one in peers]
        for raw in raws:
            raw.send(produce(FRAME - 100))
        await until(lambda: len(core.requests) == 12)
        assert host.relief.ended == 0
        await until(lambda: not host.relief.waiting and not host.relief.turns)
        for one in peers:
            await one.__aexit__(None, None, None)


async def test_who_has_a_turn_and_does_not_use_it_is_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    core = small_core()
    async with serving(core, socket_request_max_bytes=FRAME) as host:
        now_ms = host.now_ms()
        host.now_ms = lambda: now_ms
        core.account.charge(0, PARKED, 5 * MIB)
        async with client(host.port) as raw:
            raw.send(large_request()[:MIB])
            await until(lambda: bool(host.relief.turns))
            (turn,) = host.relief.turns.values()
            rest_ms = turn.deadline_ms - now_ms - relief_module.TURN_MS
            assert 3000 < rest_ms < 4000, "a second for each MiB that is missing"
            now_ms = turn.deadline_ms - 1
            host.relief._decide()
            assert len(host.relief.turns) == 1
            now_ms += 1
            host.relief._decide()
            assert await raw.ended() == b""
        assert "the connection of 127.0.0.1 (#1) with 4.0 MiB is ended: memory is short and the rest" in caplog.text
        assert host.relief.ended == 1
        core.account.release(0, PARKED, 5 * MIB)


async def test_many_that_wait_in_vain_are_ended_until_memory_is_not_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,280 connections with 128 KiB each filled the account: one was ended every ten seconds, for hours."""
    core = small_core()
    monkeypatch.setattr(relief_module, "is_closed", lambda _: False)
    async with serving(core, socket_request_max_bytes=FRAME) as host:
        now_ms = host.now_ms()
        host.now_ms = lambda: now_ms
        core.account.charge(0, PARKED, 9 * MIB)
        peers = [client(host.port) for _ in range(5)]
        raws = [await one.__aenter__() for one in peers]
        for raw in raws:
            raw.send(large_request()[:200_000])
        await until(lambda: len(host.relief.waiting) == 5)
        core.account.charge(0, PARKED, core.account.limit - core.account.total)
        host.relief._decide()
        core.account.release(0, PARKED, core.account.by_kind[PARKED] - core.account.low + 300_000)
        core.account.charge(0, REQUESTS, core.account.limit - core.account.total)
        now_ms += relief_module.STUCK_MS
        host.relief._decide()
        assert host.relief.ended == 5, "also one by one they would not do"
        core.account.release(0, REQUESTS, core.account.by_kind[REQUESTS])
        core.account.release(0, PARKED, core.account.by_kind[PARKED])
        for one in peers:
            await one.__aexit__(None, None, None)


async def test_who_waits_for_memory_and_has_gone_gives_back_what_it_held() -> None:
    """Nobody reads of it, so nothing tells that it is closed."""
    core = small_core()
    async with serving(core, socket_request_max_bytes=FRAME) as host:
        core.account.charge(0, PARKED, 10 * MIB - 200_000)
        async with client(host.port) as raw:
            raw.send(large_request()[:90_000])
            await until(lambda: bool(host.relief.waiting))
            host.relief._look()
            assert len(host.channels) == 1, "it is still there"
        sock = next(iter(host.channels.values())).transport.get_extra_info("socket")
        await until(lambda: sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != 1)
        host.relief._look()
        assert core.account.by_kind[RECEIVED] == 0
        await until(lambda: not host.channels)
        core.account.release(0, PARKED, 10 * MIB - 200_000)


async def test_nobody_waits_for_ever_in_vain(caplog: pytest.LogCaptureFixture) -> None:
    """Parked operations keep everything, and give nothing back: of those that wait the largest goes, in the end."""
    core = small_core()
    async with serving(core, socket_request_max_bytes=FRAME) as host:
        now_ms = host.now_ms()
        host.now_ms = lambda: now_ms
        core.account.charge(0, PARKED, 10 * MIB - 200_000)
        async with client(host.port) as raw:
            raw.send(large_request()[:90_000])
            await until(lambda: bool(host.relief.waiting))
            host.relief._decide()
            now_ms += relief_module.STUCK_MS - 1
            host.relief._decide()
            assert host.relief.ended == 0
            now_ms += 1
            host.relief._decide()
            assert await raw.ended() == b""
        assert "nobody gives any back" in caplog.text
        core.account.release(0, PARKED, 10 * MIB - 200_000)


BEHIND = 15_000
"""Partitions of a request that is sent behind another: 240 KB."""


@pytest.mark.parametrize(
    ("first", "behind", "held_bytes", "ended"),
    [
        (lambda: lookup(30), BEHIND, 6 * MIB, 1),
        (lambda: lookup(30), BEHIND, 0, 0),
        (lambda: lookup(30), 0, 6 * MIB, 0),
        (lambda: produce(40_000), BEHIND, 6 * MIB, 0),
        (lambda: fetch(30), BEHIND, 6 * MIB, 0),
    ],
    ids=["sends on", "memory is not short", "sends nothing on", "changes something", "waits by its own wish"],
)
async def test_who_sends_on_and_is_not_heard_of_is_ended_while_memory_is_short(
    first: Any, behind: int, held_bytes: int, ended: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A thousand that had gone held 100 MB for 16 s: their end lay behind what was not read."""
    core = small_core()
    core.handler = parks
    async with serving(core, socket_request_max_bytes=FRAME) as host, client(host.port) as raw:
        raw.send(first() + (fetch(behind) if behind else b""))
        await until(lambda: bool(core.contexts))
        (channel,) = host.channels.values()
        await until(lambda: channel.paused == bool(behind))
        now_ms = channel.active_ms + relief_module.UNHEARD_MS - 1
        host.now_ms = lambda: now_ms
        core.account.charge(0, PARKED, held_bytes)
        host.relief._look()
        assert host.relief.ended == 0
        now_ms += 1
        host.relief._look()
        assert host.relief.ended == ended
        if ended:
            assert await raw.ended() == b""
            assert "sent more behind a request" in caplog.text
        core.account.release(0, PARKED, held_bytes)


@pytest.mark.parametrize(
    ("make", "more", "ended"),
    [(lambda: lookup(20_000), b"more", 1), (lambda: lookup(20_000), b"", 0), (lambda: produce(200_000), b"more", 0)],
    ids=["sends on", "sends nothing on", "changes something"],
)
async def test_who_is_in_line_undecoded_and_sends_on_is_ended_as_well(
    make: Any, more: bytes, ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = small_core()
    core.handler = parks
    monkeypatch.setattr(Turns, "looked", lambda turns: None)
    async with serving(core, socket_request_max_bytes=FRAME) as host, client(host.port) as raw:
        raw.ask(1)
        await until(lambda: bool(core.contexts))
        core.contexts[0].respond(ApiVersionsResponse())
        host.turns.look_due, host.turns._since_ms = True, host.now_ms() - 1000  # a round that takes long
        host.turns.late_ms = 0
        raw.send(make())
        (channel,) = host.channels.values()
        await until(lambda: channel.paused)
        raw.send(more)
        sock = channel.transport.get_extra_info("socket")
        await until(lambda: bool(any(ioctl(sock.fileno(), FIONREAD, bytes(4)))) == bool(more))
        now_ms = channel.active_ms + relief_module.UNHEARD_MS
        host.now_ms = lambda: now_ms
        core.account.charge(0, PARKED, 6 * MIB)
        host.relief._look()
        assert host.relief.ended == ended
        core.account.release(0, PARKED, 6 * MIB)


@pytest.mark.parametrize(
    ("first", "more", "ended"),
    [(lambda: lookup(30), b"more", True), (lambda: lookup(30), b"", False), (lambda: produce(40_000), b"more", False)],
    ids=["sends on", "all has come", "changes something"],
)
async def test_who_is_not_heard_of_for_long_is_not_served_first(
    first: Any, more: bytes, ended: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Their end lies behind what was not read: lookups of two dozen that had left were served until now."""
    core = small_core()
    core.handler = parks
    async with serving(core, socket_request_max_bytes=FRAME) as host, client(host.port) as raw:
        raw.send(first() + b"begun")
        await until(lambda: bool(core.contexts))
        (channel,) = host.channels.values()
        await until(lambda: channel.paused)
        core.account.charge(channel.connection.id, RECEIVED, relief_module.SMALL_BYTES)
        raw.send(more)
        sock = channel.transport.get_extra_info("socket")
        await until(lambda: bool(any(ioctl(sock.fileno(), FIONREAD, bytes(4)))) == bool(more))
        now_ms = channel.active_ms + progress.UNHEARD_MS - 1
        host.now_ms = lambda: now_ms

        def look() -> None:
            assert host.progress._timer is not None
            host.progress._timer.cancel()
            host.progress._look()

        look()
        assert not channel.waits & LEFT
        now_ms += 1
        look()
        assert bool(channel.waits & LEFT) == ended
        core.account.release(channel.connection.id, RECEIVED, relief_module.SMALL_BYTES)
        assert ("more behind a request" in caplog.text) == ended
        assert len(core.contexts) == 1


async def test_above_the_limit_whoever_holds_most_is_ended(caplog: pytest.LogCaptureFixture) -> None:
    core = small_core()
    async with serving(core) as host, client(host.port) as much, client(host.port) as little:
        for raw in (much, little):
            raw.ask(1)
            await raw.answer()
        first, second = host.channels
        core.account.charge(first, PARKED, 7 * MIB)
        core.account.charge(second, PARKED, 4 * MIB)
        assert await much.ended() == b""
        assert "memory is short and it holds most" in caplog.text
        core.account.release(first, PARKED, 7 * MIB)
        little.ask(2)
        assert await little.answer() == 2
        core.account.release(second, PARKED, 4 * MIB)
        assert host.relief.ended == 1


def produce(size: int) -> bytes:
    """Produce v3 without topics, and `size` bytes of a client id: decoded, and large."""
    body = struct.pack(">hhih", 0, 3, 9, 30_000) + b"c" * 30_000
    body += struct.pack(">hhii", -1, 0, 1000, 1) + struct.pack(">h", 1) + b"t"
    records = size - len(body) - 12
    body += struct.pack(">iii", 1, 0, records) + bytes(records)
    return struct.pack(">i", len(body)) + body


def fetch(partitions: int) -> bytes:
    body = struct.pack(">hhih", 1, 4, 9, -1) + struct.pack(">iiiibi", -1, 500, 1, 1, 0, 1) + struct.pack(">h", 1) + b"t"
    body += struct.pack(">i", partitions) + struct.pack(">iqi", 0, 0, 1) * partitions
    return struct.pack(">i", len(body)) + body


def lookup(partitions: int) -> bytes:
    """A ListOffsets v1."""
    body = struct.pack(">hhih", 2, 1, 9, -1) + struct.pack(">ii", -1, 1) + struct.pack(">h", 1) + b"t"
    body += struct.pack(">i", partitions) + struct.pack(">iq", 0, -1) * partitions
    return struct.pack(">i", len(body)) + body


def alter(settings: int) -> bytes:
    """An IncrementalAlterConfigs v0 of one topic."""
    body = struct.pack(">hhih", 44, 0, 9, -1) + struct.pack(">ib", 1, 2) + struct.pack(">h", 1) + b"t"
    body += struct.pack(">i", settings) + (struct.pack(">h", 1) + b"s" + struct.pack(">bh", 0, -1)) * settings + b"\0"
    return struct.pack(">i", len(body)) + body


def join(metadata: int) -> bytes:
    """A JoinGroup v3."""
    body = struct.pack(">hhih", 11, 3, 9, -1) + struct.pack(">h", 1) + b"g" + struct.pack(">ii", 10_000, 60_000)
    body += struct.pack(">h", 0) + struct.pack(">h", 1) + b"c" + struct.pack(">i", 1) + struct.pack(">h", 1) + b"p"
    body += struct.pack(">i", metadata) + bytes(metadata)
    return struct.pack(">i", len(body)) + body


def sync(assignment: int) -> bytes:
    """A SyncGroup v1 of one assignment."""
    body = struct.pack(">hhih", 14, 1, 9, -1) + struct.pack(">h", 1) + b"g" + struct.pack(">i", 1)
    body += struct.pack(">h", 1) + b"m" + struct.pack(">i", 1) + struct.pack(">h", 1) + b"m"
    body += struct.pack(">i", assignment) + bytes(assignment)
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    ("request_bytes", "weight"),
    [
        (produce(100_000), 1),
        (fetch(2000), FETCH_WEIGHT),
        (fetch(30), FETCH_WEIGHT),
        (join(100_000), 1),
        (sync(100_000), 1),
    ],
    ids=["produce", "wide fetch", "fetch", "join", "sync"],
)
async def test_a_request_is_charged_while_it_waits_for_its_answer(request_bytes: bytes, weight: int) -> None:
    core = small_core()
    core.handler = parks
    async with serving(core) as host, client(host.port) as raw:
        raw.send(request_bytes)
        await until(lambda: len(core.contexts) == 1)
        await until(lambda: core.account.by_kind[REQUESTS] == (len(request_bytes) - 4) * weight)
        core.contexts[0].respond(None)
        assert core.account.by_kind[REQUESTS] == 0


@pytest.mark.parametrize(
    ("request_bytes", "left"),
    [
        (produce(100_000), len(produce(100_000)) - 4),
        (alter(1000), DECODED_WEIGHT * (len(alter(1000)) - 4)),
        (lookup(2000), 0),
        (fetch(2000), 0),
        (join(100_000), 0),
        (sync(100_000), 0),
    ],
    ids=["produce", "alter", "lookup", "fetch", "join", "sync"],
)
async def test_what_is_seen_through_for_nobody_is_charged_until_it_is_done(request_bytes: bytes, left: int) -> None:
    """Who was ended for what its request held came again with as much: 45 of 1 MB held 550 MB that nobody counted."""
    core = small_core()
    core.handler = parks
    async with serving(core) as host, client(host.port) as raw:
        raw.send(request_bytes)
        await until(lambda: len(core.contexts) == 1)
        await until(lambda: core.account.by_kind[REQUESTS] > 0)
        await raw.close()
        await until(lambda: not host.channels)
        assert core.account.total - host.buffers.pooled_bytes == left
        assert core.account.by_kind[REQUESTS] == left
        core.requests.clear()
        core.contexts.pop().respond(None)
        await until(lambda: core.account.by_kind[REQUESTS] == 0)


async def test_who_was_reset_as_it_was_answered_is_not_asked_for_its_next_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it had sent before was served, for up to three seconds."""
    core = small_core(64 * MIB)
    core.handler = parks
    async with serving(core) as host, client(host.port) as raw:
        raw.send(lookup(200) * 3)
        await until(lambda: bool(core.contexts))
        (channel,) = host.channels.values()
        await until(lambda: channel.paused)
        monkeypatch.setattr(relief_module, "is_closed", lambda _, states: states == RESET)
        core.contexts[0].respond(ListOffsetsResponse())
        host.settle()
        await until(lambda: not host.channels)
        assert len(core.requests) == 1


async def test_above_the_limit_nothing_more_is_begun_that_would_be_seen_through(
    caplog: pytest.LogCaptureFixture,
) -> None:
    core = small_core()
    core.handler = lambda request, context, now_ms: context.respond(None)
    async with serving(core) as host:
        core.account.charge(0, REQUESTS, 11 * MIB)
        for request_bytes in (alter(10), produce(40_000), lookup(200)):
            async with client(host.port) as raw:
                before = len(core.requests)
                raw.send(request_bytes)
                await until(lambda before=before: len(core.requests) == before + 1)  # type: ignore[misc]
        async with client(host.port) as raw:
            raw.send(alter(1000))
            assert await raw.ended() == b""
        assert len(core.requests) == 3
        assert "what it asks for would take more of it" in caplog.text
        async with client(host.port) as raw:
            raw.send(lookup(1))
            await until(lambda: len(core.requests) == 4)
            raw.send(alter(300))  # of a connection that is no newcomer, in one piece
            assert await raw.ended() == b""
        assert len(core.requests) == 4
        core.account.release(0, REQUESTS, 2 * MIB)
        async with client(host.port) as raw:
            raw.send(alter(1000))
            await until(lambda: len(core.requests) == 5)
        core.account.release(0, REQUESTS, 9 * MIB)


async def test_who_would_give_nothing_back_is_not_ended_for_what_it_holds() -> None:
    core = small_core()
    core.handler = parks
    async with serving(core) as host, client(host.port) as changing, client(host.port) as looking_up:
        changing.send(alter(9_500))
        await until(lambda: len(core.contexts) == 1)
        looking_up.send(lookup(1000))
        await until(lambda: len(core.contexts) == 2)
        core.account.charge(0, PARKED, 10 * MIB - core.account.total + 1)
        await until(lambda: host.relief.ended == 1)
        (left,) = (one for one in host.channels.values() if not one.waits & LEFT)
        assert left.outstanding is core.contexts[0]
        core.account.release(0, PARKED, core.account.by_kind[PARKED])


async def stall(core: FakeCore, raw: Raw, piece: Any) -> None:
    """Make the peer read nothing, and answer it until it stalls."""

    def flood(request: Any, context: RequestContext, now_ms: int) -> None:
        context._channel.send([piece])  # type: ignore[attr-defined]
        context.respond(None)

    core.handler = flood
    raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
    for _ in range(100):
        raw.ask(1)


async def test_answers_unread_are_charged_until_they_are_read_or_their_connection_goes() -> None:
    core = small_core(64 * MIB)
    async with serving(core) as host, client(host.port) as raw:
        await stall(core, raw, bytes(MIB))
        await until(lambda: core.account.by_kind[UNREAD] > 0)
        assert core.account.by_kind[UNREAD] <= OUT_BYTES_MAX + 2 * MIB
        raw.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(100):
            await raw.reader.readexactly(MIB)
        await until(lambda: core.account.by_kind[UNREAD] == 0)
        await stall(core, raw, bytes(MIB))
        await until(lambda: core.account.by_kind[UNREAD] > 0)
        for channel in host.channels.values():
            channel.abort()
        assert core.account.by_kind[UNREAD] == 0


async def test_records_unread_are_not_charged_for_they_are_views_of_what_is_there_anyway() -> None:
    core = small_core(64 * MIB)
    async with serving(core) as host, client(host.port) as raw:
        host.copies_unsent = False
        await stall(core, raw, memoryview(bytearray(MIB)))
        (channel,) = host.channels.values()
        await until(lambda: bool(looking.connection(channel, 0)["stalled"]))
        assert core.account.by_kind[UNREAD] == 0


@pytest.mark.parametrize(("piece", "copies"), [(memoryview(bytes(MIB)), False), (memoryview(bytearray(MIB)), True)])
async def test_records_that_are_kept_for_the_peer_alone_are_charged(piece: memoryview, copies: bool) -> None:
    """Those put together from several blocks, and all of them where the loop copies: 2,000 peers kept 600 MB."""
    core = small_core(64 * MIB)
    async with serving(core) as host, client(host.port) as raw:
        host.copies_unsent = copies
        await stall(core, raw, piece)
        await until(lambda: core.account.by_kind[UNREAD] > 0)
        (channel,) = host.channels.values()
        assert core.account.by_kind[UNREAD] <= channel.transport.get_write_buffer_size()
        channel.abort()
        assert core.account.by_kind[UNREAD] == 0


async def test_one_read_brings_little_while_memory_is_short() -> None:
    """4,500 connections with 130 KB of requests each kept 600 MB before the first of them could be ended."""
    core = small_core()
    async with serving(core) as host:
        assert len(host.buffers.current) == SHARED_BYTES
        core.account.charge(77, KEPT, core.account.low + 1)
        assert len(host.buffers.current) == SHARED_BYTES_SHORT
        core.account.charge(77, KEPT, 1)
        await asyncio.sleep(0)
        assert len(host.buffers.current) == SHARED_BYTES_SHORT
        core.account.release(77, KEPT, core.account.low + 2)
        await until(lambda: len(host.buffers.current) == SHARED_BYTES)
        await served(host)


async def test_where_no_more_can_be_mapped_those_go_that_have_not_read_for_the_longest() -> None:
    core = small_core(64 * MIB)
    async with (
        serving(core) as host,
        client(host.port) as first,
        client(host.port) as second,
        client(host.port) as reading,
    ):
        for raw in (first, second):
            await stall(core, raw, memoryview(bytearray(MIB)))
        await until(lambda: len([one for one in host.channels.values() if one.waits & STALLED]) == 2)
        stalled = [one for one in host.channels.values() if one.waits & STALLED]
        stalled[1].active_ms = stalled[0].active_ms - 5
        host.relief.maps_are_short()
        host.relief.maps_are_short()
        await until(lambda: len(host.channels) == 2)
        assert stalled[1].connection.id not in host.channels
        core.handler = lambda request, context, now_ms: context.respond(ApiVersionsResponse())
        reading.ask(5)
        assert await reading.answer() == 5


async def test_what_is_unread_goes_with_an_ended_connection() -> None:
    """The system kept up to 4 MiB for each, for minutes: the peer hears of a reset, and nothing is left to be sent."""
    core = small_core(64 * MIB)
    async with serving(core) as host, client(host.port) as raw:
        await stall(core, raw, bytes(MIB))
        await until(lambda: core.account.by_kind[UNREAD] > 0)
        (channel,) = host.channels.values()
        channel.end("a test")
        await until(lambda: not host.channels)
        raw.writer.transport.resume_reading()  # type: ignore[attr-defined]
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(raw.reader.readexactly(101 * MIB), 60)


async def test_who_has_a_turn_is_the_last_to_be_ended() -> None:
    """It held most as soon as it had all its memory, so the next newcomer had it ended: turn after turn, 60 ms each."""
    core = small_core()
    async with (
        serving(core, socket_request_max_bytes=FRAME) as host,
        client(host.port) as mine,
        client(host.port) as raw,
    ):
        raw.ask(1)
        await raw.answer()
        newcomer = max(host.channels)
        core.account.charge(0, PARKED, 5 * MIB)
        mine.send(large_request()[:MIB])
        await until(lambda: bool(host.relief.turns))
        core.account.charge(newcomer, PARKED, 2 * MIB)
        host.relief._decide()
        assert len(host.relief.turns) == 1
        assert await raw.ended() == b""
        core.account.release(newcomer, PARKED, 2 * MIB)
        core.account.charge(0, PARKED, 2 * MIB)
        assert await mine.ended() == b"", "there is nobody else"
        core.account.release(0, PARKED, 7 * MIB)


async def test_nobody_that_left_has_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand that left together had their turns, and 100 MiB each, one after the other: for more than a minute."""
    core = small_core()
    monkeypatch.setattr(relief_module, "is_closed", lambda _: False)
    async with serving(core, socket_request_max_bytes=FRAME) as host:
        core.account.charge(0, PARKED, 9 * MIB)
        peers = [client(host.port) for _ in range(5)]
        for one in peers:
            (await one.__aenter__()).send(large_request()[:90_000])
        await until(lambda: len(host.relief.waiting) == 5)
        monkeypatch.setattr(relief_module, "is_closed", lambda _: True)
        given: list[int] = []
        monkeypatch.setattr(Receiver, "make_whole", lambda self: given.append(self.holder))
        core.account.release(0, PARKED, 9 * MIB)
        await until(lambda: not host.channels)
        assert not given
        for one in peers:
            await one.__aexit__(None, None, None)


async def test_many_are_ended_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look went over all connections for each that it ended: 2,000 of them were a step of seconds."""
    monkeypatch.setattr(relief_module, "AT_ONCE_MAX", 2)
    core = small_core()
    async with serving(core) as host:
        peers = [client(host.port) for _ in range(9)]
        for number, one in enumerate(peers):
            raw = await one.__aenter__()
            raw.ask(1)
            await raw.answer()
            core.account.charge(number + 1, PARKED, (1 + number) * 100_000)
        later: list[object] = []
        monkeypatch.setattr(host.relief, "_later", lambda: later.append(None))
        core.account.charge(0, PARKED, core.account.limit - 1_000_000)
        for ended in (2, 4, 5):
            later.clear()
            host.relief._decide()
            assert host.relief.ended == ended
            assert bool(later) is (ended < 5), "900 + 800, 700 + 600 and 500 are the 3,500 too many"
        host.relief._decide()
        assert host.relief.ended == 5
        left = [core.account.held_by(number + 1) for number in range(9) if (number + 1) in host.channels]
        assert sum(left) <= 4_500_000
        core.account.release(0, PARKED, core.account.limit - 1_000_000)
        for number in range(9):
            core.account.release(number + 1, PARKED, (1 + number) * 100_000)
        for one in peers:
            await one.__aexit__(None, None, None)


async def test_who_waits_for_the_start_is_charged_with_the_buffer_that_is_kept() -> None:
    """A request of 30 bytes that cannot be handled yet keeps the buffer it came in."""
    core = FakeCore(parks)
    core.ready = False
    async with serving(core) as host, client(host.port) as raw:
        raw.ask(1)
        await until(lambda: core.account.by_kind[REQUESTS] >= SHARED_BYTES_RECOVERING)
        core.contexts[0].respond(None)
        assert core.account.total == 0
        core.ready = True
        host._look_ready()
        raw.ask(2)
        await until(lambda: len(core.contexts) == 2)
        assert core.account.total == 0


async def test_large_frames_have_their_turn_one_at_a_time_until_logs_are_recovered() -> None:
    """However much memory there is: decoded, a thousand of them would lie in between what recovery makes."""
    core = FakeCore()
    answer = core.handler
    core.handler = lambda request, context, now_ms: (
        None if context.api_key == ApiKey.FETCH else answer(request, context, now_ms)
    )
    core.ready = False
    async with serving(core) as host:
        peers = [client(host.port) for _ in range(5)]
        raws = [await one.__aenter__() for one in peers]
        for raw in raws:
            raw.send(fetch(19_000))
        await until(lambda: len(host.relief.waiting) == 4 and len(core.requests) == 1)
        await served(host)
        assert len(core.requests) == 2, "nobody else has had a turn"
        core.contexts[0].respond(None)
        await until(lambda: len(core.requests) == 3)
        assert len(host.relief.waiting) == 3
        core.ready = True
        host._look_ready()
        await until(lambda: len(core.requests) == 6)
        assert not host.relief.waiting
        assert host.relief.ended == 0
        for one in peers:
            await one.__aexit__(None, None, None)


async def test_who_is_slow_while_logs_are_recovered_gives_its_turn_to_others_and_is_not_ended() -> None:
    """It was ended for memory that was not short, at every try."""
    core = FakeCore(parks)
    core.ready = False
    async with serving(core) as host, client(host.port) as slow, client(host.port) as quick:
        now_ms = host.now_ms()
        host.now_ms = lambda: now_ms
        slow.send(fetch(19_000)[:-1])
        await until(lambda: bool(host.relief.turns))
        (turn,) = host.relief.turns.values()
        quick.send(fetch(19_000))
        await until(lambda: len(host.relief.waiting) == 1)
        assert not core.requests
        now_ms = turn.deadline_ms
        host.relief._decide()
        await until(lambda: len(core.requests) == 1)
        core.contexts[0].respond(None)
        slow.send(fetch(19_000)[-1:])
        await until(lambda: len(core.requests) == 2)
        assert host.relief.ended == 0


async def test_the_account_is_shown_in_state_and_metrics() -> None:
    core = small_core()
    core.handler = parks
    async with serving(core) as host, client(host.port) as raw:
        raw.send(fetch(2000))
        await until(lambda: core.account.total > 0)
        shown = host.snapshot()
        assert shown["memory"]["held_bytes"] == core.account.total
        assert shown["memory"]["limit_bytes"] == 10 * MIB
        assert set(shown["memory"]["by_kind"]) == set(KINDS)
        assert shown["memory"]["largest"] == [
            {"connection": 1, "client_host": "127.0.0.1", "held_bytes": core.account.total}
        ]
        assert shown["connections"][0]["held_bytes"] == core.account.total
        read = host.registry.read
        assert read("barnabas:Memory", "HeldBytes", {"kind": REQUESTS}) == {"value": core.account.total}
        assert read("barnabas:Memory", "LimitBytes") == {"value": 10 * MIB}
        assert read("kafka.network:SocketServer", "MemoryPoolUsed") == {"value": core.account.total}
        assert read("kafka.network:SocketServer", "MemoryPoolAvailable") == {"value": 10 * MIB - core.account.total}
        host.relief.ended = 3
        assert (
            read("barnabas:Memory", "EndedConnections") == {"value": host.snapshot()["memory"]["ended"]} == {"value": 3}
        )


async def test_what_is_large_waits_in_line_behind_what_took_long_and_what_is_small_does_not() -> None:
    """150 connections with one costly request each had all their turns between two looks: others waited for seconds."""
    core = FakeCore()
    async with serving(core) as host, client(host.port) as raw:
        turns = host.turns
        turns.look_due, turns.late_ms = True, 0  # as if the sockets had not been looked at since something took long
        turns._since_ms = host.now_ms() + 3_600_000
        raw.send(produce(100_000))
        await until(lambda: bool(turns.line) or bool(core.requests))
        await served(host)
        assert len(core.requests) == 1, "the small one alone"
        core.handler = parks
        await received(host, 100_000)
        turns.looked()
        await until(lambda: len(core.requests) == 2)
        assert not any(one.paused for one in host.channels.values()), "nothing tells of an end that is not read"
        await raw.close()
        await until(lambda: not host.channels)


async def test_a_large_request_that_takes_long_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    core = FakeCore()
    async with serving(core) as host, client(host.port) as raw:
        now_ms = host.now_ms()
        host.now_ms = lambda: now_ms
        noticed: list[int] = []
        monkeypatch.setattr(Turns, "took_long", lambda turns: noticed.append(now_ms))

        def handle(request: Any, context: RequestContext, at_ms: int) -> None:
            nonlocal now_ms
            now_ms += TURN_MS_MAX + 1
            context.respond(None)

        core.handler = handle
        raw.send(produce(100_000))
        await until(lambda: len(core.requests) == 1)
        assert noticed == [now_ms]

from __future__ import annotations

import asyncio
import logging
import struct
from typing import Any
from unittest.mock import Mock

import pytest

from barnabas.broker.config.listeners import LOCAL
from barnabas.broker.context import RequestContext
from barnabas.broker.host import looking
from barnabas.broker.host.channel import OUT_BYTES_MAX, Channel
from barnabas.broker.host.states import STALLED, State
from barnabas.protocol.requests.api_versions import ApiVersionsResponse
from tests.broker.host.fake_core import FakeCore, api_versions_request, client, parks, serving, until


def answer(context: RequestContext) -> None:
    context.respond(ApiVersionsResponse())


async def test_pipelined_requests_are_answered_in_order_and_in_one_write() -> None:
    core = FakeCore()
    async with serving(core) as host, client(host.port) as raw:
        now_ms = host.now_ms()
        host.now_ms = lambda: now_ms  # their turn does not end, however slow this machine is just now
        raw.send(b"".join(api_versions_request(number) for number in range(50)))
        assert [await raw.answer() for _ in range(50)] == list(range(50))
        (channel,) = host.channels.values()
        assert channel.writes == 1


async def test_the_second_of_two_requests_waits_while_the_first_is_parked() -> None:
    core = FakeCore(parks)
    async with serving(core) as host, client(host.port) as raw, client(host.port) as other:
        raw.ask(1)
        raw.ask(2)
        other.ask(3)
        await until(lambda: len(core.contexts) == 2)
        answer(core.contexts[1])
        host.settle()
        assert await other.answer() == 3
        assert len(core.contexts) == 2, "the parked request's follower was not handled"
        answer(core.contexts[0])
        host.settle()
        await until(lambda: len(core.contexts) == 3)
        answer(core.contexts[2])
        host.settle()
        assert [await raw.answer(), await raw.answer()] == [1, 2]


async def test_reading_stops_behind_a_parked_request_and_goes_on_after_it() -> None:
    core = FakeCore(parks)
    async with serving(core) as host, client(host.port) as raw:
        raw.ask(0)
        await until(lambda: len(core.contexts) == 1)
        (channel,) = host.channels.values()
        assert not channel.paused, "a consumer that only waits costs no system call"
        flood = b"".join(api_versions_request(number) for number in range(1, 1000))
        raw.send(flood)
        await until(lambda: channel.paused)
        assert looking.connection(channel, 0)["receive_bytes"] <= 2 * 1024 * 1024
        core.handler = lambda request, context, now_ms: answer(context)
        answer(core.contexts[0])
        host.settle()
        assert [await raw.answer() for _ in range(1000)] == list(range(1000))
        await until(lambda: not channel.paused)


async def test_a_request_without_an_answer_lets_the_next_one_through() -> None:
    core = FakeCore(lambda request, context, now_ms: context.respond(None))
    async with serving(core) as host, client(host.port) as raw:
        raw.ask(1)
        await until(lambda: len(core.requests) == 1)
        core.handler = lambda request, context, now_ms: answer(context)
        raw.ask(2)
        assert await raw.answer() == 2


async def test_a_second_answer_to_one_request_is_a_defect_that_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def twice(request: Any, context: RequestContext, now_ms: int) -> None:
        answer(context)
        answer(context)

    async with serving(FakeCore(twice)) as host, client(host.port) as raw:
        raw.ask(1)
        raw.ask(2)
        assert [await raw.answer(), await raw.answer()] == [1, 2]
        raw.writer.write_eof()
        assert await raw.ended() == b""
    assert "was answered twice" in caplog.text


async def test_the_core_can_end_a_connection(caplog: pytest.LogCaptureFixture) -> None:
    core = FakeCore(lambda request, context, now_ms: context.close("acks=0 failed"))
    async with serving(core) as host, client(host.port) as raw:
        raw.ask(1)
        assert await raw.ended() == b""
        await until(lambda: not host.channels)
        assert core.closed == core.opened
    assert "acks=0 failed" in caplog.text


async def test_an_answer_to_a_connection_that_is_gone_goes_nowhere() -> None:
    core = FakeCore(parks)
    async with serving(core) as host:
        async with client(host.port) as raw:
            raw.ask(1)
            await until(lambda: len(core.contexts) == 1)
        await until(lambda: not host.channels)
        answer(core.contexts[0])
        host.settle()
        async with client(host.port) as raw:
            raw.ask(2)
            await until(lambda: len(core.contexts) == 2)


async def test_an_unknown_version_of_api_versions_is_answered_with_35_in_v0_form() -> None:
    async with serving(FakeCore()) as host, client(host.port) as raw:
        raw.send(struct.pack(">ihhih", 10, 18, 99, 7, -1))
        frame = await raw.frame()
        assert frame == struct.pack(">ihihhh", 7, 35, 1, 18, 0, 4)
        raw.ask(8)
        assert await raw.answer() == 8


async def test_an_unknown_version_of_another_api_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(FakeCore()) as host, client(host.port) as raw:
        raw.ask(1)
        raw.send(struct.pack(">ihhih", 10, 3, 99, 7, -1))
        assert await raw.answer() == 1
        assert await raw.ended() == b""
    assert "v99 is not served" in caplog.text


async def test_a_slow_reader_is_bounded_and_served_again_when_it_reads() -> None:
    megabyte = memoryview(bytes(1024 * 1024))
    core = FakeCore()
    async with serving(core) as host, client(host.port) as raw:
        raw.ask(0)
        await raw.answer()
        (channel,) = host.channels.values()

        def flood(request: Any, context: RequestContext, now_ms: int) -> None:
            channel.send([struct.pack(">i", len(megabyte)), megabyte])
            context.respond(None)

        core.handler = flood
        raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
        raw.send(b"".join(api_versions_request(number) for number in range(100)))
        await until(lambda: channel.waits & STALLED != 0 and channel.transport.get_write_buffer_size() > 0)
        handled = len(core.requests)
        raw.send(b"".join(api_versions_request(number) for number in range(100)))
        await until(lambda: channel.paused)
        assert len(core.requests) == handled < 60
        # One turn's answers leave in one write: so much a peer that reads nothing can make us hold, and no more.
        assert looking.connection(channel, 0)["send_bytes"] <= OUT_BYTES_MAX + len(megabyte)
        raw.writer.transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(200):
            assert len(await raw.frame()) == len(megabyte)
        assert len(core.requests) == 201


async def test_a_throttled_connection_is_answered_and_then_muted() -> None:
    core = FakeCore(lambda request, context, now_ms: context.respond(ApiVersionsResponse(throttle_time_ms=60_000)))
    async with serving(core) as host, client(host.port) as raw, client(host.port) as other:
        raw.ask(1, version=1)
        assert await raw.answer() == 1
        raw.ask(2)
        (channel, _) = host.channels.values()
        await until(lambda: channel.paused)
        core.handler = lambda request, context, now_ms: answer(context)
        other.ask(3)
        assert await other.answer() == 3
        assert len(core.requests) == 2
        channel.unmute()
        assert await raw.answer() == 2


async def test_of_a_throttled_connection_that_is_gone_nothing_is_kept() -> None:
    """It was until its throttle time was over, 100 s for one that owes: 2 KB for each, thousands a second."""
    core = FakeCore(lambda request, context, now_ms: context.respond(ApiVersionsResponse(throttle_time_ms=60_000)))
    async with serving(core) as host:
        async with client(host.port) as raw:
            raw.ask(1, version=1)
            assert await raw.answer() == 1
            (channel,) = host.channels.values()
            timer = host.muted[channel]
        await until(lambda: not host.channels)
        assert timer.cancelled()
        assert not host.muted


async def test_other_dialects_than_kafka_are_told_by_their_first_bytes(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(FakeCore()) as host:
        async with client(host.port) as raw:
            raw.send(bytes.fromhex("160301020001"))
            assert await raw.ended() == b""
        async with client(host.port) as raw:
            raw.send(b"GET /health HT")
            await until(lambda: host.received_bytes >= 14)
            raw.send(b"TP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await raw.ended()).startswith(b"HTTP/1.1 200 OK\r\n")
        await until(lambda: not host.channels)
    assert len(caplog.records) == 1
    assert "it speaks TLS" in caplog.text


async def test_first_bytes_that_come_one_by_one_are_enough() -> None:
    async with serving(FakeCore()) as host, client(host.port) as raw:
        for index, byte in enumerate(api_versions_request(5), 1):
            raw.send(bytes([byte]))
            await until(lambda want=index: host.received_bytes == want)  # type: ignore[misc]
        assert await raw.answer() == 5


async def test_too_many_connections_are_refused_and_harm_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(FakeCore(), max_connections=2) as host, client(host.port) as one, client(host.port) as two:
        one.ask(1)
        assert await one.answer() == 1
        await until(lambda: len(host.channels) == 2)
        async with client(host.port) as three:
            assert await three.ended() == b""
        two.ask(2)
        assert await two.answer() == 2
        assert host.admission.refused == 1
        await two.close()
        await until(lambda: len(host.channels) == 1)
        async with client(host.port) as four:
            four.ask(4)
            assert await four.answer() == 4
    assert "max.connections allows no more" in caplog.text


async def test_connections_leave_handles_for_files(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(FakeCore()) as host:
        host.admission.sockets_max = 1
        async with client(host.port) as one, client(host.port) as two:
            one.ask(1)
            assert await one.answer() == 1
            assert await two.ended() == b""
            assert host.admission.refused == 1
    assert "ulimit -n" in caplog.text


async def test_connections_of_one_address_are_bounded() -> None:
    async with serving(FakeCore(), max_connections_per_ip=1) as host, client(host.port) as one:
        one.ask(1)
        assert await one.answer() == 1
        async with client(host.port) as two:
            assert await two.ended() == b""


async def test_a_silent_connection_is_let_go_and_one_that_waits_for_its_answer_is_not() -> None:
    core = FakeCore(parks)
    async with serving(core, connections_max_idle_ms=60) as host, client(host.port) as waits, client(host.port) as idle:
        waits.ask(1)
        assert await idle.ended() == b""
        assert len(host.channels) == 1
        answer(core.contexts[0])
        host.settle()
        assert await waits.answer() == 1
        assert await waits.ended() == b""


async def test_the_sockets_of_a_stopped_host_are_closed() -> None:
    core = FakeCore(parks)
    async with serving(core) as host, client(host.port) as raw:
        raw.ask(1)
        await until(lambda: len(core.contexts) == 1)
        await host.stop()
        assert await raw.ended() == b""
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", host.port)


async def test_who_is_accepted_while_the_broker_stops_is_let_go_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """A loop tells of some connections a round after their accept: nobody would close one that comes after the end."""
    core = FakeCore()
    async with serving(core) as host:
        await host.stop()
        late, transport = Channel(host, "PLAINTEXT"), Mock(asyncio.Transport)
        transport.get_extra_info.return_value = None
        late.connection_made(transport)
        transport.abort.assert_called_once_with()
        late.connection_lost(None)
    assert not host.channels
    assert late.state is State.GONE
    assert caplog.messages == [], "nothing is refused for a fault of the peer"


@pytest.mark.parametrize(("listener", "comes_in"), [("PLAINTEXT", False), (LOCAL, True)])
async def test_who_was_reset_before_it_came_in_counts_for_nobody(
    caplog: pytest.LogCaptureFixture, listener: str, comes_in: bool
) -> None:
    """What it had sent was handled, and counted for the administrator, who alone has no address."""
    core = FakeCore()
    async with serving(core) as host:
        gone, transport = Channel(host, listener), Mock(asyncio.Transport)
        transport.get_extra_info.return_value = None
        gone.connection_made(transport)
        assert (host.channels == {1: gone}, transport.abort.called) == (comes_in, not comes_in)
        assert gone.connection.client_host == ("local" if comes_in else "")
        assert (host.admission.open, host.admission.refused) == (0, int(not comes_in))
        gone.connection_lost(None)
        assert not host.channels
    assert caplog.messages == []


@pytest.fixture(autouse=True)
def _warnings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "barnabas")


async def test_bytes_that_a_parked_request_looks_into_are_not_received_into_again() -> None:
    """Nobody below has to copy in fear."""
    views: list[memoryview] = []
    core = FakeCore(parks)
    async with serving(core) as host, client(host.port) as raw, client(host.port) as other:
        first = host.buffers.current

        def keeps(request: Any, context: RequestContext, now_ms: int) -> None:
            views.append(memoryview(first)[:15])

        other.ask(1)
        await until(lambda: len(core.requests) == 1)
        assert host.buffers.shared() is first
        core.handler = keeps
        raw.ask(2)
        await until(lambda: len(core.requests) == 2)
        kept = bytes(views[0])
        core.handler = lambda request, context, now_ms: answer(context)
        answer(core.contexts[0])
        host.settle()
        other.ask(3)
        assert [await other.answer(), await other.answer()] == [1, 3]
        assert host.buffers.current is not first
        assert views[0] == kept == api_versions_request(2)


async def test_costly_requests_of_one_connection_leave_room_for_another_after_a_few() -> None:
    """Time moves by 2 ms with every request: after four the turn is over, though 100 wait."""
    core = FakeCore()
    async with serving(core) as host, client(host.port) as greedy, client(host.port) as other:
        now_ms = host.now_ms()
        host.now_ms = lambda: now_ms
        order: list[int] = []

        def costly(request: Any, context: RequestContext, at_ms: int) -> None:
            nonlocal now_ms
            now_ms += 2
            order.append(context.connection.id)
            answer(context)

        core.handler = costly
        greedy.send(b"".join(api_versions_request(number) for number in range(100)))
        await until(lambda: bool(host.turns.line))
        assert 0 < len(order) < 100
        assert len(order) % 4 == 0
        (channel,) = host.turns.line
        assert channel.paused, "nothing more of it is read until its next turn"
        other.ask(7)
        assert await other.answer() == 7
        assert [await greedy.answer() for _ in range(100)] == list(range(100))
        assert not host.turns.line
        assert not channel.paused
        assert 4 < order.index(2) < 100, "the other's was handled in between"

"""One round of the loop, however many connections have brought something in it, stays short."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from barnabas.broker.context import RequestContext
from barnabas.broker.host import dialects, ticks
from barnabas.broker.host.channel import Channel
from barnabas.broker.host.host import Host
from barnabas.broker.host.sockets import AT_ONCE
from barnabas.broker.host.states import QUEUED, State
from barnabas.broker.host.turns import LARGE_BYTES, LATE_MS, MEDIUM_BYTES, VERY_LATE_MS
from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka import codec as kafka
from barnabas.protocol.native import codec as native
from barnabas.protocol.requests.api_versions import ApiVersionsRequest
from barnabas.protocol.requests.create_topics import CreateTopicsRequest
from barnabas.protocol.requests.metadata import MetadataRequest
from tests.broker.host.fake_core import FakeCore, api_versions_request, serving, until

KAFKA_VERSIONS = api_versions_request(1)
NATIVE_VERSIONS = b"".join(
    bytes(part) for part in native.encode_request(ApiKey.API_VERSIONS, 0, 1, "t", ApiVersionsRequest())
)
SENT_ON = b"".join(map(bytes, kafka.encode_request(ApiKey.CREATE_TOPICS, 7, 1, "c", CreateTopicsRequest([]))))


def sized(size: int) -> bytes:
    """A request of so many bytes, its length included."""
    short = len(b"".join(kafka.encode_request(ApiKey.METADATA, 1, 1, "", MetadataRequest([]))))
    return b"".join(map(bytes, kafka.encode_request(ApiKey.METADATA, 1, 1, "c" * (size - short), MetadataRequest([]))))


class Wire:
    """As much of a transport as a channel uses; what is written is kept."""

    def __init__(self) -> None:
        self.written = b""
        self.reading = True

    def write(self, data: Any) -> None:
        self.written += data

    def writelines(self, buffers: Any) -> None:
        self.written += b"".join(buffers)

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        """Never reached."""

    def get_extra_info(self, name: str) -> tuple[str, int] | None:
        """Its address; nothing else is known."""
        return ("127.0.0.1", 1) if name == "peername" else None

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.reading = False

    abort = close


class Round:
    """A host whose clock a test moves: what is told within one step of the test is one round of the loop."""

    def __init__(self, host: Host, core: FakeCore) -> None:
        self.host, self.core = host, core
        self.now_ms = host.now_ms()
        host.now_ms = lambda: self.now_ms
        self.served: list[int] = []
        self.cost_ms = 0
        core.handler = self.handle

    def handle(self, request: Any, context: RequestContext, now_ms: int) -> None:
        self.now_ms += self.cost_ms
        self.served.append(context.connection.id)
        context.respond(None)

    async def begin(self) -> Channel:
        """A round is noticed: somebody was served first in it."""
        channel = self.connect()
        await until(lambda: not self.host.turns.look_due)
        self.now_ms += LATE_MS
        cost_ms, self.cost_ms = self.cost_ms, 0
        tell(channel, sized(60))
        self.cost_ms = cost_ms
        return channel

    def connect(self, begin: bytes = KAFKA_VERSIONS, channel: Channel | None = None) -> Channel:
        """A connection that has told its dialect, if it begins with something."""
        channel = channel or Channel(self.host, "PLAINTEXT")
        channel.connection_made(cast("Any", Wire()))
        if begin:
            cost_ms, self.cost_ms = self.cost_ms, 0
            tell(channel, begin)
            self.cost_ms = cost_ms
            self.served.clear()
        return channel


def tell(channel: Channel, data: bytes) -> None:
    """The loop has received something."""
    target = memoryview(channel.get_buffer(-1))
    target[: len(data)] = data
    target.release()
    channel.buffer_updated(len(data))


@asynccontextmanager
async def a_round() -> AsyncIterator[Round]:
    core = FakeCore()
    async with serving(core) as host:
        yield Round(host, core)
        for channel in list(host.channels.values()):
            channel.connection_lost(None)


@pytest.mark.parametrize(
    ("gone_ms", "waits_from"), [(LATE_MS - 1, None), (LATE_MS, MEDIUM_BYTES), (VERY_LATE_MS, 0)], ids=str
)
@pytest.mark.parametrize("size", [60, MEDIUM_BYTES - 1, MEDIUM_BYTES, LARGE_BYTES])
async def test_the_later_in_a_round_the_smaller_is_what_waits(gone_ms: int, waits_from: int | None, size: int) -> None:
    async with a_round() as one:
        other = one.connect()
        await one.begin()
        one.now_ms += gone_ms
        tell(other, sized(size))
        waits = waits_from is not None and size >= waits_from
        assert (other in one.host.turns.line) == waits == (other.connection.id not in one.served)
        assert other.waits == (QUEUED if waits else 0)
        await until(lambda: len(one.served) == 2)
        assert not other.waits
        assert cast("Any", other.transport).reading


async def test_many_costly_requests_in_one_moment_have_turns_between_which_others_are_served() -> None:
    """A thousand fetches of 200 partitions, 2 ms each, had all their turns between two looks at the sockets."""
    async with a_round() as one:
        many, other = [one.connect() for _ in range(200)], one.connect()
        await until(lambda: not one.host.turns.look_due)
        one.cost_ms = 2
        for channel in many:
            tell(channel, sized(2 * MEDIUM_BYTES))
        assert len(one.served) <= 2 * LATE_MS
        await until(lambda: len(one.served) >= 50)
        began = len(one.served)
        tell(other, sized(60))
        assert one.served[-1] == other.connection.id
        assert len(one.served) == began + 1 < 100
        await until(lambda: len(one.served) == 201)
        one.served.remove(other.connection.id)
        assert one.served == [channel.connection.id for channel in many], "first come, first served"


@pytest.mark.parametrize("came", [AT_ONCE - 1, AT_ONCE])
async def test_where_connections_come_by_all_doors_requests_wait_for_those_behind_them(came: int) -> None:
    """Who came behind 1,000 that ask for 490 partitions each was let in after 0.6 s of work for them."""
    async with a_round() as one:
        other, asker = one.connect(), one.connect()
        await until(lambda: not one.host.turns.look_due)
        for _ in range(came):
            one.connect(b"")
        tell(asker, KAFKA_VERSIONS)
        tell(other, sized(60))
        assert list(one.host.turns.line) == ([other] if came == AT_ONCE else [])
        assert asker.connection.id in one.served, "who asks for ApiVersions does not wait for that"
        await until(lambda: other.connection.id in one.served)
        late = one.connect()
        await until(lambda: not one.host.turns.look_due)
        tell(late, sized(60))
        assert late.connection.id in one.served, "it is over with the next look"


async def test_small_requests_wait_too_once_they_have_taken_long() -> None:
    async with a_round() as one:
        many = [one.connect() for _ in range(200)]
        await until(lambda: not one.host.turns.look_due)
        one.cost_ms = 1
        for channel in many:
            tell(channel, sized(60))
        assert len(one.served) <= 2 * LATE_MS + VERY_LATE_MS
        await until(lambda: len(one.served) == 200)


async def test_who_waits_has_turns_though_those_who_are_served_ask_again_at_once() -> None:
    """A thousand members' heartbeats: those in line had 1 ms in each round of 26, and waited for seconds."""
    async with a_round() as one:
        many = [one.connect() for _ in range(200)]
        await until(lambda: not one.host.turns.look_due)
        one.cost_ms = 1
        for _ in range(12):
            for channel in many:
                if not channel.waits:
                    tell(channel, sized(60))
            await a_look()
        assert set(one.served) == {channel.connection.id for channel in many}


class OfBroker(Channel):
    """Another broker's connection, as far as turns go by it."""

    __slots__ = ()
    of_brokers = True


async def test_other_brokers_go_before_all_clients_in_line_but_not_with_what_they_send_on() -> None:
    """Voters waited behind clients' large requests for seconds, again and again, and the cluster had no controller."""
    async with a_round() as one:
        clients = [one.connect() for _ in range(20)]
        brokers = [one.connect(channel=OfBroker(one.host, "BROKERS")) for _ in range(2)]
        await until(lambda: not one.host.turns.look_due)
        one.cost_ms = 2 * VERY_LATE_MS
        for channel in clients:
            tell(channel, sized(LARGE_BYTES))
        tell(brokers[0], sized(60))
        tell(brokers[1], SENT_ON)
        assert one.served[2:] == [brokers[0].connection.id]
        assert list(one.host.turns.line) == [*clients[2:], brokers[1]]
        await until(lambda: len(one.served) == 22)


async def a_look() -> None:
    """Once round the loop."""
    loop = asyncio.get_running_loop()
    looked = loop.create_future()
    loop.call_soon(looked.set_result, None)
    await looked


@pytest.mark.parametrize(
    ("begin", "request_"),
    [
        (KAFKA_VERSIONS, KAFKA_VERSIONS),
        (b"", KAFKA_VERSIONS),
        (b"BNB1" + NATIVE_VERSIONS, NATIVE_VERSIONS),
        (b"", b"BNB1" + NATIVE_VERSIONS),
    ],
    ids=["kafka", "kafka first", "native", "native first"],
)
async def test_who_asks_for_api_versions_and_nothing_else_stands_behind_its_like(begin: bytes, request_: bytes) -> None:
    async with a_round() as one:
        many, other, greedy = [one.connect() for _ in range(9)], one.connect(begin), one.connect(begin)
        first = await one.begin()
        one.now_ms += VERY_LATE_MS
        one.cost_ms = VERY_LATE_MS
        for channel in many:
            tell(channel, sized(60))
        tell(other, request_)
        tell(greedy, request_ + request_.removeprefix(b"BNB1"))
        assert one.served == [first.connection.id]
        assert list(one.host.turns.line) == [*many, greedy]
        await until(lambda: len(one.served) == 3 + len(many) + 1)
        assert one.served[1] == other.connection.id


def late_in_a_round(one: Round, *, asked_before: bool) -> list[Channel]:
    """So many connections that all they ask for in one moment takes far longer than a round may."""
    return [one.connect(KAFKA_VERSIONS if asked_before else b"") for _ in range(500)]


async def test_who_comes_behind_many_that_ask_for_versions_is_served_once_it_has_come() -> None:
    """Of 4,900 all were served before the next connection was looked at; those that asked again at once, too."""
    async with a_round() as one:
        many = late_in_a_round(one, asked_before=True)
        await until(lambda: not one.host.turns.look_due)
        one.cost_ms = 1
        for channel in many:
            tell(channel, KAFKA_VERSIONS)
        assert len(one.served) <= LATE_MS + VERY_LATE_MS
        await a_look()
        newcomer = one.connect(b"")
        tell(newcomer, KAFKA_VERSIONS)
        assert one.served[-1] == newcomer.connection.id
        assert len(one.served) <= LATE_MS + 2 * VERY_LATE_MS
        await until(lambda: len(one.served) == len(many) + 1)
        one.served.remove(newcomer.connection.id)
        assert one.served == [channel.connection.id for channel in many], "first come, first served"


@pytest.mark.parametrize("asked_before", [True, False], ids=["asked before", "silent before"])
async def test_the_newest_that_asks_first_has_the_next_turn(asked_before: bool) -> None:
    """They all came before, and have been silent: it is known by nothing but that it came last."""
    async with a_round() as one:
        many, newcomer = late_in_a_round(one, asked_before=asked_before), one.connect(b"")
        await until(lambda: not one.host.turns.look_due)
        one.cost_ms = 1
        for channel in [*many, newcomer]:
            tell(channel, KAFKA_VERSIONS)
        served = len(one.served)
        assert newcomer.connection.id not in one.served
        await until(lambda: len(one.served) > served)
        assert one.served[served] == newcomer.connection.id
        await until(lambda: len(one.served) == len(many) + 1)


async def test_who_asks_first_and_who_has_asked_before_take_turns() -> None:
    async with a_round() as one:
        old, new = [one.connect() for _ in range(20)], [one.connect(b"") for _ in range(40)]
        await one.begin()
        one.served.clear()
        one.now_ms += VERY_LATE_MS
        for channel in [*old, *new]:
            tell(channel, KAFKA_VERSIONS)
        assert not one.served
        await until(lambda: len(one.served) == 60)
        assert one.served[:40:2] == [channel.connection.id for channel in reversed(new[20:])]
        assert one.served[1:40:2] == [channel.connection.id for channel in old]


async def test_who_asks_for_versions_again_at_once_stands_behind_those_that_wait() -> None:
    async with a_round() as one:
        many = [one.connect() for _ in range(200)]
        await until(lambda: not one.host.turns.look_due)
        one.cost_ms = 1
        for _ in range(400):
            for channel in many:
                if not channel.waits:
                    tell(channel, KAFKA_VERSIONS)
            await a_look()
        times = [one.served.count(channel.connection.id) for channel in many]
        assert max(times) - min(times) <= 1
        assert min(times) > 1


class OfABroker(Channel):
    """One that is told what another broker says."""

    of_brokers = True


async def test_another_broker_waits_for_no_client() -> None:
    """Its heartbeat stood behind all that clients had asked for in one moment, be it longer than its session."""
    async with a_round() as one:
        many, broker = [one.connect() for _ in range(9)], OfABroker(one.host, "BROKERS")
        broker.connection_made(cast("Any", Wire()))
        tell(broker, KAFKA_VERSIONS)
        first = await one.begin()
        one.served.clear()
        one.now_ms += VERY_LATE_MS
        one.cost_ms = VERY_LATE_MS
        for channel in many:
            tell(channel, sized(LARGE_BYTES))
        assert one.served == []
        tell(broker, sized(60))
        assert one.served == [broker.connection.id]
        tell(broker, sized(60) * 2)  # what is left over when its turn is, has the next
        assert one.served == [broker.connection.id] * 2
        await until(lambda: len(one.served) > 3)
        assert one.served[2] == broker.connection.id
        await until(lambda: len(one.served) == 3 + len(many))
        assert not first.waits


def test_no_other_request_passes_for_api_versions() -> None:
    like_native = struct.pack(">ihhI", 8, ApiKey.METADATA, 1, 0x95120000)  # its correlation id is chosen by the peer
    for data in (sized(60), KAFKA_VERSIONS[:-1], KAFKA_VERSIONS + b"\0", like_native, b"", b"BNB1"):
        assert not dialects.asks_for_versions(data, native=False)
    for data in (KAFKA_VERSIONS, NATIVE_VERSIONS[:-1], NATIVE_VERSIONS + b"\0", b""):
        assert not dialects.asks_for_versions(data, native=True)


async def test_a_frame_that_is_not_whole_takes_no_turn() -> None:
    async with a_round() as one:
        other = one.connect()
        await one.begin()
        one.now_ms += VERY_LATE_MS
        data = sized(3000)
        tell(other, data[:2000])
        assert not one.host.turns.line
        tell(other, data[2000:])
        assert list(one.host.turns.line) == [other]
        await until(lambda: len(one.served) == 2)


async def test_first_bytes_wait_undecided() -> None:
    """A page is costly, too; its request is told from Kafka's when its turn has come."""
    async with a_round() as one:
        web = one.connect(b"")
        await one.begin()
        one.now_ms += VERY_LATE_MS
        tell(web, b"GET /health HTTP/1.0\r\n\r\n")
        assert web.state is State.OPENING
        assert list(one.host.turns.line) == [web]
        await until(lambda: b"200 OK" in cast("Any", web.transport).written)


async def test_of_pages_that_many_ask_for_at_once_one_is_made_between_two_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sixteen of a thousand partitions each kept everybody else waiting for 175 ms."""
    rounds: list[int] = []
    async with a_round() as one:
        host, looks = one.host, 0
        real = host.snapshot

        def snapshot(first: int = 0, end: int | None = None) -> dict[str, Any]:
            rounds.append(looks)
            return real(first, end)

        monkeypatch.setattr(host, "snapshot", snapshot)
        peers = [one.connect(b"") for _ in range(5)]
        for peer in peers:
            tell(peer, b"GET /state HTTP/1.0\r\n\r\n")
        assert not rounds
        while len(rounds) < 5:
            looks += 1
            await asyncio.sleep(0)  # one round of the loop
            assert rounds.count(looks) <= 1


async def test_what_waited_behind_an_answer_waits_for_its_turn_as_well() -> None:
    async with a_round() as one:
        kept: list[RequestContext] = []
        other = one.connect()
        one.core.handler = lambda request, context, now_ms: kept.append(context)
        tell(other, sized(60) + sized(60))
        one.core.handler = one.handle
        await one.begin()
        one.now_ms += VERY_LATE_MS
        kept[0].respond(None)
        other._go_on()
        assert list(one.host.turns.line) == [other]
        await until(lambda: len(one.served) == 2)


async def test_who_is_gone_before_its_turn_is_passed_over() -> None:
    async with a_round() as one:
        gone, other = one.connect(), one.connect()
        await one.begin()
        one.now_ms += VERY_LATE_MS
        tell(gone, sized(60))
        tell(other, sized(60))
        gone.connection_lost(None)
        await until(lambda: len(one.served) == 2)
        assert gone.connection.id not in one.served
        assert not one.host.turns.line
        assert one.host.account.total == 0


async def test_the_brokers_own_jobs_have_as_much_time_as_the_line() -> None:
    """A start under a flood never came to its end: a job had 3 ms in a round, a request in line 25."""
    async with a_round() as one:
        many = [one.connect() for _ in range(21)]
        spent_ms = 0

        def step(now_ms: int) -> bool:
            nonlocal spent_ms
            one.now_ms += 1
            spent_ms += 1
            return len(one.served) < len(many)

        one.cost_ms = 25
        for channel in many:
            tell(channel, sized(LARGE_BYTES))
        one.core.run_job_step = step  # type: ignore[method-assign]
        one.core.on_jobs()
        await until(lambda: len(one.served) == len(many))
        assert spent_ms >= 15 * 25


async def test_the_line_does_not_rest_where_there_are_no_jobs() -> None:
    async with a_round() as one:
        many = [one.connect() for _ in range(20)]
        one.cost_ms = 25
        for channel in many:
            tell(channel, sized(LARGE_BYTES))
        began_ms, served = one.now_ms, len(one.served)
        await until(lambda: len(one.served) == len(many))
        assert one.now_ms - began_ms == 25 * (len(many) - served)


@pytest.mark.parametrize(("cost_ms", "all_heard"), [(1, True), (5, False)])
async def test_a_late_tick_waits_for_those_in_line_and_no_longer_than_it_may(cost_ms: int, all_heard: bool) -> None:
    """Some thousand members' heartbeats, which have come while the process was paused, are more than one round's."""
    async with a_round() as one:
        many = [one.connect() for _ in range(100)]
        await until(lambda: not one.host.turns.look_due)
        heard: list[int] = []
        one.core.on_tick = lambda now_ms: heard.append(len(one.served))
        one.core.deadline_ms = one.now_ms + 3_600_000
        one.host.settle()
        one.now_ms += 3_600_000 + ticks.LATE_MS + 1
        one.host.ticks._come()
        one.cost_ms, began_ms = cost_ms, one.now_ms
        for channel in many:
            tell(channel, sized(60))
        assert one.host.turns.line
        await until(lambda: bool(heard))
        assert (heard[0] == len(many)) == all_heard
        assert heard[0] >= min(len(many), ticks.HEARD_MS_MAX // cost_ms)
        assert one.now_ms - began_ms <= ticks.HEARD_MS_MAX + VERY_LATE_MS
        await until(lambda: len(one.served) == len(many))

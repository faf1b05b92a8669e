"""A core of a few lines for tests of the host, and a raw client."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

from barnabas.broker.account import Account
from barnabas.broker.config import BrokerConfig, Endpoint
from barnabas.broker.context import Connection, RequestContext
from barnabas.broker.host.host import Host
from barnabas.broker.host.sockets import listen
from barnabas.broker.metrics import MetricsRegistry
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.api_versions import ApiVersionsRequest, ApiVersionsResponse

BOUND_S = 60.0


class FakeCore:
    """Answers every request with `handler`; keeps what it was told."""

    def __init__(self, handler: Callable[[Any, RequestContext, int], None] | None = None) -> None:
        self.on_jobs: Callable[[], None] = lambda: None
        self.handler = handler or (lambda request, context, now_ms: context.respond(ApiVersionsResponse()))
        self.ready = True
        self.has_lines = False
        self.endpoints: tuple[Endpoint, ...] = ()
        self.account = Account()
        self.fault: Exception | None = None
        self.requests: list[Any] = []
        self.contexts: list[RequestContext] = []
        self.opened: list[Connection] = []
        self.closed: list[Connection] = []
        self.deadline_ms: int | None = None
        self.ticks: list[int] = []
        self.ahead: tuple[()] = ()
        self.rescheduled = True
        self.wakes = 0
        self.job_steps = 0
        self.on_tick: Callable[[int], None] = lambda now_ms: None

    def start(self, now_ms: int) -> None:
        self.started_ms = now_ms

    def handle(self, request: Any, context: RequestContext, now_ms: int) -> None:
        self.requests.append(request)
        self.contexts.append(context)
        self.handler(request, context, now_ms)

    def tick(self, now_ms: int) -> None:
        self.ticks.append(now_ms)
        if self.deadline_ms is not None and now_ms >= self.deadline_ms:
            self.deadline_ms = None
            self.on_tick(now_ms)

    def next_deadline_ms(self) -> int | None:
        return self.deadline_ms

    def run_job_step(self, now_ms: int) -> bool:
        self.job_steps -= 1
        return self.job_steps > 0

    def wake(self, now_ms: int) -> None:
        self.wakes += 1

    def connected(self, connection: Connection) -> None:
        self.opened.append(connection)

    def disconnected(self, connection: Connection) -> None:
        self.closed.append(connection)

    def snapshot(self, now_ms: int, first: int = 0, end: int | None = None) -> dict[str, Any]:
        return {"partitions": [], "at_ms": now_ms}

    def stop(self, now_ms: int, done: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(done)


def parks(request: Any, context: RequestContext, now_ms: int) -> None:
    """A handler that answers nothing yet."""


@asynccontextmanager
async def serving(core: FakeCore, **settings: Any) -> AsyncIterator[Host]:
    config = BrokerConfig(**settings)
    listening = listen([Endpoint("PLAINTEXT", "127.0.0.1", 0)], 100)
    host = Host(cast("Any", core), config, MetricsRegistry())
    await host.start(listening)
    try:
        yield host
    finally:
        await host.stop()


class Raw:
    """A client that sends and receives bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def ask(self, correlation_id: int, version: int = 0) -> None:
        self.send(api_versions_request(correlation_id, version))

    async def frame(self) -> bytes:
        head = await asyncio.wait_for(self.reader.readexactly(4), BOUND_S)
        return await asyncio.wait_for(self.reader.readexactly(struct.unpack(">i", head)[0]), BOUND_S)

    async def answer(self) -> int:
        """The correlation id of the next answer."""
        return int(struct.unpack_from(">i", await self.frame())[0])

    async def ended(self) -> bytes:
        """What still comes until the peer closes."""
        try:
            return await asyncio.wait_for(self.reader.read(-1), BOUND_S)
        except ConnectionResetError:
            return b""

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


@asynccontextmanager
async def client(port: int) -> AsyncIterator[Raw]:
    raw = Raw(*await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), BOUND_S))
    try:
        yield raw
    finally:
        await raw.close()


def api_versions_request(correlation_id: int, version: int = 0) -> bytes:
    return b"".join(
        bytes(part) for part in codec.encode_request(18, version, correlation_id, "t", ApiVersionsRequest())
    )


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until the condition holds."""

    async def spin() -> None:
        while not condition():  # noqa: ASYNC110 - the conditions of the tests are plain attributes
            await asyncio.sleep(0)

    await asyncio.wait_for(spin(), BOUND_S)

"""Every timeout bounds its call, whatever a broker does: it falls silent, never answers, or is not there."""

from __future__ import annotations

import asyncio
import inspect
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from barnabas import Admin, Consumer, Producer, TopicPartition, aio
from barnabas.net.errors import ClientTimeout
from barnabas.protocol.errors import BarnabasError
from tests.client.scripted import ScriptedBroker

WHERE = TopicPartition("t", 0)
SHORT = 0.1
BOUND = 25
"""Less than any default (30 s for a request, 60 s for a call), far more than a busy machine needs for `SHORT`."""
START = 60
"""What it may take, in all, until a client of a short limit knows the cluster (s)."""
LIMITS: Any = {"default_api_timeout_ms": 100, "max_block_ms": 100}


@pytest.fixture
def closed_port() -> Iterator[int]:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        yield nobody.getsockname()[1]


async def ended(work: Awaitable[Any]) -> Any:
    """What a call that is bounded returned, or the error it ended with."""
    try:
        return await asyncio.wait_for(work, BOUND)
    except TimeoutError as error:
        if not isinstance(error, BarnabasError):
            pytest.fail("the call did not end in time")
        return error
    except BarnabasError as error:
        return error


def is_error(result: Any) -> bool:
    return isinstance(result, BarnabasError)


Call = tuple[str, Callable[[Any], Any], Callable[[Any], bool]]

CONSUMER: list[Call] = [
    ("poll", lambda consumer: consumer.poll(SHORT), lambda result: result == []),
    ("poll_columns", lambda consumer: consumer.poll_columns(SHORT), lambda result: result == []),
    ("position", lambda consumer: consumer.position(WHERE, SHORT), is_error),
    ("wait_for_data", lambda consumer: consumer.wait_for_data({WHERE: 0}, SHORT), lambda result: result is False),
    ("beginning_offsets", lambda consumer: consumer.beginning_offsets([WHERE]), is_error),
    ("end_offsets", lambda consumer: consumer.end_offsets([WHERE]), is_error),
    ("offsets_for_times", lambda consumer: consumer.offsets_for_times({WHERE: 1}), is_error),
    ("partitions_for", lambda consumer: consumer.partitions_for("other"), is_error),
    ("subscribe", lambda consumer: consumer.subscribe("other"), is_error),
    ("commit", lambda consumer: consumer.commit({WHERE: 1}, SHORT), is_error),
    ("committed", lambda consumer: consumer.committed([WHERE], SHORT), is_error),
    ("unsubscribe", lambda consumer: consumer.unsubscribe(SHORT), lambda result: result is None),
    ("close", lambda consumer: consumer.close(SHORT), lambda result: result is None),
]
PRODUCER: list[Call] = [
    ("flush", lambda producer: producer.flush(SHORT), is_error),
    ("partitions_for", lambda producer: producer.partitions_for("other"), is_error),
    ("close", lambda producer: producer.close(SHORT), lambda result: result is None),
]
ADMIN: list[Call] = [
    ("list_topics", lambda admin: admin.list_topics(), is_error),
    ("describe_topics", lambda admin: admin.describe_topics("t"), is_error),
    ("describe_cluster", lambda admin: admin.describe_cluster(), is_error),
    ("describe_configs", lambda admin: admin.describe_configs("t"), is_error),
    ("alter_configs", lambda admin: admin.alter_configs("t", {"retention.ms": "1"}), is_error),
    ("create_topic", lambda admin: admin.create_topic("new"), is_error),
    ("create_partitions", lambda admin: admin.create_partitions("t", 3), is_error),
    ("delete_topic", lambda admin: admin.delete_topic("t"), is_error),
    ("delete_records", lambda admin: admin.delete_records({WHERE: 1}), is_error),
    ("lag", lambda admin: admin.lag({WHERE: 1}), is_error),
    ("list_groups", lambda admin: admin.list_groups(), is_error),
    ("describe_groups", lambda admin: admin.describe_groups("g"), is_error),
    ("delete_group", lambda admin: admin.delete_group("g"), is_error),
    ("group_offsets", lambda admin: admin.group_offsets("g"), is_error),
    ("group_lag", lambda admin: admin.group_lag("g"), is_error),
    ("alter_group_offsets", lambda admin: admin.alter_group_offsets("g", {WHERE: 1}), is_error),
    ("delete_group_offsets", lambda admin: admin.delete_group_offsets("g", WHERE), is_error),
    ("close", lambda admin: admin.close(), lambda result: result is None),
]
EVERY = [
    (kind, *call)
    for kind, calls in (("consumer", CONSUMER), ("producer", PRODUCER), ("admin", ADMIN))
    for call in calls
]
each_call = pytest.mark.parametrize(
    ("kind", "name", "call", "right"), EVERY, ids=[f"{one[0]}-{one[1]}" for one in EVERY]
)


async def knowing(make: Callable[[], Any]) -> Any:
    """A client that knows the cluster: not every one learns of it within its short limit on a busy machine."""
    async with asyncio.timeout(START):
        while True:
            client = make()
            try:
                await client.start()
                await (client.describe_topics if isinstance(client, aio.Admin) else client.partitions_for)("t")
                return client
            except ClientTimeout:
                await client.close()


@asynccontextmanager
async def opened(kind: str, servers: str) -> AsyncIterator[Any]:
    """A client of a loop that knows the cluster, with something to do."""
    limit = {"default_api_timeout_ms": 100}
    if kind == "producer":
        producer = await knowing(lambda: aio.Producer(servers, max_block_ms=100, linger_ms=0))
        yield producer
        await producer.close(0)
    elif kind == "consumer":
        config = {"bootstrap.servers": servers, "group.id": "g", **limit}
        async with await knowing(lambda: aio.Consumer(config=config)) as consumer:
            consumer.assign([WHERE])
            yield consumer
    else:
        async with await knowing(lambda: aio.Admin({"bootstrap.servers": servers, **limit})) as admin:
            yield admin


@each_call
async def test_a_broker_that_falls_silent(
    kind: str, name: str, call: Callable[[Any], Any], right: Callable[[Any], bool]
) -> None:
    async with ScriptedBroker() as broker, opened(kind, broker.servers) as client:
        broker.silent = True
        if kind == "producer":
            await client.send("t", b"x")
        assert right(await ended(call(client)))


@pytest.mark.parametrize("kind", ["Consumer", "Admin"])
@pytest.mark.parametrize("there", [True, False], ids=["silent", "refused"])
async def test_nobody_answers_at_the_start(kind: str, there: bool, closed_port: int) -> None:
    async with ScriptedBroker(silent=True) as broker:
        servers = broker.servers if there else f"127.0.0.1:{closed_port}"
        config = {"bootstrap.servers": servers, "default.api.timeout.ms": 100}
        assert is_error(await ended(getattr(aio, kind)(config=config).start()))
        blocking: Any = {"Consumer": Consumer, "Admin": Admin}[kind]
        assert is_error(await ended(asyncio.to_thread(lambda: blocking(config=config))))


@pytest.mark.parametrize("there", [True, False], ids=["silent", "refused"])
async def test_a_producer_whom_nobody_answers(there: bool, closed_port: int) -> None:
    async with ScriptedBroker(silent=True) as broker:
        servers = broker.servers if there else f"127.0.0.1:{closed_port}"
        producer = Producer(servers, max_block_ms=100)
        assert is_error((await ended(asyncio.to_thread(producer.send, "t", b"x"))).exception(BOUND))
        assert is_error(await ended(asyncio.to_thread(producer.partitions_for, "t")))
        await ended(asyncio.to_thread(producer.flush, SHORT))
        assert await ended(asyncio.to_thread(producer.close, SHORT)) is None


async def test_the_waits_of_a_blocking_producer() -> None:
    async with ScriptedBroker() as broker:
        producer = Producer(broker.servers, linger_ms=0)
        await asyncio.to_thread(producer.partitions_for, "t")
        broker.silent = True
        future = producer.send("t", b"x")
        for call in (future.result, future.exception, producer.flush):
            assert isinstance(await ended(asyncio.to_thread(call, SHORT)), TimeoutError)
        assert await ended(asyncio.to_thread(producer.close, SHORT)) is None
        assert is_error(future.exception(0))


def a_blocking_consumer(settings: dict[str, Any]) -> Consumer:
    """As `knowing`."""
    until_s = time.monotonic() + START
    while True:
        with suppress(ClientTimeout):
            consumer = Consumer(config=settings)
            with suppress(ClientTimeout):
                consumer.partitions_for("t")
                return consumer
            consumer.close()
        assert time.monotonic() < until_s


async def test_the_waits_of_a_blocking_consumer() -> None:
    async with ScriptedBroker() as broker:
        settings = {"bootstrap.servers": broker.servers, "default.api.timeout.ms": 100, "group.id": "g"}
        consumer = await asyncio.to_thread(a_blocking_consumer, settings)
        broker.silent = True
        await asyncio.to_thread(consumer.assign, [WHERE])
        for name, call, right in CONSUMER:
            assert right(await ended(asyncio.to_thread(call, consumer))), name


def test_the_tables_name_every_call_that_takes_a_timeout() -> None:
    for one, calls in ((aio.Consumer, CONSUMER), (aio.Producer, PRODUCER), (aio.Admin, ADMIN)):
        takes = {
            name
            for name, method in inspect.getmembers(one, inspect.isfunction)
            if not name.startswith("_") and "timeout" in inspect.signature(method).parameters
        }
        assert takes <= {name for name, _, _ in calls}

"""Groups with the bundled client in three settings: this broker in both dialects, and a real Apache Kafka."""

from __future__ import annotations

import asyncio
import inspect
import re
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from barnabas import (
    Admin,
    BarnabasError,
    Broker,
    ConfigError,
    Consumer,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    WaitRefused,
    aio,
)
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.kafka import consumer_protocol
from barnabas.protocol.requests.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas.protocol.requests.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas.protocol.requests.join_group import JoinGroupResponse
from barnabas.protocol.requests.sync_group import SyncGroupResponse
from tests.client.scripted import ScriptedBroker
from tests.client.served import QUICK, WAIT, Served


def read(consumer: Consumer, wanted: int) -> list[tuple[int, int]]:
    """So many records, as (partition, offset)."""
    found: list[tuple[int, int]] = []
    while len(found) < wanted:
        records = consumer.poll(WAIT, max_records=wanted - len(found))
        assert records, "nothing came"
        found += [(each.partition, each.offset) for each in records]
    return found


def test_a_group_goes_on_where_it_left_off(grouped: Served) -> None:
    topic, group = grouped.topic(2, 20), grouped.group()
    with Consumer(topic, group_id=group, **grouped.settings, **grouped.quick) as consumer:
        first = read(consumer, 7)
        assert consumer.health().ok
        assert consumer.health().state == "stable"
    with Consumer(topic, group_id=group, **grouped.settings, **grouped.quick) as consumer:
        rest = read(consumer, 13)
    assert sorted(first + rest) == [(partition, offset) for partition in range(2) for offset in range(10)]


def test_an_exception_commits_nothing_and_a_break_what_was_handed_out(grouped: Served) -> None:
    topic, group = grouped.topic(1, 10), grouped.group()
    settings = {**grouped.quick, "auto_commit_interval_ms": 60_000}
    seen = []

    def work() -> None:
        with Consumer(topic, group_id=group, **grouped.settings, **settings) as consumer:
            for record in consumer:
                seen.append(record.offset)
                if record.offset == 4:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    with Consumer(topic, group_id=group, **grouped.settings, **settings) as consumer:
        for record in consumer:
            seen.append(record.offset)
            if record.offset == 2:
                break
    with Consumer(topic, group_id=group, **grouped.settings, **settings) as consumer:
        seen += [offset for _, offset in read(consumer, 7)]
    assert seen == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_what_is_committed_by_hand(grouped: Served) -> None:
    topic, group = grouped.topic(2, 10), grouped.group()
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    settings = {**grouped.quick, "enable_auto_commit": False}
    with Consumer(topic, group_id=group, **grouped.settings, **settings) as consumer:
        read(consumer, 10)
        assert consumer.committed([zero, one]) == {zero: None, one: None}
        consumer.commit()
        consumer.commit({zero: OffsetAndMetadata(3, "mine")})
        found = consumer.committed([zero, one])
        assert (found[zero], found[one]) == (OffsetAndMetadata(3, "mine"), OffsetAndMetadata(5, "", 0))
        told: list[Any] = []
        done = threading.Event()

        def committed(offsets: dict[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
            told.append((offsets, error))
            done.set()

        consumer.commit_async({one: 4}, committed)
        assert done.wait(WAIT)
        assert told == [({one: OffsetAndMetadata(4)}, None)]
        with pytest.raises(KafkaError) as refused:
            consumer.commit({zero: OffsetAndMetadata(1, "x" * 5000)})
        assert refused.value.code == ErrorCode.OFFSET_METADATA_TOO_LARGE
    with Consumer(group_id=group, **grouped.settings, **settings) as consumer:
        consumer.assign([zero, one])
        assert (consumer.position(zero, WAIT), consumer.position(one, WAIT)) == (3, 4)


async def consume(grouped: Served, topic: str, group: str, each: Callable[[Any], Any], way: str) -> None:
    settings = {**grouped.quick, "max_poll_records": 3}
    if grouped.protocol == "classic":
        settings["partition_assignment_strategy"] = way
    else:
        settings["group_remote_assignor"] = "range" if way == "range" else "uniform"
    async with aio.Consumer(topic, group_id=group, **grouped.settings, **settings) as consumer:
        await each(consumer)


@pytest.mark.parametrize("way", ["range", "cooperative-sticky"])
async def test_members_share_and_hand_over_every_record_once(grouped: Served, way: str) -> None:
    await share_and_hand_over(grouped, way)


@pytest.mark.parametrize("way", ["roundrobin", "sticky"])
async def test_members_of_the_other_ways_do_so_too(served: Served, way: str) -> None:
    await share_and_hand_over(served, way)


async def share_and_hand_over(grouped: Served, way: str) -> None:
    """One begins alone, a second joins while it reads, and leaves again; both commit what they read."""
    topic, group = grouped.topic(4, 400), grouped.group()
    seen: Counter[tuple[int, int]] = Counter()
    both, second_done = asyncio.Event(), asyncio.Event()

    async def poll(consumer: Any) -> None:
        for record in await consumer.poll(0.05):
            seen[record.partition, record.offset] += 1
        await asyncio.sleep(0)

    async def first(consumer: Any) -> None:
        while not second_done.is_set() and len(seen) < 400:
            await poll(consumer)
            if len(seen) > 20:
                both.set()
                while len(consumer.assignment()) == 4 and not second_done.is_set():
                    consumer.pause(*consumer.assignment())  # what is left is there when the other one comes
                    await poll(consumer)
                consumer.resume(*consumer.paused())
        while len(seen) < 400:
            await poll(consumer)

    async def second(consumer: Any) -> None:
        while len(consumer.assignment()) < 2:
            await poll(consumer)
        for _ in range(5):
            await poll(consumer)
        second_done.set()

    async def joins_later() -> None:
        await both.wait()
        await consume(grouped, topic, group, second, way)

    async with asyncio.timeout(4 * WAIT):
        await asyncio.gather(consume(grouped, topic, group, first, way), joins_later())
    assert seen == Counter((partition, offset) for partition in range(4) for offset in range(100))


def test_members_of_both_protocols_share_a_group(served: Served) -> None:
    """A group of classic members becomes one of the consumer protocol as its members are restarted one by one."""
    topic, group = served.topic(4, 4), served.group()
    with Consumer(topic, group_id=group, **served.settings, **QUICK["classic"]) as old:
        read(old, 4)
        with Consumer(topic, group_id=group, **served.settings, **QUICK["consumer"]) as new:
            while len(old.assignment()) != 2 or len(new.assignment()) != 2:
                assert old.poll(0.05) == new.poll(0.05) == []
            assert not set(old.assignment()) & set(new.assignment())
            with Admin(**served.settings) as admin:
                assert admin.describe_groups(group)[group].kind == "consumer"
            old.close()
            while len(new.assignment()) != 4:
                assert new.poll(0.05) == []


def test_listeners_are_called_where_records_are_asked_for(grouped: Served) -> None:
    topic, group = grouped.topic(2, 10), grouped.group()
    told: list[tuple[str, list[int]]] = []
    refused: list[Exception] = []
    me = threading.get_ident()

    def tell(name: str) -> Callable[[list[TopicPartition]], None]:
        def listener(partitions: list[TopicPartition]) -> None:
            assert threading.get_ident() == me
            told.append((name, [each.partition for each in partitions]))
            if name == "revoked":
                consumer.commit()
            try:
                consumer.poll(0)
            except WaitRefused as error:
                refused.append(error)

        return listener

    settings = {**grouped.quick, "enable_auto_commit": False}
    consumer = Consumer(group_id=group, **grouped.settings, **settings)
    consumer.subscribe(topic, on_assigned=tell("assigned"), on_revoked=tell("revoked"), on_lost=tell("lost"))
    read(consumer, 10)
    consumer.close()
    assert told == [("assigned", [0, 1]), ("revoked", [0, 1])]
    assert len(refused) == 2
    with Consumer(group_id=group, **grouped.settings, **settings) as again:
        committed = again.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        assert [each.offset for each in committed.values() if each is not None] == [5, 5]


async def test_listeners_on_asyncio_may_be_coroutine_functions(grouped: Served) -> None:
    topic, group = grouped.topic(1, 5), grouped.group()
    told = []
    async with aio.Consumer(group_id=group, **grouped.settings, **grouped.quick) as consumer:

        async def assigned(partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(0)
            told.append(partitions)
            consumer.seek(partitions[0], 3)

        await consumer.subscribe(topic, on_assigned=assigned)
        records = await consumer.poll(WAIT)
        assert records[0].offset == 3
        assert told == [[TopicPartition(topic, 0)]]
        assert await consumer.committed([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): None}
        await consumer.unsubscribe()
        assert consumer.assignment() == []
        assert (await consumer.committed([TopicPartition(topic, 0)]))[TopicPartition(topic, 0)] is not None


def test_a_pattern_takes_in_what_is_made_later(grouped: Served) -> None:
    prefix = grouped.name("p")
    with Admin(**grouped.settings) as admin, Producer(**grouped.settings) as producer:
        admin.create_topic(f"{prefix}-a")
        settings = {**grouped.quick, "metadata_max_age_ms": 200}
        with Consumer(group_id=grouped.group(), **grouped.settings, **settings) as consumer:
            consumer.subscribe(pattern=re.compile(f"{prefix}-.*"))
            producer.send(f"{prefix}-a", b"1").result(WAIT)
            (record,) = consumer.poll(WAIT)
            assert record.topic == f"{prefix}-a"
            admin.create_topic(f"{prefix}-b")
            producer.send(f"{prefix}-b", b"2").result(WAIT)
            (record,) = consumer.poll(WAIT)
            assert record.topic == f"{prefix}-b"
            assert {where.topic for where in consumer.assignment()} == {f"{prefix}-a", f"{prefix}-b"}


def test_a_pattern_that_is_a_string_is_matched_as_a_whole_and_refused_if_it_is_none(grouped: Served) -> None:
    prefix = grouped.name("q")
    with Producer(**grouped.settings) as producer:
        # Kafka's coordinator looks for new topics every 10 s: a record shows that they are known everywhere.
        for name in (f"{prefix}-b", f"x{prefix}-a", f"{prefix}-cc", f"{prefix}-a"):
            producer.send(name, b"x").result(WAIT)
    with Consumer(group_id=grouped.group(), **grouped.settings, **grouped.quick) as consumer:
        consumer.subscribe(pattern=f"{prefix}-[a-z]")
        assert {each.topic[-2:] for each in consumer.poll(WAIT)} <= {"-a", "-b"}
        assert {where.topic for where in consumer.assignment()} == {f"{prefix}-a", f"{prefix}-b"}
        # What the broker matches it refuses, too; what the client matches is refused at once.
        with pytest.raises(BarnabasError, match=r"INVALID_REGULAR_EXPRESSION|is no regular expression"):
            read_all_of(consumer, "a(")


def read_all_of(consumer: Consumer, pattern: str) -> None:
    consumer.subscribe(pattern=pattern)
    consumer.poll(WAIT)


def test_a_static_member_comes_back_without_a_rebalance(grouped: Served) -> None:
    topic, group = grouped.topic(2, 4), grouped.group()
    settings = {**grouped.settings, **grouped.quick, "group_id": group, "group_instance_id": "one"}
    with Consumer(topic, **settings) as consumer:
        read(consumer, 4)
        before = consumer.health()
    with Consumer(topic, **settings) as consumer:
        while not (health := consumer.health()).ok:
            assert consumer.poll(0.01) == []
        assert health.generation == before.generation
        assert health.assignment == before.assignment
        assert health.member_id != before.member_id


def test_columns_of_a_group(grouped: Served) -> None:
    pytest.importorskip("pyarrow")
    topic, group = grouped.topic(2, 20), grouped.group()
    with Consumer(topic, group_id=group, **grouped.settings, **grouped.quick) as consumer:
        rows = 0
        while rows < 20:
            rows += sum(map(len, consumer.poll_columns(WAIT)))
        consumer.commit()
        committed = consumer.committed(consumer.assignment())
        assert sorted(each.offset for each in committed.values() if each is not None) == [10, 10]


def test_an_admin_client_looks_at_groups_and_sets_their_offsets(grouped: Served) -> None:
    topic, group = grouped.topic(2, 20), grouped.group()
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Admin(**grouped.settings) as admin:
        with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
            admin.describe_groups(group)
        assert admin.group_offsets(group) == {}
        with Consumer(topic, group_id=group, client_id="me", **grouped.settings, **grouped.quick) as consumer:
            read(consumer, 20)
            described = admin.describe_groups(group)[group]
            (member,) = described.members
            assert (described.state, described.protocol_type, described.kind) == (
                "Stable",
                "consumer",
                grouped.protocol,
            )
            assert (member.client_id, member.assignment) == ("me", (zero, one))
            if grouped.protocol == "consumer":
                assert (described.assignor, member.target) == ("uniform", (zero, one))
                assert described.epoch == member.epoch == consumer.health().generation
            else:
                assert described.assignor == "range"
            assert group in [each.name for each in admin.list_groups(states=["Stable"])]
            assert group not in [each.name for each in admin.list_groups(states=["Empty"])]
            refused = admin.delete_groups(group)[group]
            assert refused is not None
            assert refused.code == ErrorCode.NON_EMPTY_GROUP
            with pytest.raises(KafkaError, match="has members, which go on where they are: stop them first"):
                admin.alter_group_offsets(group, {zero: 3})
        admin.alter_group_offsets(group, {zero: 3})
        assert {where: each.offset for where, each in admin.group_offsets(group).items()} == {zero: 3, one: 10}
        assert admin.group_lag(group) == {zero: 7, one: 0}
        admin.delete_group_offsets(group, one)
        assert list(admin.group_offsets(group)) == [zero]
        assert admin.group_offsets(group, [one]) == {}
        admin.delete_group(group)
        with pytest.raises(KafkaError, match="GROUP_ID_NOT_FOUND"):
            admin.delete_group(group)


# ---- what is surely a mistake, and the end --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda it: it.subscribe("t", pattern="t.*"), "give the names of topics, or a pattern"),
        (lambda it: it.subscribe(pattern="t("), r"pattern: 't\(' is no regular expression: missing"),
        (lambda it: it.subscribe("t", on_assigned=5), r"on_assigned: 5 \(int\) is no function"),
        (lambda it: it.commit({("t", 0): -1}), r"commit: the offset -1 of \('t', 0\) is negative"),
        (lambda it: it.commit({("t", 0): "5"}), r"commit: '5' \(str\) of \('t', 0\) is no offset"),
        (lambda it: it.commit([("t", 0)]), "is no mapping; give offsets by partition"),
        (lambda it: it.committed("t"), "committed: 't'"),
    ],
)
def test_what_is_surely_a_mistake(call: Callable[[Consumer], Any], message: str) -> None:
    with (
        Broker() as broker,
        Consumer(config=broker.bootstrap_servers, group_id="g") as consumer,
        pytest.raises(ConfigError, match=message),
    ):
        call(consumer)


@pytest.mark.parametrize(
    "call",
    [
        lambda it: it.commit(),
        lambda it: it.commit_async(),
        lambda it: it.committed([("t", 0)]),
    ],
)
def test_what_needs_a_group_says_so(call: Callable[[Consumer], Any]) -> None:
    with Broker() as broker, Consumer(config=broker.bootstrap_servers) as consumer:
        with pytest.raises(ConfigError, match=r"needs a consumer group: set group\.id"):
            call(consumer)
        with pytest.raises(ConfigError, match=r"set group\.id"):
            consumer.subscribe("t", on_revoked=print)


def test_a_coroutine_function_is_no_listener_of_a_consumer_that_blocks() -> None:
    async def listener(_: list[TopicPartition]) -> None:
        raise AssertionError("nobody awaits it")

    with Broker(topics=["t"]) as broker, Consumer(config=broker.bootstrap_servers, group_id="g") as consumer:
        consumer.subscribe("t", on_assigned=listener)
        with pytest.raises(ConfigError, match=r"on_assigned: a coroutine function needs barnabas\.aio"):
            consumer.poll(WAIT)


def test_a_close_ends_when_nobody_answers() -> None:
    broker = Broker(topics=["t"])
    with Producer(broker.bootstrap_servers) as producer:
        producer.send("t", b"x").result(WAIT)
    settings = {**QUICK["classic"], "auto_commit_interval_ms": 60_000}
    consumer = Consumer("t", config=broker.bootstrap_servers, group_id="g", **settings)
    read(consumer, 1)
    broker.close()
    consumer.close(0.3)  # there is something to commit, and nobody who takes it
    consumer.close()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("answered", [ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.OFFSET_FETCH])
async def test_a_close_ends_though_the_coordinator_never_answers(protocol: str, answered: ApiKey) -> None:
    """Nothing of groups is answered; or who coordinates, and no join; or a share, and neither commit nor leave."""
    settings = {**QUICK[protocol], "group_id": "g", "auto_commit_interval_ms": 60_000}
    joined = answered == ApiKey.OFFSET_FETCH
    async with ScriptedBroker() as broker, asyncio.timeout(WAIT):
        if answered != ApiKey.METADATA:
            found = Coordinator("g", 1, "127.0.0.1", broker.port)
            broker.handlers[ApiKey.FIND_COORDINATOR] = lambda _: FindCoordinatorResponse(coordinators=[found])
        if joined:
            share(broker)
        for blocking in (False, True):
            consumer: Any = (
                await asyncio.to_thread(Consumer, "t", config=broker.servers, **settings)
                if blocking
                else await aio.Consumer("t", config=broker.servers, **settings).start()
            )
            call = asyncio.to_thread if blocking else called
            while (await call(consumer.health)).state != ("stable" if joined else "joining"):
                await call(consumer.poll, 0.01)
                if answered == ApiKey.METADATA:
                    break
            if joined:
                await call(consumer.seek, TopicPartition("t", 0), 3)
            await call(consumer.close, 0.2)
            assert (consumer._inner if blocking else consumer).health().state == "closed"


async def called(function: Callable[..., Any], *arguments: Any) -> Any:
    """An asyncio form's call, whether it is one that is awaited."""
    told = function(*arguments)
    return await told if inspect.isawaitable(told) else told


def share(broker: ScriptedBroker) -> None:
    """Its first member has the only partition; after that, nothing is answered that commits, or leaves."""
    topics = [consumer_protocol.TopicPartition("t", [0])]
    told = consumer_protocol.encode_assignment(consumer_protocol.ConsumerProtocolAssignment(topics))
    broker.handlers[ApiKey.JOIN_GROUP] = lambda _: JoinGroupResponse(
        generation_id=1, protocol_name="range", leader="another", member_id="m"
    )
    broker.handlers[ApiKey.SYNC_GROUP] = lambda _: SyncGroupResponse(assignment=told)
    broker.handlers[ApiKey.CONSUMER_GROUP_HEARTBEAT] = lambda request: (
        ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=1,
            heartbeat_interval_ms=5000,
            assignment=Assignment([TopicPartitions(b"t" * 16, [0])]),
        )
        if request.member_epoch >= 0
        else None
    )


async def test_a_consumer_that_never_polled_closes_at_once() -> None:
    async with aio.Broker(topics=["t"]) as broker:
        consumer = await aio.Consumer("t", config=broker.bootstrap_servers, group_id="g").start()
        assert consumer.health().state == "out"
        await consumer.close(0)
        assert consumer.health().state == "closed"


def test_an_iteration_and_a_recall_share_every_record_between_them() -> None:
    """The loop's thread takes from the end what the application's takes from the beginning: each has it once."""
    with Broker() as broker:
        served = Served(broker.bootstrap_servers, "kafka")
        topic = served.topic(1, 3000)
        seen = []
        with Consumer(topic, group_id="recalled", **served.settings, **QUICK["classic"]) as consumer:
            inner: Any = consumer._inner
            for record in consumer:
                seen.append(record.offset)
                if len(seen) == 3000:
                    break
                if record.offset % 7 == 0:
                    recalled = threading.Event()
                    inner._client._loop.call_soon_threadsafe(inner._recall)
                    inner._client._loop.call_soon_threadsafe(recalled.set)
                    if record.offset % 2 == 0:
                        assert recalled.wait(WAIT)
        assert seen == list(range(3000))


def test_a_callback_on_the_consumers_thread_may_not_wait_for_it_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    told: list[BaseException] = []
    with Broker(topics=["t"]) as broker, Consumer(config=broker.bootstrap_servers, group_id="g") as consumer:
        consumer.assign([("t", 0)])
        done = threading.Event()

        def committed(offsets: Any, error: Exception | None) -> None:
            try:
                consumer.commit()
            except WaitRefused as refused:
                told.append(refused)
            done.set()
            raise ValueError("mine")

        consumer.commit_async({TopicPartition("t", 0): 0}, committed)
        assert done.wait(WAIT)
        consumer.commit({TopicPartition("t", 0): 0})
    assert "would never answer" in str(told[0])
    assert "on_commit failed" in caplog.text

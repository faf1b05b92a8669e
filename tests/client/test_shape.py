"""One shape: settings, start, close, timeouts and errors are the same in every class, blocking and on asyncio."""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import inspect
import logging
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import barnabas
from barnabas import Admin, Broker, ConfigError, Consumer, Producer, TopicPartition, aio
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError

PAIRS = [(Producer, aio.Producer), (Consumer, aio.Consumer), (Admin, aio.Admin), (Broker, aio.Broker)]
CLASSES: list[Any] = [one for pair in PAIRS for one in pair]
CLIENTS: list[Any] = [one for pair in PAIRS[:3] for one in pair]
INTERNAL = {
    "ask",
    "check_reads",
    "count",
    "forked",
    "give_back",
    "give_records_back",
    "leave_with",
    "parts_now",
    "records_now",
} | {
    "begin_to_depart",
    "called",
    "calls_now",
    "calls_or",
    "departed",
    "departed_now",
    "end",
    "part",
    "take_back",
}
"""What the blocking consumer asks of the asyncio one, and what a fork does."""


def name_of(given: Any) -> str:
    return f"{given.__module__.split('.')[1]}-{given.__name__}"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"two": 2}) as broker:
        yield broker


def public(given: type) -> dict[str, Any]:
    return {name: each for name, each in inspect.getmembers(given, callable) if not name.startswith("_")}


# ---- settings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", CLASSES, ids=name_of)
def test_every_class_takes_config_and_keywords(one: type) -> None:
    parameters = inspect.signature(one).parameters
    assert "config" in parameters
    assert parameters["config"].default is None
    assert any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    if "Consumer" not in one.__name__:  # whose positional arguments are topics
        assert next(iter(parameters)) == "config"


@pytest.mark.parametrize("one", [aio.Producer, aio.Consumer, aio.Admin], ids=name_of)
def test_a_string_a_mapping_and_keywords_mean_the_same(one: Any) -> None:
    wanted = one(bootstrap_servers="h:1", client_id="me").config
    assert one(config={"bootstrap.servers": "h:1", "client.id": "me"}).config == wanted
    assert one(config={"bootstrap_servers": "h:1"}, client_id="me").config == wanted
    assert one(config="h:1", client_id="me").config == wanted


def test_the_broker_takes_a_mapping_and_keywords() -> None:
    with (
        Broker({"num.partitions": 3}, auto_create_topics_enable=False, log_dirs=None) as broker,
        Admin(broker.bootstrap_servers) as admin,
    ):
        admin.create_topic("made")
        assert len(admin.describe_topics("made")["made"].partitions) == 3
        settings = admin.describe_configs(str(admin.describe_cluster().controller_id), kind=4)
        assert settings["auto.create.topics.enable"] == "false"


@pytest.mark.parametrize("one", [aio.Producer, aio.Consumer, aio.Admin], ids=name_of)
def test_none_means_unset(one: Any) -> None:
    assert one(config={"client.id": None}, request_timeout_ms=None).config == one().config


@pytest.mark.parametrize("one", CLIENTS, ids=name_of)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"config": {"client.id": "a"}, "client_id": "b"}, r"client\.id is given twice; drop one of them"),
        ({"config": {"client.id": "a", "client_id": "b"}}, r"client\.id is given twice; drop one of them"),
        ({"config": "h:1", "bootstrap_servers": "h:2"}, r"bootstrap\.servers is given twice; drop one of them"),
        ({"config": ["h:1"]}, r"config: \['h:1'\] \(list\) is no mapping of settings; give \{\"bootstrap.servers\""),
        ({"config": {7: "a"}}, "unknown setting 7"),
    ],
)
def test_settings_that_are_surely_a_mistake(one: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        one(**settings)


@pytest.mark.parametrize("one", [Producer, Admin, aio.Producer, aio.Admin], ids=name_of)
@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("json", r"'json' \(str\) stands without a name: only config .* may; give settings as keywords, such as"),
        ("h:2", "'h:2' is a second address: several are one string with commas, or a list, in config"),
        ({"linger.ms": 5}, "stands without a name"),
    ],
)
def test_only_config_stands_without_a_name(one: Any, second: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        one("h:1", second)


@pytest.mark.parametrize("one", [Broker, aio.Broker], ids=name_of)
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"config": {"num.partitions": 2}, "num_partitions": 3}, r"num\.partitions is given twice; drop one of them"),
        ({"config": "localhost:9092"}, r"config: 'localhost:9092' \(str\) is no mapping of settings; where it listens"),
        ({"listeners": "PLAINTEXT://127.0.0.1:0", "port": 0}, "host and port say it, too; drop one of them"),
        ({"log_dirs": "here", "data_dir": "there"}, "log.dirs=here: data_dir says it, too; drop one of them"),
        ({"topics": "orders"}, "topics: 'orders' is a string; give a list of names"),
        ({"num_partitons": 3}, r"num\.partitons \(from config\) is no setting; did you mean num\.partitions\?"),
    ],
)
def test_a_brokers_settings_that_are_surely_a_mistake(one: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        one(**settings)


# ---- twins ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0].__name__)
def test_the_twins_have_the_same_calls(pair: tuple[type, type]) -> None:
    blocking, twin = public(pair[0]), public(pair[1])
    assert set(blocking) - INTERNAL == set(twin) - INTERNAL - {"start", "send_and_wait"}
    for name in blocking:
        mine, other = inspect.signature(blocking[name]), inspect.signature(twin[name])
        assert list(mine.parameters.values()) == list(other.parameters.values()), name
    mine, other = inspect.signature(pair[0]), inspect.signature(pair[1])
    assert mine.parameters == other.parameters


@pytest.mark.parametrize("one", CLASSES, ids=name_of)
def test_every_class_ends_with_close(one: type) -> None:
    assert "close" in public(one)
    assert "stop" not in public(one)
    assert ("start" in public(one)) == ("Async" in one.__name__)


@pytest.mark.parametrize("one", CLASSES, ids=name_of)
def test_times_to_wait_are_seconds(one: type) -> None:
    for name, call in public(one).items():
        if name in INTERNAL:
            continue
        for parameter in inspect.signature(call).parameters:
            assert not parameter.startswith("timeout_"), name
            assert not (parameter.startswith("wait") and parameter.endswith("_ms")), name


async def test_a_start_answers_with_the_client_and_a_second_start_or_close_does_nothing(broker: Broker) -> None:
    for one in (aio.Producer, aio.Consumer, aio.Admin):
        client: Any = one(config=broker.bootstrap_servers)
        assert await client.start() is client
        assert await client.start() is client
        await client.close()
        await client.close()
        with pytest.raises(barnabas.ClientClosed, match="closed"):
            await client.start()
    served = aio.Broker()
    assert await served.start() is served
    assert await served.start() is served
    await served.close()
    await served.close()
    with pytest.raises(BarnabasError, match="the broker is closed; make a new one"):
        await served.start()


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy])
def test_no_handle_goes_to_another_process(broker: Broker, copied: Callable[[Any], Any]) -> None:
    for one in (Producer, Consumer, Admin):
        with (
            one(bootstrap_servers=broker.bootstrap_servers) as handle,
            pytest.raises(
                TypeError, match=f"a {one.__name__} belongs to the process that made it and cannot be pickled"
            ),
        ):
            copied(handle)
    for twin in (aio.Producer, aio.Consumer, aio.Admin):
        with pytest.raises(TypeError, match="cannot be pickled; make one where it is used"):
            copied(twin(bootstrap_servers=broker.bootstrap_servers))


def test_a_flush_after_the_close_has_nothing_to_wait_for(broker: Broker) -> None:
    producer = Producer(broker.bootstrap_servers)
    producer.send("flushed", b"x").result(30)
    producer.close()
    producer.flush(0)


@pytest.mark.parametrize("offset", ["5", 5.5, None])
def test_what_is_no_offset(broker: Broker, offset: Any) -> None:
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        consumer.assign([("t", 0)])
        consumer.pause(TopicPartition("t", 0))  # what is not there stays where it was sought
        with pytest.raises(ConfigError, match=rf"seek to {re.escape(repr(offset))} .*an offset is a whole number"):
            consumer.seek(TopicPartition("t", 0), offset)
        consumer.seek(TopicPartition("t", 0), np.int64(5))  # type: ignore[arg-type]  # as columns have them
        assert consumer.position(TopicPartition("t", 0)) == 5


def test_the_blocking_ones_are_closed_once_and_refuse_afterwards() -> None:
    with Broker(topics={"two": 2}) as broker:
        producer, admin = Producer(broker.bootstrap_servers), Admin(broker.bootstrap_servers)
        consumer = Consumer("two", config=broker.bootstrap_servers)
        for one in (producer, admin, consumer, broker):
            one.close()
            one.close()
    calls: list[Callable[[], Any]] = [lambda: producer.send("two", b""), admin.list_topics, lambda: consumer.poll(10)]
    for call in calls:
        with pytest.raises(barnabas.ClientClosed, match="is closed"):
            call()


# ---- a start that nobody awaited ------------------------------------------------------------------------------------

WHERE = TopicPartition("two", 0)


@pytest.mark.parametrize(
    ("one", "call"),
    [
        (aio.Producer, lambda producer: producer.send("two", b"")),
        (aio.Producer, lambda producer: producer.flush()),
        (aio.Producer, lambda producer: producer.partitions_for("two")),
        (aio.Consumer, lambda consumer: consumer.poll(10)),
        (aio.Consumer, lambda consumer: consumer.poll()),
        (aio.Consumer, lambda consumer: anext(aiter(consumer))),
        (aio.Consumer, lambda consumer: consumer.subscribe("two")),
        (aio.Consumer, lambda consumer: consumer.end_offsets([WHERE])),
        (aio.Consumer, lambda consumer: consumer.wait_for_data({WHERE: 0}, 10)),
        (aio.Admin, lambda admin: admin.list_topics()),
        (aio.Admin, lambda admin: admin.create_topic("made")),
        (aio.Admin, lambda admin: admin.lag({WHERE: 0})),
    ],
)
async def test_a_client_that_nobody_started_says_so(broker: Broker, one: Any, call: Callable[[Any], Any]) -> None:
    client = one(config=broker.bootstrap_servers)
    with pytest.raises(barnabas.ClientClosed, match=r"not started: await start\(\) first, or use it with `async with`"):
        await call(client)
    await client.close()


@pytest.mark.parametrize("look", [lambda broker: broker.port, lambda broker: broker.bootstrap_servers])
async def test_a_broker_that_nobody_started_says_so(look: Callable[[Any], Any], tmp_path: Path) -> None:
    broker = aio.Broker(data_dir=tmp_path)
    with pytest.raises(BarnabasError, match=r"the broker was not started: await start\(\) first"):
        look(broker)
    await broker.close()
    async with aio.Broker(data_dir=tmp_path) as broker:  # the directory was given back
        assert look(broker)


async def test_what_is_assigned_before_the_start_is_read_after_it(broker: Broker) -> None:
    consumer = aio.Consumer(bootstrap_servers=broker.bootstrap_servers)
    consumer.assign([WHERE])
    async with consumer:
        assert await consumer.position(WHERE, 10) == 0


# ---- arguments that are surely a mistake ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        ("localhost:9092", "topic: 'localhost:9092' is an address, not a topic; give it as bootstrap_servers="),
        (
            {"bootstrap.servers": "secret"},
            r"topic: \{'bootstrap.servers': ...\} is a mapping, not a topic; settings are",
        ),
        (["a", "b"], r"topic: \['a', 'b'\] \(list\) are several; give them one by one: subscribe\(\*names\)"),
        (7, r"topic: 7 \(int\) is no name of a topic; give a string"),
        ("", "is no name of a topic"),
    ],
)
def test_what_is_surely_no_topic(broker: Broker, topic: Any, message: str) -> None:
    for one in (Consumer, aio.Consumer):
        with pytest.raises(ConfigError, match=message):
            one(topic)
    named = message.replace("subscribe", "[a-z_]*")
    with Admin(broker.bootstrap_servers) as admin:
        calls: list[Callable[[Any], Any]] = [admin.create_topic, admin.create_topics, admin.delete_topic]
        for call in [*calls, admin.delete_topics, admin.describe_topics, lambda name: admin.create_partitions(name, 9)]:
            with pytest.raises(ConfigError, match=named):
                call(topic)
    with Producer(broker.bootstrap_servers) as producer, pytest.raises(barnabas.InvalidRecord, match=named):
        producer.send(topic, b"")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda it: it.assign(WHERE), r"assign: two-0 is one partition; give a list of them: assign\(\[partition\]\)"),
        (lambda it: it.assign(["two"]), r"assign: 'two' \(str\) is no partition; give pairs of a topic's name and"),
        (lambda it: it.assign("two"), r"assign: 'two' \(str\) is no list of partitions"),
        (lambda it: it.pause([WHERE]), r"pause: .* are several; give them one by one: pause\(\*partitions\)"),
        (lambda it: it.resume([WHERE]), r"resume: .* are several; give them one by one: resume\(\*partitions\)"),
        (lambda it: it.seek_to_beginning([WHERE]), r"give them one by one: seek_to_beginning\(\*partitions\)"),
        (lambda it: it.seek_to_end([WHERE]), r"give them one by one: seek_to_end\(\*partitions\)"),
        (lambda it: it.seek("two", 0), r"seek: 'two' \(str\) is no partition"),
        (lambda it: it.position("two"), r"position: 'two' \(str\) is no partition"),
        (lambda it: it.offsets_for_times({"two": 5}), r"offsets_for_times: 'two' \(str\) is no partition"),
        (lambda it: it.offsets_for_times({WHERE: "5"}), r"'5' \(str\) of two-0 is no time in whole milliseconds since"),
        (lambda it: it.offsets_for_times({WHERE: 1.5}), r"1.5 \(float\) of two-0 .*; give int\(1000 \* seconds\)"),
        (lambda it: it.offsets_for_times({("two", 0): -5}), "the timestamp -5 of two-0 is negative"),
        (lambda it: it.wait_for_data({"two": 5}, 1), r"wait_for_data: 'two' \(str\) is no partition"),
        (lambda it: it.end_offsets(WHERE), r"end_offsets: two-0 is one partition; give a list of them"),
        (lambda it: it.beginning_offsets(WHERE), r"beginning_offsets: two-0 is one partition; give a list of them"),
    ],
)
async def test_what_is_surely_no_partition(broker: Broker, call: Callable[[Any], Any], message: str) -> None:
    with Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer, pytest.raises(ConfigError, match=message):
        call(consumer)
    async with aio.Consumer(bootstrap_servers=broker.bootstrap_servers) as twin:
        with pytest.raises(ConfigError, match=message):
            await answered(call, twin)


async def answered(call: Callable[[Any], Any], twin: Any) -> None:
    found = call(twin)
    if inspect.isawaitable(found):
        await found


@pytest.mark.parametrize("timeout", ["100", -1, -0.001, float("nan"), float("inf"), True])
def test_what_is_no_time_to_wait(broker: Broker, timeout: Any) -> None:
    with (
        Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer,
        Producer(broker.bootstrap_servers) as producer,
    ):
        consumer.assign([WHERE])
        sent = producer.send("two", b"x", partition=0)
        assert sent.result(30) == sent.result(0)
        rows = producer.send_columns("two", {"value": [b"x"]}, partition=0)
        for call in (
            lambda: sent.result(timeout),
            lambda: sent.exception(timeout),
            lambda: rows.result(timeout),
            lambda: rows.outcome(timeout),
            lambda: consumer.poll(timeout),
            lambda: consumer.poll_columns(timeout),
            lambda: consumer.position(WHERE, timeout),
            lambda: consumer.wait_for_data({WHERE: 0}, timeout),
            lambda: producer.flush(timeout),
            lambda: producer.close(timeout),
        ):
            with pytest.raises(ConfigError, match=r"timeout: .* (is no number of seconds|is no time to wait)"):
                call()
        assert producer.send("two", b"x").result(1e300).topic == "two"
        assert producer.send("two", b"still open").result(30).topic == "two"


async def test_the_asyncio_flush_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async with aio.Broker(topics=["slow"]) as broker, aio.Producer(broker.bootstrap_servers) as producer:
        await (await producer.send("slow", b""))
        monkeypatch.setattr(type(broker._assembly.host.core), "handle", lambda *_: None)  # nothing is answered any more
        await producer.send("slow", b"")
        with pytest.raises(barnabas.ClientTimeout, match=r"records without an outcome after 0\.05 s of flush"):
            await producer.flush(0.05)
        await producer.close(0)


# ---- errors ---------------------------------------------------------------------------------------------------------


def test_errors_are_one_tree_exported_from_the_top() -> None:
    found = {name: each for name in barnabas.__all__ if inspect.isclass(each := getattr(barnabas, name))}
    errors = {name for name, each in found.items() if issubclass(each, Exception)}
    assert errors == {
        "BarnabasError",
        "BufferExhausted",
        "ClientClosed",
        "ClientTimeout",
        "CommitFailed",
        "ConfigError",
        "Disconnected",
        "FeatureMissing",
        "InvalidRecord",
        "KafkaError",
        "LogTruncated",
        "NoPosition",
        "RecordTooLarge",
        "SerializationFailed",
        "WaitRefused",
    }
    assert all(issubclass(found[name], BarnabasError) for name in errors)


def test_there_is_one_error_for_settings() -> None:
    with pytest.raises(barnabas.ConfigError):
        Broker(config={"num.partitions": "many"})
    with pytest.raises(barnabas.ConfigError):
        Producer(linger_ms="soon")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "retriable"),
    [
        (barnabas.BarnabasError("x"), False),
        (barnabas.ConfigError("x"), False),
        (barnabas.ClientClosed("x"), False),
        (barnabas.WaitRefused("x"), False),
        (barnabas.InvalidRecord("x"), False),
        (barnabas.RecordTooLarge("x"), False),
        (barnabas.SerializationFailed("x"), False),
        (barnabas.FeatureMissing("x"), False),
        (barnabas.CommitFailed(ErrorCode.ILLEGAL_GENERATION, "g"), False),
        (barnabas.ClientTimeout("x"), True),
        (barnabas.BufferExhausted("x"), True),
        (barnabas.Disconnected("x"), True),
        (KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER), True),
        (KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS), False),
    ],
)
def test_every_error_says_whether_to_try_again(error: BarnabasError, retriable: bool) -> None:
    assert error.retriable is retriable


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(3, "t"),
        KafkaError(9999, "t"),
        barnabas.Disconnected("gone", timed_out=True),
        barnabas.LogTruncated(TopicPartition("t", 0), 5, 2),
        barnabas.CommitFailed(82, "g"),
        barnabas.SerializationFailed("x", "t", 0, 5),
        barnabas.ClientTimeout("x"),
    ],
)
def test_errors_come_whole_from_another_process(error: BarnabasError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.__dict__) == (type(error), str(error), error.__dict__)


# ---- futures --------------------------------------------------------------------------------------------------------


def test_futures_of_threads(broker: Broker) -> None:
    with Producer(broker.bootstrap_servers, max_request_size=1000) as producer:
        sent = [producer.send("two", b"%d" % number, partition=0) for number in range(3)]
        real = [each.as_future() for each in sent]
        done, left = concurrent.futures.wait(real, 30)
        assert (done, left) == (set(real), set())
        assert sorted(each.result().offset for each in concurrent.futures.as_completed(real)) == [
            each.result().offset for each in sent
        ]
        assert not producer.send("two", b"").as_future().cancel()
        refused = producer.send("two", bytes(2000)).as_future()
        assert isinstance(refused.exception(30), barnabas.RecordTooLarge)


async def test_futures_of_coroutines(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    async with aio.Producer(broker.bootstrap_servers, max_request_size=1000) as producer:
        sent = [await producer.send("two", b"%d" % number, partition=0) for number in range(3)]
        real = [each.as_future() for each in sent]
        done, left = await asyncio.wait(real, timeout=30)
        assert (done, left) == (set(real), set())
        assert [each.result() for each in real] == [each.result() for each in sent]
        dropped = (await producer.send("two", b"")).as_future()
        dropped.cancel()
        await producer.flush()
        with pytest.raises(barnabas.RecordTooLarge):
            await (await producer.send("two", bytes(2000))).as_future()
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]

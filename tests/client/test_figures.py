"""What a client tells of itself: metrics by Kafka's names, statistics in librdkafka's manner, errors as they come."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas import Admin, Broker, Consumer, Producer, aio
from barnabas.net.counts import Rates, Statistics
from barnabas.net.errors import ConfigError, raise_it

WAIT = 60


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker(topics={"t": 1, "lagging": 1}) as broker:
        yield broker.bootstrap_servers


def test_a_producer_counts_what_it_sends(servers: str) -> None:
    with Producer(servers) as producer:
        before = producer.metrics()["producer-metrics"]
        assert before["record-send-total"] == 0
        for _ in range(7):
            producer.send("t", b"x")
        producer.flush(WAIT)
        after = producer.metrics()["producer-metrics"]
    assert after["record-send-total"] == 7
    assert (after["record-error-total"], after["record-retry-total"]) == (0, 0)
    assert after["buffer-available-bytes"] == after["buffer-total-bytes"] == 32 * 1024 * 1024
    assert after["connection-count"] >= 1
    assert after["request-total"] > before["request-total"]
    assert after["outgoing-byte-total"] > 100
    assert after["incoming-byte-total"] > 100


def test_a_record_that_fails_is_counted() -> None:
    with Broker(topics={"t": 1}) as broker:
        producer = Producer(broker.bootstrap_servers, linger_ms=60_000, delivery_timeout_ms=120_000)
        producer.send("t", b"x")
        producer.partitions_for("t")
    producer.close(0)
    assert producer.metrics()["producer-metrics"]["record-error-total"] == 1


def test_a_consumer_tells_its_lag(servers: str) -> None:
    with Producer(servers) as producer:
        for number in range(5):
            producer.send("lagging", b"%d" % number)
    with Consumer("lagging", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        assert len(consumer.poll(WAIT, max_records=2)) == 2
        metrics = consumer.metrics()
    group = metrics["consumer-fetch-manager-metrics"]
    assert group["records-lag-max"] == 3
    assert metrics["consumer-fetch-manager-metrics.lagging-0"] == {"records-lag": 3.0}
    assert group["fetch-total"] >= 1
    assert group["bytes-consumed-total"] > 100
    assert metrics["consumer-coordinator-metrics"] == {"assigned-partitions": 1.0}
    assert metrics["consumer-metrics"]["connection-count"] >= 1


async def test_an_admin_and_the_clients_of_a_loop_count_too(servers: str) -> None:
    async with (
        aio.Admin(servers) as admin,
        aio.Producer(servers) as producer,
        aio.Consumer("t", config=servers) as reader,
    ):
        await admin.list_topics()
        await producer.send_and_wait("t", b"x")
        assert admin.metrics()["admin-client-metrics"]["response-total"] >= 2
        assert producer.metrics()["producer-metrics"]["record-send-total"] == 1
        assert reader.metrics()["consumer-metrics"]["request-total"] >= 2
    with Admin(servers) as blocking:
        blocking.list_topics()
        assert blocking.metrics()["admin-client-metrics"]["connection-count"] >= 1


def test_rates_are_taken_over_windows_as_kafkas_are() -> None:
    total = {"bytes": 0.0}
    rates = Rates(1000, 2, lambda: {"g": {"a-total": total["bytes"], "level": 7.0}}, 500)

    def rate(now_ms: int) -> float:
        group = rates.figures(now_ms)["g"]
        assert set(group) == {"a-total", "a-rate", "level"}
        return group["a-rate"]

    assert rate(500) == 0.0
    total["bytes"] = 300.0
    assert rate(1000) == 300 / 1.5  # the window that is missing counts as one without events
    assert [rates.drive(now_ms) for now_ms in (700, 1499, 1500)] == [1500, 1500, 2500]
    total["bytes"] = 900.0
    assert rate(2000) == 900 / 1.5
    assert rates.drive(2510) == 3510  # late: the next is counted from here
    assert rates.drive(3510) == 4510
    total["bytes"] = 1000.0
    assert rate(3600) == pytest.approx(700 / 2.1)  # what fell into the first window is over
    for now_ms in (4510, 5510, 6510):
        rates.drive(now_ms)
    assert rate(6600) == 0.0


def test_one_window_may_be_all() -> None:
    rates = Rates(1000, 1, lambda: {"g": {"a-total": 5.0}}, 0)
    assert rates.figures(0)["g"]["a-rate"] == 0.0
    assert rates.figures(500)["g"]["a-rate"] == 10.0


def test_a_producer_tells_rates_and_the_bytes_of_each_topic(servers: str) -> None:
    with Producer(servers, linger_ms=0, metrics_sample_window_ms=60_000, metrics_num_samples=1) as producer:
        for _ in range(20):
            producer.send("t", bytes(1000)).result(WAIT)
        metrics = producer.metrics()
    group, topic = metrics["producer-metrics"], metrics["producer-topic-metrics.t"]
    for name in ("record-send", "request", "response", "outgoing-byte", "incoming-byte", "connection-creation"):
        assert group[f"{name}-rate"] > 0, name
    assert group["record-error-rate"] == group["record-retry-rate"] == 0.0
    assert topic["record-send-total"] == 20
    assert 20_000 < topic["byte-total"] < group["outgoing-byte-total"]
    assert topic["byte-rate"] / topic["record-send-rate"] == pytest.approx(topic["byte-total"] / 20)


async def test_a_consumer_counts_what_it_hands_out(servers: str) -> None:
    async with aio.Producer(servers) as producer:
        for _ in range(6):
            await producer.send("counted", b"x", partition=0)
    async with aio.Consumer("counted", config=servers, auto_offset_reset="earliest") as consumer:

        def consumed() -> float:
            return consumer.metrics()["consumer-fetch-manager-metrics"]["records-consumed-total"]

        assert len(await consumer.poll(WAIT, max_records=2)) == 2
        assert consumed() == 2
        async for _ in consumer:  # takes four, of which three go back
            break
        assert await consumer.poll(0, max_records=1)
        assert consumed() == 4
        await consumer.poll_columns(WAIT)
        assert consumed() == 6
        group = consumer.metrics()["consumer-fetch-manager-metrics"]
    assert group["records-consumed-rate"] > 0
    assert group["bytes-consumed-rate"] > group["fetch-rate"] > 0


def test_statistics_are_told_as_plain_values(servers: str) -> None:
    told: list[dict[str, Any]] = []
    enough = threading.Event()

    def tell(statistics: dict[str, Any]) -> None:
        told.append(statistics)
        if statistics["txmsgs"]:
            enough.set()

    with Producer(servers, statistics_interval_ms=10, stats_cb=tell, client_id="me") as producer:
        producer.send("t", b"x")
        assert enough.wait(WAIT)
    last = json.loads(json.dumps(told[-1]))
    assert (last["name"], last["client_id"], last["type"]) == ("me#producer", "me", "producer")
    assert last["tx"] >= last["rx"] >= 2
    assert last["topics"]["t"]["partitions"]["0"] == {"partition": 0, "msgq_cnt": 0}
    assert [each["state"] for each in last["brokers"].values()] == ["UP"]


async def test_a_consumer_tells_statistics_too(servers: str) -> None:
    told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    settings = {"statistics.interval.ms": 10, "stats_cb": told.put_nowait, "auto.offset.reset": "earliest"}
    async with aio.Consumer("lagging", config={"bootstrap.servers": servers, **settings}) as consumer:
        while not (at := (await told.get())["topics"].get("lagging")) or at["partitions"]["0"]["hi_offset"] < 5:
            await consumer.poll(0)
    assert at["partitions"]["0"]["fetch_state"] == "active"


def test_statistics_come_in_their_time_and_whatever_the_last_call_did(caplog: pytest.LogCaptureFixture) -> None:
    told: list[int] = []

    def fails(statistics: dict[str, Any]) -> None:
        told.append(statistics["at"])
        raise ValueError("mine")

    statistics = Statistics(100, fails, lambda now_ms: {"at": now_ms}, raise_it)
    assert [statistics.drive(now_ms) for now_ms in (0, 50, 100, 120, 350)] == [100, 100, 200, 200, 450]
    assert told == [100, 350]
    assert caplog.text.count("stats_cb failed") == 2


def test_an_error_callback_hears_what_the_log_is_told() -> None:
    heard: list[Any] = []
    called = threading.Event()

    def hear(error: Any) -> None:
        heard.append(error)
        called.set()

    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        with Producer(f"127.0.0.1:{nobody.getsockname()[1]}", error_cb=hear):
            assert called.wait(WAIT)
    assert heard[0].retriable
    assert "cannot connect to 127.0.0.1" in str(heard[0])


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"error_cb": 5}, "error_cb: 5 is no function"),
        ({"stats_cb": print}, "statistics.interval.ms and stats_cb go together"),
        ({"statistics_interval_ms": 5}, "statistics.interval.ms and stats_cb go together"),
    ],
)
def test_callbacks_that_are_none_are_refused(settings: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        aio.Producer(**settings)

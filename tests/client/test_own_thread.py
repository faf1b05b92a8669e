"""A client's callbacks run on its own thread: what would wait there for that thread is refused, and takes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from barnabas import Admin, Broker, Consumer, Producer, TopicPartition, WaitRefused

WAIT = 60
WHERE = TopicPartition("t", 0)
COUNT = 10


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 1}) as broker, Producer(broker.bootstrap_servers) as producer:
        for number in range(COUNT):
            producer.send("t", b"%d" % number)
        producer.flush(WAIT)
        yield broker


class Asks:
    """A `stats_cb` that makes calls once it was given some."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], Any]] = []
        self.told: list[BaseException | None] = []
        self.done = threading.Event()

    def __call__(self, _: dict[str, Any]) -> None:
        while self.calls:
            try:
                self.calls.pop(0)()
            except Exception as error:
                self.told.append(error)
            else:
                self.told.append(None)
            if not self.calls:
                self.done.set()

    def ask(self, *calls: Callable[[], Any]) -> None:
        """Have the calls made on the client's thread; all must be refused."""
        self.calls += calls
        assert self.done.wait(WAIT), "a callback waits for the thread it runs on"
        assert [type(each) for each in self.told] == [WaitRefused] * len(calls)
        assert "waits for the client, which would never answer" in str(self.told[0])


def test_a_consumer_does_not_wait_for_itself_and_loses_nothing_that_is_ahead(broker: Broker) -> None:
    asks = Asks()
    settings: Any = {"stats_cb": asks, "statistics_interval_ms": 1, "auto_offset_reset": "earliest"}
    with ThreadPoolExecutor(1) as pool:  # a callback that hung would keep `close` waiting, too
        consumer = Consumer("t", config=broker.bootstrap_servers, **settings)
        records = iter(consumer)
        first = next(records)
        asks.ask(
            lambda: consumer.poll(0),
            lambda: consumer.poll_columns(0),
            lambda: consumer.position(WHERE, 1),
            lambda: consumer.pause(WHERE),
            lambda: consumer.seek(WHERE, 0),
            lambda: consumer.subscribe("t"),
            lambda: consumer.unsubscribe(),
            lambda: consumer.end_offsets([WHERE]),
            lambda: next(iter(consumer)),
            consumer.metrics,
            consumer.close,
        )
        offsets = [first.offset, *(next(records).offset for _ in range(COUNT - 1))]
        assert offsets == list(range(COUNT))
        pool.submit(consumer.close).result(WAIT)


def test_an_admin_client_does_not_wait_for_itself(broker: Broker) -> None:
    asks = Asks()
    settings: Any = {"stats_cb": asks, "statistics_interval_ms": 1}
    admin = Admin(broker.bootstrap_servers, **settings)
    asks.ask(admin.list_topics, lambda: admin.describe_topics("t"), admin.close)
    assert admin.list_topics() == ["t"]
    admin.close()


def test_a_deserializer_that_asks_its_consumer_is_told(broker: Broker) -> None:
    told: list[str] = []

    def ask(value: bytes) -> int:
        try:
            consumer.position(WHERE, 1)
        except WaitRefused as error:
            told.append(str(error))
        return int(value)

    with ThreadPoolExecutor(1) as pool:
        settings: Any = {"auto_offset_reset": "earliest", "value_deserializer": ask}
        consumer = Consumer("t", config=broker.bootstrap_servers, **settings)
        records = pool.submit(consumer.poll, WAIT).result(WAIT)
        assert [record.value for record in records] == list(range(len(records)))
        assert len(told) == len(records)
        consumer.close()

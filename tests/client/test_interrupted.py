"""Who is interrupted, cancelled or overtaken by a close: nothing hangs, and what is lost is said."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import barnabas.client.producer as blocking
from barnabas import Admin, Broker, Consumer, Producer, aio
from barnabas.net.errors import ClientClosed
from tests.client.scripted import ScriptedBroker
from tests.client.served import QUICK

WAIT = 60.0


def interrupted(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_a_ctrl_c_during_a_close_ends_the_producer_and_says_what_is_lost(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Broker() as broker:
        producer = Producer(broker.bootstrap_servers)
        producer.send("t", b"x").result(WAIT)
    lost = [producer.send("t", b"%d" % number) for number in range(3)]
    monkeypatch.setattr(producer, "flush", interrupted)
    with pytest.raises(KeyboardInterrupt):
        producer.close()
    assert producer._finished.wait(WAIT), "the thread goes on, and so would a second close"
    producer.close()
    assert [type(each.exception(0)) for each in lost] == [ClientClosed] * 3
    assert "closing with 3 records undelivered" in caplog.text


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_second_ctrl_c_before_a_close_has_begun_leaves_the_group_all_the_same(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrappers like `timeout` interrupt twice. A member that stayed would hold up its group for 45 s."""
    with Broker(topics=["t"]) as broker, Admin(broker.bootstrap_servers) as admin:
        consumer = Consumer("t", config=broker.bootstrap_servers, group_id="g", **QUICK[protocol])
        while consumer.health().state != "stable":
            consumer.poll(0.01)
        monkeypatch.setattr(consumer, "_depart", interrupted)
        with pytest.raises(KeyboardInterrupt):
            consumer.close()
        end = time.monotonic() + WAIT  # less than the session's timeout, after which it would be missed
        while (told := admin.describe_groups("g")["g"]).members and time.monotonic() < end:
            pass
        assert told.members == ()


async def test_a_close_that_is_cancelled_closes_and_says_what_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    async with ScriptedBroker() as broker:  # which takes records, and never answers
        producer = await aio.Producer(broker.servers, linger_ms=0).start()
        lost = await producer.send("t", b"x")
        closing = asyncio.ensure_future(producer.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert isinstance(await asyncio.wait_for(_error_of(lost), WAIT), ClientClosed)
        assert producer.undelivered == 1
        await producer.close()
    assert "closing with 1 records undelivered" in caplog.text


async def _error_of(future: Any) -> BaseException | None:
    try:
        await future
    except Exception as error:
        return error
    return None


class Lock:
    """A producer's lock; after its second release something happens before its holder goes on."""

    def __init__(self, lock: Any, then: Callable[[], None]) -> None:
        self._lock = lock
        self._then = then
        self._left = 2

    def __enter__(self) -> None:
        self._lock.__enter__()

    def __exit__(self, *raised: object) -> None:
        self._lock.__exit__(*raised)
        self._left -= 1
        if self._left == 0:
            self._then()


def elsewhere(call: Callable[[], None]) -> None:
    """On another thread, to its end."""
    thread = threading.Thread(target=call)
    thread.start()
    thread.join(WAIT)
    assert not thread.is_alive()


def test_a_close_that_overtakes_a_send_delivers_its_record() -> None:
    with Broker(topics={"t": 1}) as broker:
        producer = Producer(broker.bootstrap_servers)
        assert producer.partitions_for("t")
        producer._lock = Lock(producer._lock, lambda: elsewhere(producer.close))  # type: ignore[assignment]
        assert producer.send("t", b"placed, and then closed").result(WAIT).offset == 0


def test_a_close_that_overtakes_a_send_that_must_wait_is_told() -> None:
    with Broker(topics={"t": 1}) as broker:
        producer = Producer(broker.bootstrap_servers)
        producer._lock = Lock(producer._lock, lambda: elsewhere(producer.close))  # type: ignore[assignment]
        with pytest.raises(ClientClosed):
            producer.send("t", b"its topic is not known yet")


def test_a_close_before_the_thread_has_begun_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = threading.Event()
    monkeypatch.setattr(blocking, "waiting_is_refused", begin.wait)
    producer = Producer("127.0.0.1:1")

    def asked_to_end(_: float | None) -> float:
        begin.set()
        return WAIT

    monkeypatch.setattr(producer, "_left_seconds", asked_to_end)
    producer.close(0)
    assert not producer._thread.is_alive()

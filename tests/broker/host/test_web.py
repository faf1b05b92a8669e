"""HTTP as a host serves it: in pages, piece by piece, to a bounded number of readers, where the setting says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import barnabas.aio
from barnabas.broker.config import ConfigError, Endpoint, load
from barnabas.broker.host import prometheus, web
from barnabas.broker.host.http import TEXT, Answer
from barnabas.broker.host.local import NAME
from barnabas.broker.metrics import MetricsRegistry
from tests.broker.host.fake_core import FakeCore, Raw, client, serving, until


async def get(port: int, path: str, host: str = "localhost") -> tuple[int, str]:
    async with client(port) as raw:
        raw.send(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        head, _, body = (await raw.ended()).decode().partition("\r\n\r\n")
        return int(head.split()[1]) if head else 0, body


async def test_state_comes_in_pages_whose_counts_say_how_many_there_are() -> None:
    async with barnabas.aio.Broker(topics={"t": 7}) as broker:
        found = []
        for after in range(0, 9, 3):
            status, body = await get(broker.port, f"/state?limit=3&after={after}")
            assert status == 200
            state = json.loads(body)
            assert state["counts"]["partitions"] == 7
            found += [one["partition"] for one in state["partitions"]]
        assert sorted(found) == list(range(7))
        assert (await get(broker.port, "/state?limit=x"))[0] == 400
        assert (await get(broker.port, "/state?after=-1"))[0] == 400
        assert (await get(broker.port, "/state?limit=999999999999"))[0] == 400


async def test_no_page_is_longer_than_a_bounded_number_of_items() -> None:
    async with barnabas.aio.Broker(topics={"t": 1200}) as broker:
        default = json.loads((await get(broker.port, "/state"))[1])
        most = json.loads((await get(broker.port, "/state?limit=100000"))[1])
        assert (len(default["partitions"]), len(most["partitions"])) == (500, 1000)
        assert most["counts"]["partitions"] == len(broker.snapshot()["partitions"]) == 1200


async def test_the_names_of_advertised_listeners_and_of_the_setting_are_answered() -> None:
    core = FakeCore()
    core.endpoints = (Endpoint("PLAINTEXT", "Broker.Example", 9092),)
    async with serving(core, barnabas_http_hosts=("more.example",)) as host:
        asked = ["broker.example", "more.example:9092", "127.0.0.1", "other.example"]
        assert [(await get(host.port, "/health", name))[0] for name in asked] == [200, 200, 200, 421]


async def test_a_name_that_is_refused_is_told_once_a_minute_with_the_setting_that_lets_it_in(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(FakeCore()) as host:
        for name in ("prometheus-target:9092", "other.example", "x" * 1000):
            assert (await get(host.port, "/metrics", name))[0] == 421
        assert (await get(host.port, "/metrics", "localhost"))[0] == 200
        (told,) = [one.getMessage() for one in caplog.records if "421" in one.getMessage()]
        assert "by the name prometheus-target," in told
        assert "barnabas.http.hosts=prometheus-target" in told
        monkeypatch.setattr(host.web, "_told_s", host.loop.time() - web.TOLD_EVERY_S)
        assert (await get(host.port, "/metrics", "x" * 1000))[0] == 421
        told = [one.getMessage() for one in caplog.records if "421" in one.getMessage()][-1]
        assert "x" * 255 in told
        assert "x" * 256 not in told


async def test_metrics_are_made_in_steps_between_which_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "_READINGS_PER_STEP", 10)
    async with serving(FakeCore()) as host:
        seen: list[int] = []
        for number in range(100):
            host.registry.gauge("X", "Y", {"n": str(number)}, lambda: len(seen))
        async with client(host.port) as kafka:
            real = host.web.go_on

            def counted(channel: object) -> None:
                seen.append(1)
                real(channel)  # type: ignore[arg-type]

            monkeypatch.setattr(host.web, "go_on", counted)
            status, body = await get(host.port, "/metrics")
            assert status == 200
            assert len(seen) > 10
            assert len([line for line in body.splitlines() if line.startswith("kafka_server_x_y{")]) == 100
            kafka.ask(1)
            assert await kafka.answer() == 1


def test_nothing_of_the_metrics_is_kept_until_the_last_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen readers of 19,000 topics held 1.8 GB, and a step read all that looks at all partitions: 1.4 s."""
    monkeypatch.setattr(prometheus, "_READINGS_PER_STEP", 10)
    read: list[int] = []
    registry = MetricsRegistry()
    for number in range(1000):
        registry.gauge("X", "Y", {"n": str(number)}, lambda: len(read))
        registry.gauge("X", f"of-all-{number}", None, lambda: read.append(1) or 0)  # type: ignore[func-returns-value]
    most = 0
    for piece in prometheus.pieces(registry.collect(0)):
        assert len(piece.splitlines()) <= 40
        most = max(most, len(read))
        read.clear()
    assert most == 1


async def test_one_piece_is_made_between_two_looks_at_the_sockets() -> None:
    """However many read: sixteen pieces were made in one go."""
    async with serving(FakeCore()) as host, AsyncExitStack() as stack:
        made: list[int] = []

        def endless() -> Iterator[str]:
            while True:
                made[-1] += 1
                yield ""

        host.web._pages = {"/endless": lambda fields: Answer(200, TEXT, endless())}
        for _ in range(8):
            raw = await stack.enter_async_context(client(host.port))
            raw.send(b"GET /endless HTTP/1.0\r\n\r\n")
            made.append(0)
        await until(lambda: len(host.web._under_way) == 8)
        made.clear()
        for _ in range(50):
            made.append(0)
            await asyncio.sleep(0)
        assert max(made) == 1


@pytest.mark.parametrize("more", [b"GET /page HTTP/1.0\r\n\r\n", b"\0\0\0\x08bodybody"])
async def test_what_comes_behind_a_request_is_for_nobody(more: bytes) -> None:
    """A second request began the answer anew, in the midst of it; a body was taken for a frame of Kafka's."""
    async with serving(FakeCore()) as host, client(host.port) as raw:
        goes_on = False

        def told() -> Iterator[str]:
            yield "first "
            while not goes_on:
                yield ""
            yield "last"

        host.web._pages = {"/page": lambda fields: Answer(200, TEXT, told())}
        raw.send(b"GET /page HTTP/1.0\r\n\r\n")
        await until(lambda: host.received_bytes > 0)
        before = host.received_bytes
        raw.send(more)
        await until(lambda: host.received_bytes == before + len(more))
        goes_on = True
        assert (await raw.ended()).partition(b"\r\n\r\n")[2] == b"first last"


async def test_the_resident_memory_that_metrics_tell_is_the_processs() -> None:
    async with serving(FakeCore()) as host:
        body = (await get(host.port, "/metrics"))[1]
        (line,) = [one for one in body.splitlines() if one.startswith("process_resident_memory_bytes ")]
        with open("/proc/self/status") as file:
            (told,) = [int(one.split()[1]) * 1024 for one in file if one.startswith("VmRSS:")]
        assert abs(int(line.split()[1]) - told) < 0.1 * told


async def test_who_does_not_read_is_sent_no_more_and_too_many_are_told_to_ask_later() -> None:
    async with serving(FakeCore()) as host, AsyncExitStack() as stack:
        made = 0

        def endless() -> object:
            nonlocal made
            while True:
                made += 1
                yield "x" * 100_000

        host.web._pages = {
            "/endless": lambda fields: Answer(200, TEXT, endless()),  # type: ignore[arg-type]
            "/short": lambda fields: Answer(200, TEXT, "told"),
        }
        host.web._busy = dict.fromkeys(host.web._pages, host.web._busy["/health"])
        for _ in range(web.ANSWERS_MAX):
            raw = await stack.enter_async_context(client(host.port))
            raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
            raw.send(b"GET /endless HTTP/1.0\r\n\r\n")
        await until(lambda: len(host.channels) == sum(channel.waits != 0 for channel in host.channels.values()) == 16)
        before = made
        assert (await get(host.port, "/short"))[0] == 503
        assert made == before
        assert host.account.by_kind["unread"] <= web.ANSWERS_MAX * 300_000
        for channel in list(host.channels.values()):
            channel.abort()
        await until(lambda: not host.channels)
        assert not host.web._under_way


async def test_the_administrator_is_answered_while_as_many_as_may_be_are_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "ANSWERS_MAX", 0)
    async with barnabas.aio.Broker(data_dir=tmp_path) as broker:
        assert (await get(broker.port, "/health"))[0] == 503
        raw = Raw(*await asyncio.open_unix_connection(f"{tmp_path}/{NAME}"))
        raw.send(b"GET /health HTTP/1.1\r\nHost: any.name\r\n\r\n")
        assert (await raw.ended()).startswith(b"HTTP/1.1 200 OK\r\n"), "and he may call it as he likes"
        await raw.close()


async def test_http_can_be_switched_off(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(FakeCore(), barnabas_http="off") as host, client(host.port) as kafka:
        assert await get(host.port, "/health") == (0, "")
        kafka.ask(1)
        assert await kafka.answer() == 1
    assert "barnabas.http=off keeps from this listener" in caplog.text


async def test_http_can_have_a_listener_of_its_own_which_speaks_no_kafka() -> None:
    async with barnabas.aio.Broker(config={"barnabas.http": "127.0.0.1:0"}) as broker:
        (own,) = [one for one in broker._assembly.listening if one.endpoint.listener == "HTTP"]
        assert (await get(own.endpoint.port, "/health"))[0] == 200
        assert (await get(broker.port, "/health"))[0] == 0
        assert str(own.endpoint.port) not in broker.bootstrap_servers
        async with client(own.endpoint.port) as raw:
            raw.ask(1)
            assert await raw.ended() == b""


@pytest.mark.parametrize("told", ["on", "9092", "host:x", "host:99999", ""])
def test_a_value_of_the_setting_that_says_nothing_is_refused(told: str) -> None:
    with pytest.raises(ConfigError, match=r"barnabas.http=.*: write shared .*, off, or host:port"):
        load(overrides={"barnabas.http": told})

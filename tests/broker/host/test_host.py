from __future__ import annotations

import asyncio
import json
import threading

import pytest

from barnabas.broker.host import host as host_module
from barnabas.broker.host.clock import mono_ms
from barnabas.broker.host.host import Host
from barnabas.broker.host.ticks import LATE_MS
from barnabas.protocol.requests.api_versions import ApiVersionsResponse
from tests.broker.host.fake_core import FakeCore, client, parks, serving, until


async def test_the_timer_ticks_the_core_when_its_deadline_has_come_and_not_before() -> None:
    core = FakeCore()
    async with serving(core) as host:
        core.deadline_ms = due_ms = mono_ms() + 30
        host.settle()
        await until(lambda: core.deadline_ms is None)
        assert due_ms <= core.ticks[-1] < due_ms + 1000


async def test_an_earlier_deadline_moves_the_timer_forward() -> None:
    core = FakeCore()
    async with serving(core) as host:
        core.deadline_ms = mono_ms() + 3_600_000
        host.settle()
        core.deadline_ms = mono_ms() + 5
        host.settle()
        await until(lambda: core.deadline_ms is None)


async def test_an_answer_given_by_a_timer_leaves_at_once() -> None:
    core = FakeCore(parks)
    core.on_tick = lambda now_ms: core.contexts[0].respond(ApiVersionsResponse())
    async with serving(core) as host, client(host.port) as raw:
        raw.ask(7)
        await until(lambda: len(core.contexts) == 1)
        core.deadline_ms = mono_ms() + 5
        host.settle()
        assert await raw.answer() == 7


async def test_completions_of_threads_run_on_the_loops_thread_and_answers_leave() -> None:
    core = FakeCore(parks)
    async with serving(core) as host, client(host.port) as raw:
        raw.ask(7)
        await until(lambda: len(core.contexts) == 1)
        ran_on: list[threading.Thread] = []

        def completion() -> None:
            ran_on.append(threading.current_thread())
            core.contexts[0].respond(ApiVersionsResponse())

        worker = threading.Thread(target=host.post, args=(completion,))
        worker.start()
        assert await raw.answer() == 7
        worker.join()
        assert ran_on == [threading.current_thread()]
        assert core.wakes == 1


async def test_jobs_run_in_turns_between_which_requests_are_served() -> None:
    core = FakeCore()
    core.ready = False
    async with serving(core) as host, client(host.port) as raw:
        core.job_steps = 50_000_000
        core.on_jobs()
        raw.ask(1)
        assert await raw.answer() == 1
        assert not host.serving
        assert 0 < core.job_steps < 50_000_000
        core.ready = True
        await host.ready()
        assert host.serving
        core.job_steps = 1


async def test_state_metrics_and_health_are_told_over_http() -> None:
    core = FakeCore()
    async with serving(core) as host, client(host.port) as kafka:
        kafka.ask(1)
        await kafka.answer()

        async def get(path: str) -> tuple[str, str]:
            async with client(host.port) as raw:
                raw.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                head, _, body = (await raw.ended()).decode().partition("\r\n\r\n")
                assert f"Content-Length: {len(body)}" in head or path == "/metrics", "which comes in pieces"
                return head.split("\r\n")[0], body

        status, body = await get("/state")
        assert status == "HTTP/1.1 200 OK"
        state = json.loads(body)
        assert state["partitions"] == []
        first = state["connections"][0]
        assert (first["dialect"], first["requests"], first["client_host"]) == ("kafka", 1, "127.0.0.1")
        status, body = await get("/metrics")
        assert 'kafka_server_socket_server_metrics_connectioncount{listener="PLAINTEXT"} 2' in body
        assert "kafka_server_socket_server_metrics_request_total 1\n" in body
        assert (await get("/health"))[0] == "HTTP/1.1 200 OK"
        assert (await get("/nowhere"))[0] == "HTTP/1.1 404 Not Found"
        core.ready = False
        assert "/state" in (await get("/"))[1]


async def test_health_says_503_while_the_broker_recovers() -> None:
    core = FakeCore()
    core.ready = False
    async with serving(core) as host, client(host.port) as raw:
        raw.send(b"GET /health HTTP/1.0\r\n\r\n")
        assert (await raw.ended()).startswith(b"HTTP/1.1 503 ")


async def test_a_disk_that_takes_too_long_does_not_keep_the_stop_and_nothing_goes_on_after_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(host_module, "STOP_MS_MAX", 5)
    core = FakeCore()
    core.stop = lambda now_ms, done: None  # type: ignore[method-assign]
    completed: list[int] = []
    async with serving(core) as host:
        core.on_jobs()
    assert "the disk took too long; the next start checks the last segments again" in caplog.text
    core.job_steps = 5
    core.deadline_ms = mono_ms() + 3_600_000
    core.on_jobs()
    host.post(lambda: completed.append(1))
    for _ in range(5):
        await asyncio.sleep(0)
    assert core.job_steps == 5
    assert completed == []
    assert not host.ticks.armed


async def woken_late(host: Host, core: FakeCore, late_ms: int) -> list[str]:
    """A deadline has gone by for so long, a request waits in a socket, and the timer is the first to be run."""
    order: list[str] = []
    core.handler = lambda request, context, now_ms: order.append("request")
    core.on_tick = lambda now_ms: order.append("tick")
    async with client(host.port) as raw:
        await until(lambda: len(host.channels) == 1)
        be_late(host, core, late_ms)
        raw.ask(1)
        host.ticks._come()
        await until(lambda: len(order) == 2)
    return order


def be_late(host: Host, core: FakeCore, late_ms: int) -> None:
    """The clock goes past a deadline, and the loop's timer has not run yet."""
    due_ms = core.deadline_ms = host.now_ms() + 3_600_000
    host.settle()
    host.now_ms = lambda: due_ms + late_ms


async def test_a_process_that_was_paused_hears_what_waits_in_its_sockets_before_it_ends_who_was_silent() -> None:
    core = FakeCore()
    async with serving(core) as host:
        assert await woken_late(host, core, LATE_MS + 1) == ["request", "tick"]
        assert not host.ticks.armed


async def test_a_tick_in_time_is_not_put_off() -> None:
    core = FakeCore()
    async with serving(core) as host:
        assert await woken_late(host, core, LATE_MS) == ["tick", "request"]


async def test_a_late_tick_comes_once_however_much_is_told_meanwhile() -> None:
    core = FakeCore()
    async with serving(core) as host:
        be_late(host, core, LATE_MS + 1)
        host.ticks._come()
        for earlier_ms in range(5):
            core.deadline_ms = earlier_ms
            host.settle()
        assert core.ticks == []
        await until(lambda: bool(core.ticks))
        await asyncio.sleep(0)
        assert len(core.ticks) == 1

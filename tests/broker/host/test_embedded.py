from __future__ import annotations

import asyncio
import gc
import signal
import socket
import threading
from pathlib import Path

import pytest

import barnabas
import barnabas.aio
from barnabas.broker.config import ConfigError
from barnabas.broker.host.data_dir import DataDirUnusable
from barnabas.client.admin import BROKER
from barnabas.testing import barnabas_broker  # noqa: F401 - the fixture
from tests.broker.host.fake_core import client


def partitions(snapshot: dict) -> list[str]:  # type: ignore[type-arg]
    return sorted(f"{one['topic']}-{one['partition']}" for one in snapshot["partitions"])


def test_the_blocking_broker_serves_once_it_is_made_and_leaves_no_thread_behind() -> None:
    before = set(threading.enumerate())
    with barnabas.Broker(topics={"flights": 2}, config={"num.partitions": 3}) as broker:
        assert broker.bootstrap_servers == f"127.0.0.1:{broker.port}"
        assert partitions(broker.snapshot()) == ["flights-0", "flights-1"]
        assert set(threading.enumerate()) - before
    assert set(threading.enumerate()) <= before
    broker.close()


async def test_the_blocking_broker_works_inside_a_running_event_loop() -> None:
    with barnabas.Broker(topics=["notes"]) as broker:
        assert partitions(broker.snapshot()) == ["notes-0"]
        async with client(broker.port) as raw:
            raw.ask(1)
            assert await raw.answer() == 1


async def test_the_asyncio_broker_runs_on_the_running_loop() -> None:
    before = set(threading.enumerate())
    async with barnabas.aio.Broker(topics={"flights": 1}) as broker:
        assert partitions(broker.snapshot()) == ["flights-0"]
        async with client(broker.port) as raw:
            raw.ask(1)
            assert await raw.answer() == 1
        assert set(threading.enumerate()) <= before


def test_nothing_of_the_program_around_it_is_touched() -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    policy, thresholds, frozen = asyncio.get_event_loop_policy(), gc.get_threshold(), gc.get_freeze_count()
    with barnabas.Broker():
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == handlers
        assert asyncio.get_event_loop_policy() is policy
        assert (gc.get_threshold(), gc.get_freeze_count(), gc.isenabled()) == (thresholds, frozen, True)


def test_a_forgotten_broker_stops() -> None:
    before = set(threading.enumerate())
    broker = barnabas.Broker()
    (thread,) = set(threading.enumerate()) - before
    del broker
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()


def test_data_lasts_in_a_directory_and_is_one_brokers_alone(tmp_path: Path) -> None:
    with barnabas.Broker(data_dir=tmp_path, topics={"kept": 2}) as broker:
        with pytest.raises(DataDirUnusable, match=r"another broker serves from .*; stop it, or name another directory"):
            barnabas.Broker(data_dir=tmp_path)
        assert partitions(broker.snapshot()) == ["kept-0", "kept-1"]
    with barnabas.Broker(data_dir=tmp_path) as broker:
        assert partitions(broker.snapshot()) == ["kept-0", "kept-1"]


def test_a_setting_nobody_knows_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match=r"num\.partitons \(from config\) .* did you mean num\.partitions\?"):
        barnabas.Broker(config={"num.partitons": 3})


@pytest.mark.parametrize("config", [{}, {"group.initial.rebalance.delay.ms": 700}])
def test_the_first_member_of_a_group_waits_for_no_others_unless_told_so(config: dict[str, int]) -> None:
    with barnabas.Broker(config=config) as broker, barnabas.Admin(broker.bootstrap_servers) as admin:
        told = admin.describe_configs(str(admin.describe_cluster().controller_id), kind=BROKER)
        assert told["group.initial.rebalance.delay.ms"] == str(sum(config.values()))


def test_a_broker_can_be_made_many_times_over() -> None:
    for _ in range(5):
        with barnabas.Broker() as broker:
            assert broker.port > 0


def test_the_fixture_is_a_broker(barnabas_broker: barnabas.Broker) -> None:  # noqa: F811
    assert barnabas_broker.snapshot()["partitions"] == []


def test_kernel_buffers_are_the_systems_unless_a_size_is_set() -> None:
    def sizes(config: dict[str, int]) -> int:
        with barnabas.Broker(config=config) as broker:
            (first, *_) = broker._inner._assembly.listening[0].sockets
            return first.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)

    untouched = sizes({})
    assert sizes({"socket.send.buffer.bytes": -1}) == untouched
    assert sizes({"socket.send.buffer.bytes": 65536}) in (65536, 2 * 65536)  # Linux counts its own needs in

"""`./dev demo --mqtt`: what the machine tells, and the whole way as a user runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.demo.live import Live
from barnabas.demo.machine import Machine, core_ticks, memory_percent, network_bytes
from barnabas.demo.machine_run import MachineDemo
from barnabas.protocol.errors import BarnabasError
from tests.demo.test_run import PNG_MAGIC, SECONDS_MAX, left_over

STAT = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 10 5 15 60 10 0 0 0 0 0\ncpu1 0 0 0 100 0 0 0 0 0 0\nintr 5\n"
NETWORK = """Inter-|   Receive                          |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo: 1000 1 0 0 0 0 0 0 1000 1 0 0 0 0 0 0
  eth0: 300 1 0 0 0 0 0 0 40 1 0 0 0 0 0 0
"""


def test_the_system_s_own_tables_are_read() -> None:
    assert core_ticks(STAT) == {"cpu0": (30, 100), "cpu1": (0, 100)}
    assert memory_percent("MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 250 kB\n") == 75
    assert network_bytes(NETWORK) == 1340


def test_loads_are_those_between_two_looks() -> None:
    machine = Machine()
    assert dict(machine._load_of_cores(STAT)) == {}
    later = STAT.replace("cpu0 10 5 15 60 10", "cpu0 40 5 15 70 10")
    assert dict(machine._load_of_cores(later)) == {"cpu0": 75.0}


class Dying(Live):
    """Its connection goes right after the start, as when the MQTT broker ends."""

    async def _serve(self) -> None:
        self._ready.set()
        await self._hush.wait()
        raise ConnectionResetError("the MQTT broker went")


class Running:
    """A Spark job that has nothing to complain of."""

    isActive = True  # noqa: N815


def test_an_mqtt_side_that_ends_early_is_told_and_not_waited_for() -> None:
    live = Dying("nowhere:1")
    live.start()
    with pytest.raises(BarnabasError, match="the MQTT side ended early: the MQTT broker went"):
        live.hush()
    demo = MachineDemo(None, 0, None)  # type: ignore[arg-type]
    demo._live, demo._query = live, Running()  # type: ignore[assignment]
    with pytest.raises(BarnabasError, match="the MQTT side ended early: the MQTT broker went"):
        demo._wait_for(1)
    live.close()


@pytest.mark.spark
@pytest.mark.slow
def test_this_machine_goes_by_mqtt_through_the_bridge_into_a_window_aggregation(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", minversion="4.2")
    pytest.importorskip("amqtt")
    command = [sys.executable, "-m", "barnabas.demo", "--mqtt", "--seconds", "3", "--dir", str(tmp_path)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        said, _ = process.communicate(timeout=SECONDS_MAX)
    finally:
        process.kill()
    assert process.returncode == 0, said
    assert "everything has been through" in said
    told = re.search(r"([\d,]+) messages at QoS 1, MQTT to acknowledged record p50 \d+ ms", said)
    assert told is not None, said
    lines = re.findall(r"^ +(\w+) +([\d,]+) +(\d+) +[\d.]+ +[\d.]+$", said, re.MULTILINE)
    assert sum(int(count.replace(",", "")) for _, count, _ in lines) == int(told[1].replace(",", "")), "none is missing"
    assert "load" in {metric for metric, _, _ in lines}
    assert (tmp_path / "machine.png").read_bytes().startswith(PNG_MAGIC)
    assert not left_over(process.pid)

"""A disk of 64 MB, filled and freed ten times under load: nothing waits for a restart, nothing is lost."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import TopicPartition
from tests.cli.process import broker
from tests.cli.small_disk import SmallDisk

ROUNDS = 10
PARTITIONS = 3
FULL_S = 0.25
BOUND_S = 30.0
"""How long a machine may be busy elsewhere. What is shown is no time: the first request after the room is taken."""
SETTINGS = ("log.segment.bytes=1048576", "metadata.log.max.record.bytes.between.snapshots=4096")
NAMES_FULL_IN = (3, 7)
"""Rounds in which bytes find room and new files do not, so that it is the roll of a segment that meets the full disk.
(Where bytes find none either, the append before it fails, for a new file takes no bytes on such a disk.)"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    try:
        disk = SmallDisk(tmp_path / "small", "64m", "2k")
    except OSError as error:
        pytest.skip(str(error))
    try:
        yield disk
    finally:
        disk.end()


class Load:
    """Records to all partitions, all the time; remembers which were acknowledged."""

    def __init__(self, port: int) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.producer = Producer(
            bootstrap_servers=f"127.0.0.1:{port}",
            linger_ms=1,
            delivery_timeout_ms=3000,
            request_timeout_ms=1000,
            retry_backoff_ms=20,
            retry_backoff_max_ms=50,
        )
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopped.wait(0.002):
            for partition in range(PARTITIONS):
                value = b"%d" % number + bytes(3000)
                self.producer.send("t", value, partition=partition, on_delivery=partial(self._delivered, value))
            number += 1

    def _delivered(self, value: bytes, metadata: Any, error: BaseException | None) -> None:
        if error is None:
            self.acknowledged[metadata.partition, metadata.offset] = value

    def ends(self) -> list[int]:
        """The newest acknowledged offset of each partition."""
        known = list(self.acknowledged)
        return [max((offset for at, offset in known if at == partition), default=-1) for partition in range(PARTITIONS)]

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        self.producer.close(timeout=0)


def once(port: int) -> Producer:
    """A producer that asks once: what the broker refuses is refused."""
    return Producer(bootstrap_servers=f"127.0.0.1:{port}", retries=0, acks=1, enable_idempotence=False, linger_ms=0)


def wait_until_refused(probe: Producer) -> None:
    """Until some partition takes no more: where names are full, its segment is, and the next one cannot be begun."""
    deadline = time.monotonic() + BOUND_S
    while True:
        asked = [probe.send("t", bytes(8192), partition=at) for at in range(PARTITIONS)]
        told = [future.exception(BOUND_S) for future in asked]
        if any(told):
            return
        assert time.monotonic() < deadline, "the disk was full"


def everything(port: int) -> dict[tuple[int, int], bytes]:
    found: dict[tuple[int, int], bytes] = {}
    with Consumer("t", bootstrap_servers=f"127.0.0.1:{port}", auto_offset_reset="earliest") as consumer:
        ends = consumer.end_offsets([TopicPartition("t", number) for number in range(PARTITIONS)])
        while len(found) < sum(ends.values()):
            records = consumer.poll(60)
            assert records, "the log ends before its end offset"
            found.update({(record.partition, record.offset): bytes(record.value) for record in records})
    return found


def test_ten_times_full_and_nothing_is_over(small_disk: SmallDisk) -> None:
    options = ("--port", "0", "--data-dir", str(small_disk.data), "--topic", f"t:{PARTITIONS}")
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    with broker(*options, *settings, inside=small_disk.inside) as process:
        address = f"127.0.0.1:{process.port}"
        hasty = Admin(bootstrap_servers=address, request_timeout_ms=300)
        patient = Admin(bootstrap_servers=address, request_timeout_ms=int(BOUND_S * 1000))
        with hasty, patient, once(process.port) as probe:
            load = Load(process.port)
            try:
                for number in range(ROUNDS):
                    if number in NAMES_FULL_IN:
                        small_disk.fill_names()
                    else:
                        small_disk.fill()
                    wait_until_refused(probe)
                    full_until = time.monotonic() + FULL_S
                    created = 0
                    while time.monotonic() < full_until:
                        with contextlib.suppress(BarnabasError):
                            hasty.create_topic(f"full-{number}-{created}", partitions=1)
                        created += 1
                    small_disk.free()
                    before = load.ends()
                    taken = [probe.send("t", b"now", partition=at) for at in range(PARTITIONS)]
                    assert [future.exception(BOUND_S) for future in taken] == [None] * PARTITIONS, number
                    patient.create_topic(f"again-{number}", partitions=1)
                    deadline = time.monotonic() + BOUND_S
                    while not all(now > then for now, then in zip(load.ends(), before, strict=True)):
                        assert time.monotonic() < deadline, f"round {number}: {before} to {load.ends()}"
            finally:
                load.stop()
        assert process.end(signal.SIGKILL) == -signal.SIGKILL
    assert len(load.acknowledged) > ROUNDS * PARTITIONS
    with broker(*options, *settings, inside=small_disk.inside) as process:
        found = everything(process.port)
        with Admin(bootstrap_servers=f"127.0.0.1:{process.port}") as admin:
            assert {f"again-{number}" for number in range(ROUNDS)} <= set(admin.list_topics())
        assert process.end() == 0
    assert {where: value for where, value in load.acknowledged.items() if found.get(where) != value} == {}

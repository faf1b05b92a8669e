"""SIGKILL under load three times, and after a topic was made anew: nothing acknowledged is lost."""

from __future__ import annotations

import signal
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from barnabas.client.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.protocol.ids import TopicPartition
from tests.cli.process import Process, broker

PARTITIONS = 2
ROUNDS = 3
ACKED_BEFORE_KILL = 3000

Records = dict[tuple[int, int], bytes]


def load_until_killed(process: Process, round_number: int) -> Records:
    """Produce as fast as it goes, kill the broker in the midst of it; what was acknowledged by then."""
    acknowledged: Records = {}
    enough = threading.Event()

    def delivered(value: bytes, metadata: Any, error: BaseException | None) -> None:
        if error is None:
            acknowledged[metadata.partition, metadata.offset] = value
            if len(acknowledged) == ACKED_BEFORE_KILL:
                enough.set()

    def kill() -> None:
        if enough.wait(60):
            process.popen.send_signal(signal.SIGKILL)

    killer = threading.Thread(target=kill)
    producer = Producer(
        bootstrap_servers=f"127.0.0.1:{process.port}",
        linger_ms=1,
        batch_size=2000,
        delivery_timeout_ms=2000,
        request_timeout_ms=1000,
    )
    killer.start()
    number = 0
    while not enough.is_set() and killer.is_alive():
        value = b"%d/%d" % (round_number, number)
        producer.send("t", value, partition=number % PARTITIONS, on_delivery=partial(delivered, value))
        number += 1
    killer.join()
    assert process.wait() == -signal.SIGKILL
    producer.close(timeout=0)
    return acknowledged


def everything(port: int) -> Records:
    found: Records = {}
    with Consumer("t", bootstrap_servers=f"127.0.0.1:{port}", auto_offset_reset="earliest") as consumer:
        ends = consumer.end_offsets([TopicPartition("t", number) for number in range(PARTITIONS)])
        while len(found) < sum(ends.values()):
            records = consumer.poll(60)
            assert records, "the log ends before its end offset"
            found.update({(record.partition, record.offset): bytes(record.value) for record in records})
    return found


def test_every_acknowledged_record_survives_three_kills(tmp_path: Path) -> None:
    acknowledged: Records = {}
    options = ("--port", "0", "--data-dir", str(tmp_path), "--topic", f"t:{PARTITIONS}")
    for round_number in range(ROUNDS):
        with broker(*options) as process:
            again = load_until_killed(process, round_number)
        assert not again.keys() & acknowledged.keys(), "an acknowledged offset was given away a second time"
        acknowledged |= again
    assert len(acknowledged) >= ROUNDS * ACKED_BEFORE_KILL
    with broker(*options) as process:
        found = everything(process.port)
        assert process.end() == 0
    assert {where: value for where, value in acknowledged.items() if found.get(where) != value} == {}


def test_a_deleted_topic_of_the_longest_name_keeps_no_start_away(tmp_path: Path) -> None:
    """Killed between a deletion's commit and the renaming of the directories, as the directory's return shows."""
    name = "x" * 249
    options = ("--port", "0", "--data-dir", str(tmp_path))
    with broker(*options, "--topic", f"{name}:1", "--topic", "other:1") as process:
        with Producer(bootstrap_servers=f"127.0.0.1:{process.port}") as producer:
            for topic in (name, "other"):
                producer.send(topic, b"kept").result(60)
        with Admin(bootstrap_servers=f"127.0.0.1:{process.port}") as admin:
            admin.delete_topic(name)
        process.end(signal.SIGKILL)
    (away,) = tmp_path.glob("*-delete")
    away.rename(tmp_path / f"{name}-0")
    with broker(*options) as process:
        with Consumer("other", bootstrap_servers=f"127.0.0.1:{process.port}", auto_offset_reset="earliest") as consumer:
            assert [bytes(record.value) for record in consumer.poll(60)] == [b"kept"]
        assert process.end() == 0
    (stray,) = tmp_path.glob("*-stray")
    assert b"kept" in (stray / f"{0:020d}.log").read_bytes()
    with broker(*options) as process:
        assert process.end() == 0


@pytest.mark.parametrize(("config", "count"), [({}, 500), ({}, 1000), ({"flush.messages": "1"}, 500)])
def test_a_kill_leaves_a_topic_alone_that_was_made_anew(tmp_path: Path, config: dict[str, str], count: int) -> None:
    """A clean stop noted down the log start of the topic that had its name before: that means nothing to it.

    Not even where the new log reaches so far.
    """
    key = TopicPartition("t", 0)
    options = ("--port", "0", "--data-dir", str(tmp_path))
    with broker(*options) as process:
        with Admin(bootstrap_servers=f"127.0.0.1:{process.port}") as admin:
            admin.create_topic("t", partitions=1, config=config)
            produce(process.port, 1000)
            assert admin.delete_records({key: 900}) == {key: 900}
        assert process.end() == 0
    with broker(*options) as process:
        with Admin(bootstrap_servers=f"127.0.0.1:{process.port}") as admin:
            admin.delete_topic("t")
            admin.create_topic("t", partitions=1, config=config)
        produce(process.port, count)
        assert process.end(signal.SIGKILL) == -signal.SIGKILL
    with broker(*options) as process:
        with Consumer("t", bootstrap_servers=f"127.0.0.1:{process.port}") as consumer:
            assert consumer.beginning_offsets([key]) == {key: 0}
            assert consumer.end_offsets([key]) == {key: count}
        assert process.end() == 0


def produce(port: int, count: int) -> None:
    """Records that were all acknowledged."""
    with Producer(bootstrap_servers=f"127.0.0.1:{port}") as producer:
        for number in range(count):
            producer.send("t", b"%d" % number)
        producer.flush()

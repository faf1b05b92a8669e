"""SIGTERM with many freshly written partitions: the end is a clean one, and everything is there afterwards."""

from __future__ import annotations

import contextlib
import json
import signal
from pathlib import Path

from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import TopicPartition
from tests.cli.process import broker

PARTITIONS = 250


def test_a_stop_with_many_fresh_partitions_is_clean(tmp_path: Path) -> None:
    """More than the stop writes file by file: what is kept together comes back, too."""
    options = ("--port", "0", "--data-dir", str(tmp_path), "--topic", f"t:{PARTITIONS}")
    with broker(*options) as process:
        with Producer(bootstrap_servers=f"127.0.0.1:{process.port}") as producer:
            for number in range(2 * PARTITIONS):
                producer.send("t", b"%d" % number, partition=number % PARTITIONS)
            producer.flush()
        assert process.end() == 0
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "barnabas-closing-files").exists()
    with broker(*options) as process:
        with Consumer("t", bootstrap_servers=f"127.0.0.1:{process.port}", auto_offset_reset="earliest") as consumer:
            ends = consumer.end_offsets([TopicPartition("t", number) for number in range(PARTITIONS)])
            assert set(ends.values()) == {2}
            found: set[bytes] = set()
            while len(found) < 2 * PARTITIONS:
                records = consumer.poll(60)
                assert records, "records are missing"
                found.update(bytes(record.value) for record in records)
        assert process.end() == 0
    assert found == {b"%d" % number for number in range(2 * PARTITIONS)}
    assert any("ready: a clean end" in line for line in process.errors)


def test_a_stop_under_load_logs_no_errors(tmp_path: Path) -> None:
    """Writes that come while it stops are refused, and that is nothing to mend."""
    with broker("--port", "0", "--data-dir", str(tmp_path), "--topic", f"t:{PARTITIONS}") as process:
        address = f"127.0.0.1:{process.port}"
        with Producer(bootstrap_servers=address) as patient:
            for number in range(2 * PARTITIONS):
                patient.send("t", b"before", partition=number % PARTITIONS)
        producer = Producer(
            bootstrap_servers=address, linger_ms=0, max_block_ms=500, delivery_timeout_ms=1500, request_timeout_ms=1000
        )
        while True:
            with contextlib.suppress(BarnabasError):
                producer.partitions_for("t")
                break
        process.popen.send_signal(signal.SIGTERM)
        number = 0
        while process.popen.poll() is None:
            with contextlib.suppress(BarnabasError):
                producer.send("t", b"x", partition=number % PARTITIONS)
            number += 1
        assert process.wait() == 0
        producer.close(timeout=0)
    levels = {json.loads(line)["level"] for line in process.errors}
    assert "info" in levels
    assert "error" not in levels, process.errors

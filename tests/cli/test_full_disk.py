"""A disk that is full, under the real process: that partition refuses writes, and everything else serves on."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from barnabas import Consumer, Producer, TopicPartition
from barnabas.protocol.errors import ErrorCode, KafkaError
from tests.cli.process import broker

FULL_AT_BYTES = 100_000
VALUE = b"x" * 10_000


def count(server: str, partition: int) -> int:
    """How many records a reader finds from the beginning to the end."""
    where = TopicPartition("t", partition)
    found = 0
    with Consumer(bootstrap_servers=server) as consumer:
        consumer.assign([where])
        consumer.seek_to_beginning(where)
        end = consumer.end_offsets([where])[where]
        while consumer.position(where) < end:
            found += len(consumer.poll(60))
    return found


def fill(producer: Producer) -> tuple[int, Exception | None]:
    """How many records went in before one was refused, and why it was."""
    for kept in range(2 * FULL_AT_BYTES // len(VALUE)):
        try:
            producer.send("t", VALUE, partition=0).result(60)
        except KafkaError as error:
            return kept, error
    return -1, None


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="this system cannot bound another process' files")
def test_a_partition_whose_disk_is_full_refuses_and_all_else_serves_on(tmp_path: Path) -> None:
    options = ("--port", "0", "--data-dir", str(tmp_path), "--topic", "t:2")
    with broker(*options) as process:
        server = f"127.0.0.1:{process.port}"
        bounds = resource.prlimit(process.popen.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.popen.pid, resource.RLIMIT_FSIZE, (FULL_AT_BYTES, bounds[1]))
        settings = {"bootstrap.servers": server, "retries": 0, "enable.idempotence": False, "linger.ms": 0}
        with Producer(settings) as producer:
            kept, error = fill(producer)
            assert isinstance(error, KafkaError)
            assert error.code == ErrorCode.KAFKA_STORAGE_ERROR
            assert kept >= 5
            assert producer.send("t", VALUE, partition=1).result(60).offset == 0
            assert count(server, 0) == kept
            resource.prlimit(process.popen.pid, resource.RLIMIT_FSIZE, bounds)
            assert producer.send("t", VALUE, partition=0).result(60).offset == kept
        assert process.end() == 0
    assert "t-0 refuses writes: [Errno" in "".join(process.errors)
    with broker(*options) as process:
        assert count(f"127.0.0.1:{process.port}", 0) == kept + 1
        assert process.end() == 0

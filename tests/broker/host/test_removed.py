"""Files that somebody removes under a living broker: what it notices and when, and that nothing else suffers."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from barnabas.client.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from tests.cli.process import Process, broker

FIRST = f"{0:020d}.log"
CHECKPOINTS = [
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
]


def options(path: Path, *settings: str) -> list[str]:
    topics = [part for topic in ("dir:1", "seg:1", "keep:1") for part in ("--topic", topic)]
    return ["--port", "0", "--data-dir", str(path), *topics, *(part for one in settings for part in ("--set", one))]


def produce(port: int, topic: str, *values: bytes) -> BaseException | None:
    """Send one by one; the last one's error."""
    with Producer(bootstrap_servers=f"127.0.0.1:{port}", retries=0, enable_idempotence=False) as producer:
        return [producer.send(topic, value).exception(60) for value in values][-1]


def consumed(port: int, topic: str, count: int, start: int = 0, patience_s: float = 60) -> list[bytes]:
    found: list[bytes] = []
    with Consumer(bootstrap_servers=f"127.0.0.1:{port}") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), start)
        while len(found) < count:
            records = consumer.poll(timeout=patience_s)
            assert records, f"{found} of {count}"
            found += [bytes(record.value) for record in records]
    return found


def end_offset(port: int, topic: str) -> int:
    with Consumer(bootstrap_servers=f"127.0.0.1:{port}") as consumer:
        return consumer.end_offsets([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]


def said(process: Process, *pieces: str) -> bool:
    return any(all(piece in line for piece in pieces) for line in process.errors)


@pytest.mark.parametrize("killed", [True, False])
def test_logs_that_are_removed_cost_themselves_alone_and_are_told(tmp_path: Path, killed: bool) -> None:
    data = tmp_path / "data"
    with broker(*options(data)) as process:
        for topic in ("dir", "seg", "keep"):
            assert produce(process.port, topic, b"a", b"b") is None
        assert process.end() == 0
    with broker(*options(data)) as process:
        for topic in ("dir", "seg", "keep"):
            assert produce(process.port, topic, b"c") is None
        shutil.rmtree(data / "dir-0")
        (data / "seg-0" / FIRST).unlink()
        for name in [*CHECKPOINTS, "barnabas-ledger"]:
            (data / name).unlink(missing_ok=True)
        assert produce(process.port, "dir", b"d") is None, "the handle is open, and nobody asked for a sync"
        assert produce(process.port, "keep", b"d") is None
        assert consumed(process.port, "dir", 4) == [b"a", b"b", b"c", b"d"]
        if killed:
            process.end(signal.SIGKILL)
        else:
            assert process.end() == 0
            assert said(process, "dir-0 could not be closed cleanly", "removed under the broker")
            assert said(process, "seg-0 could not be closed cleanly", "removed under the broker")
            assert not said(process, "keep-0")
            assert all((data / name).exists() for name in [*CHECKPOINTS, "barnabas-ledger"])
            assert not (data / ".kafka_cleanshutdown").exists()
    with broker(*options(data)) as process:
        assert consumed(process.port, "keep", 4) == [b"a", b"b", b"c", b"d"]
        assert [end_offset(process.port, topic) for topic in ("dir", "seg", "keep")] == [0, 0, 4]
        assert process.end() == 0
    assert said(process, "loss: dir-0", "gone") != killed, "nothing tells of it once the checkpoints are gone, too"
    assert said(process, "loss: seg-0", "the file is gone, and its index is here")


def test_with_flush_messages_no_answer_leaves_for_what_has_no_name(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with broker(*options(data, "log.flush.interval.messages=1")) as process:
        for topic in ("dir", "seg", "keep"):
            assert produce(process.port, topic, b"a") is None
        shutil.rmtree(data / "dir-0")
        (data / "seg-0" / FIRST).unlink()
        for topic in ("dir", "seg"):
            error = produce(process.port, topic, b"b")
            assert isinstance(error, KafkaError), error
            assert error.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert produce(process.port, "keep", b"b") is None
        with Admin(bootstrap_servers=f"127.0.0.1:{process.port}") as admin:
            admin.delete_topics("dir")
            admin.create_topic("dir", partitions=1)
        assert produce(process.port, "dir", b"anew") is None, "a topic whose directory is gone can be made anew"
        assert process.end() == 0
    assert said(process, "seg-0 takes no records any more", "removed under the broker")
    with broker(*options(data)) as process:
        assert consumed(process.port, "keep", 2) == [b"a", b"b"]
        assert consumed(process.port, "dir", 1) == [b"anew"]
        assert process.end() == 0


def test_a_sealed_segment_that_is_removed_costs_its_own_records(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with broker(*options(data, "log.segment.bytes=1048576")) as process:
        assert produce(process.port, "seg", *[bytes([number]) * 600_000 for number in range(4)]) is None
        assert process.end() == 0
    with broker(*options(data, "log.segment.bytes=1048576")) as process:
        (data / "seg-0" / f"{1:020d}.log").unlink()
        assert consumed(process.port, "seg", 1)[0][:1] == b"\0"
        with pytest.raises((BarnabasError, AssertionError)):
            consumed(process.port, "seg", 1, start=1, patience_s=0.3)
        assert [value[:1] for value in consumed(process.port, "seg", 2, start=2)] == [b"\2", b"\3"]
        assert produce(process.port, "seg", b"4") is None
        assert process.end() == 0
    assert said(process, f"{1:020d}.log cannot be read", "said once")
    with broker(*options(data)) as process:
        assert [value[:1] for value in consumed(process.port, "seg", 4)] == [b"\0", b"\2", b"\3", b"4"]
        assert process.end() == 0
    assert said(process, "loss: seg-0", "the file is gone, and its index is here")


@pytest.mark.parametrize("name", ["meta.properties", "__cluster_metadata-0"])
def test_without_identity_or_metadata_the_next_start_refuses_and_says_what_to_do(tmp_path: Path, name: str) -> None:
    data = tmp_path / "data"
    with broker(*options(data)) as process:
        assert produce(process.port, "keep", b"a") is None
        (data / name).unlink() if name == "meta.properties" else shutil.rmtree(data / name)
        assert produce(process.port, "keep", b"b") is None
        with Admin(bootstrap_servers=f"127.0.0.1:{process.port}") as admin:
            if name == "meta.properties":
                admin.create_topic("new", partitions=1)
            else:
                with pytest.raises(KafkaError, match="removed under the broker"):
                    admin.create_topic("new", partitions=1)
        process.end()
    with pytest.raises(AssertionError, match="no banner") as refused, broker(*options(data)):
        pass
    assert name in str(refused.value)
    assert "restore" in str(refused.value)
    assert (data / "keep-0" / FIRST).stat().st_size > 0

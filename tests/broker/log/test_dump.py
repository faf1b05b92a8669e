"""Kafka's own DumpLogSegments reads a log directory: segments, both indexes, snapshots, in every state of a log."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.broker.log.harness import NOW, World, append
from tests.oracle.kafka import kept_libs

KAFKA_LIBS = "BARNABAS_KAFKA_LIBS"


@pytest.fixture(scope="module")
def classpath():
    """The jars of Apache Kafka 4.3.0 with its tools: from the environment, or where `./dev tools` puts them."""
    where = Path(os.environ.get(KAFKA_LIBS) or kept_libs())
    if shutil.which("java") is None:
        pytest.skip("java is absent")
    if not list(where.glob("kafka-tools-*.jar")):
        pytest.skip(f"Apache Kafka's jars are absent (./dev tools brings them; or name them in {KAFKA_LIBS})")
    return f"{where}/*"


def dump(classpath, *files):
    """Output of DumpLogSegments with its index checks."""
    command = ["java", "-Xmx256m", "-cp", classpath, "org.apache.kafka.tools.DumpLogSegments", "--deep-iteration"]
    command += ["--print-data-log", "--files", ",".join(str(file) for file in files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A log of several segments with all codecs, an idempotent producer, and one compacted segment, cleanly closed."""
    path = tmp_path_factory.mktemp("data")
    world = World("real", path)
    log = world.new_log(segment_bytes=4000, index_interval_bytes=300, cleanup_policy=("compact", "delete"))
    for i in range(120):
        fields = {"pid": 7, "epoch": 0, "sequence": i // 3} if i % 3 == 0 else {"codec": i % 5}
        value = None if i == 50 else b"value-%d" % i
        append(log, value, keys=[b"key-%d" % (i % 40)], timestamps=[NOW + i], leader_epoch=i // 50, **fields)
    world.run(log.compact(NOW))
    world.run(log.close())
    world.disk.close()
    return path / "t-0"


def test_segments_and_indexes(classpath, directory):
    files = sorted(directory.glob("*.log")) + sorted(directory.glob("*.index")) + sorted(directory.glob("*.timeindex"))
    assert len(list(directory.glob("*.index"))) > 2
    output = dump(classpath, *files)
    known = ("|", "baseOffset:", "offset:", "timestamp:", "Dumping", "Log starting offset:")
    complaints = [line for line in output.splitlines() if not line.startswith(known) and "is empty" not in line]
    assert [line for line in complaints if line.strip()] == [], "Kafka found nothing to complain about"
    assert "isvalid: false" not in output
    assert "payload: value-119" in output
    assert "deleteHorizonMs: OptionalLong[" in output
    offsets = [
        int(line.split("offset: ")[1].split()[0]) for line in output.splitlines() if line.startswith("| offset:")
    ]
    assert offsets[-1] == 119
    assert len(offsets) == len(set(offsets)) < 120


def test_producer_snapshots(classpath, directory):
    newest = max(directory.glob("*.snapshot"))
    output = dump(classpath, newest)
    assert "producerId: 7 producerEpoch: 0" in output
    assert "lastSequence: 39 lastOffset: 117" in output

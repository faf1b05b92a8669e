"""`barnabas log` on the directory of a real broker: what it shows, and a repair after which the broker starts."""

from __future__ import annotations

from pathlib import Path

from barnabas.broker.cluster.judgement import DIRECTORY
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from tests.cli.process import broker, run, tree

LOG = f"{DIRECTORY}/{0:020d}.log"


def used(path: Path) -> None:
    """A directory with topics t and u, stopped; t holds two records."""
    with broker("--port", "0", "--data-dir", str(path), "--topic", "t:1") as process:
        with Producer(bootstrap_servers=f"127.0.0.1:{process.port}", enable_idempotence=True) as producer:
            producer.send("t", b"one", key=b"k").result(60)
            producer.send("t", b"two").result(60)
        assert process.end() == 0
    with broker("--port", "0", "--data-dir", str(path), "--topic", "u:1") as process:
        assert process.end() == 0


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def flip_creation(path: Path, topic: str) -> None:
    """Turn a bit in the record that made a topic."""
    data = (path / LOG).read_bytes()
    flip(path / LOG, data.index(bytes([0xA0 | len(topic)]) + topic.encode()))


def wide(text: str) -> list[str]:
    return [line for line in text.splitlines() if len(line) > 100]


def test_check_and_dump_show_what_is_there_and_change_nothing(tmp_path: Path) -> None:
    used(tmp_path)
    before = tree(tmp_path)
    checked = run("log", "check", str(tmp_path))
    assert checked.returncode == 0, checked.stderr
    rows = {line.split()[0]: line.split() for line in checked.stdout.splitlines()[1:]}
    assert set(rows) == {DIRECTORY, "t-0", "u-0"}
    assert rows["t-0"][1] == "1"
    assert rows["t-0"][4:6] == ["0", "2"]
    dumped = run("log", "dump", str(tmp_path / "t-0"))
    assert dumped.returncode == 0, dumped.stderr
    assert "00000000000000000000.log byte 0: offsets 0 to 0" in dumped.stdout
    assert "producer 0/0" in dumped.stdout
    assert "'k'  'one'" in dumped.stdout
    assert "-  'two'" in dumped.stdout
    metadata = run("log", "dump", str(tmp_path / LOG))
    assert "Topic topic_id=" in metadata.stdout
    assert "name=u" in metadata.stdout
    assert "RegisterBroker broker_id=1" in metadata.stdout
    assert not wide(checked.stdout + dumped.stdout + metadata.stdout)
    assert tree(tmp_path) == before


def test_a_repair_says_what_is_lost_does_nothing_unasked_and_then_the_broker_starts(tmp_path: Path) -> None:
    used(tmp_path)
    flip_creation(tmp_path, "u")
    before = tree(tmp_path)
    refused = run("broker", "--port", "0", "--data-dir", str(tmp_path))
    assert refused.returncode == 2
    (sentence,) = [line for line in refused.stderr.splitlines() if line.startswith("barnabas: ")]
    assert f"{tmp_path}: {LOG} is broken at byte" in sentence
    assert "barnabas log repair" in sentence
    checked = run("log", "check", str(tmp_path))
    assert checked.returncode == 1
    assert "BROKEN" in checked.stdout
    assert "the broker does not start" in checked.stdout
    dumped = run("log", "dump", str(tmp_path / DIRECTORY))
    assert dumped.returncode == 1
    assert "is broken at byte" in dumped.stderr
    told = run("log", "repair", str(tmp_path))
    assert told.returncode == 1
    assert "topics that are lost with it (their logs stay, as -stray directories): u" in told.stdout
    assert "nothing was changed; --yes does it" in told.stdout
    assert not wide(checked.stdout + told.stdout)
    assert tree(tmp_path) == before
    cut = (tmp_path / LOG).read_bytes()
    done = run("log", "repair", "--yes", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (kept,) = (tmp_path / DIRECTORY).glob("*.cut")
    assert (tmp_path / LOG).read_bytes() + kept.read_bytes() == cut
    assert "nothing to repair" in run("log", "repair", str(tmp_path)).stdout
    with broker("--port", "0", "--data-dir", str(tmp_path)) as process:
        with Consumer("t", bootstrap_servers=f"127.0.0.1:{process.port}", auto_offset_reset="earliest") as consumer:
            assert [bytes(record.value) for record in consumer.poll(60)] == [b"one", b"two"]
        assert process.end() == 0
    assert len(list(tmp_path.glob("u-0.*-stray"))) == 1


def test_a_broken_partition_is_named_with_its_place(tmp_path: Path) -> None:
    used(tmp_path)
    flip(tmp_path / "t-0" / f"{0:020d}.log", 65)
    checked = run("log", "check", str(tmp_path / "t-0"))
    assert checked.returncode == 1
    assert f"t-0/{0:020d}.log is broken at byte 0 (record 0): the sum of the batch is wrong" in checked.stdout


def test_no_repair_while_a_broker_serves_and_no_log_where_there_is_none(tmp_path: Path) -> None:
    with broker("--port", "0", "--data-dir", str(tmp_path)):
        served = run("log", "repair", str(tmp_path))
        assert served.returncode == 1
        assert f"another broker serves from {tmp_path}" in served.stderr
    empty = tmp_path / "empty"
    empty.mkdir()
    for arguments, sentence in (
        (["check", str(tmp_path / "none")], "there is no data directory"),
        (["check", str(empty)], "holds no logs"),
        (["repair", str(empty)], "is no data directory of a broker"),
        (["dump", str(empty)], "is no log; name a partition's directory, or a file in it"),
        (["dump", str(tmp_path / DIRECTORY / "1.log")], "is no segment"),
    ):
        ended = run("log", *arguments)
        assert ended.returncode == 1, arguments
        assert ended.stderr.startswith("barnabas: ")
        assert sentence in ended.stderr
        assert len(ended.stderr.splitlines()) == 1
    assert not list(empty.iterdir())


def test_a_directory_that_is_named_twice_is_told_so(tmp_path: Path) -> None:
    """No other broker is to be stopped for that."""
    (tmp_path / "a").mkdir()
    told = run("log", "voters", str(tmp_path / "a"), f"{tmp_path}/./a")
    assert told.returncode == 2
    assert "are one data directory; name that of each controller once" in told.stderr

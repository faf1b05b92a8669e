"""`barnabas log segments` and `dump`: logs, indexes, snapshots, checkpoints and the records of groups, in words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from barnabas import Admin, Broker, Producer, TopicPartition
from barnabas.broker.raft import kept
from tests.cli.process import tree
from tests.cli.terminal import call

FIRST = f"{0:020d}"


def good(*words: str) -> str:
    code, told, wrong = call("log", *words)
    assert (code, wrong) == (0, "")
    return told.decode()


def lines(*words: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in good(*words, "--json").splitlines()]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that a broker has left: t has three segments of two records each, of an idempotent producer."""
    path = tmp_path_factory.mktemp("data")
    with Broker(data_dir=str(path), topics={"u": 1}) as broker:
        servers = broker.bootstrap_servers
        with Admin(servers) as admin, Producer(servers, enable_idempotence=True, linger_ms=0) as producer:
            settings = {"segment.bytes": 1_048_576, "index.interval.bytes": 1, "retention.ms": -1}
            admin.create_topic("t", config=settings)
            for number in range(6):
                value = bytes([number]) * 500_000
                producer.send("t", value, b"k%d" % number, timestamp_ms=1000 + number).result(30)
            producer.send("u", None, b"gone", headers=[("why", b"old"), ("who", None)]).result(30)
            admin.alter_group_offsets("g", {TopicPartition("t", 0): 3})
    return path


def test_segments_are_told_with_their_indexes(data: Path) -> None:
    before = tree(data)
    found = lines("segments", str(data / "t-0"))
    assert [each["segment"] for each in found] == [f"t-0/{base:020d}.log" for base in (0, 2, 4)]
    assert [(each["first_offset"], each["end_offset"], each["records"]) for each in found] == [
        (0, 2, 2),
        (2, 4, 2),
        (4, 6, 2),
    ]
    assert all(each["index"] >= 1 and each["timeindex"] >= 1 for each in found)
    head, *rows = [line.split() for line in good("segments", str(data / "t-0")).splitlines()]
    assert head[:3] == ["segment", "bytes", "batches"]
    assert rows[1][0] == f"t-0/{2:020d}.log"
    whole = {each["segment"].partition("/")[0] for each in lines("segments", str(data))}
    assert {"t-0", "u-0", "__cluster_metadata-0"} <= whole
    assert tree(data) == before


def test_the_entries_of_an_index_are_where_batches_are(data: Path) -> None:
    batches = {each["offset"]: each["position"] for each in lines("dump", str(data / "t-0"))}
    second = str(data / "t-0" / f"{2:020d}")
    entries = lines("dump", f"{second}.index")
    assert entries
    assert all(batches[each["offset"]] == each["position"] for each in entries)
    times = lines("dump", f"{second}.timeindex")
    assert times[-1] == {"timestamp_ms": 1003, "offset": 3}
    assert good("dump", f"{second}.timeindex").splitlines()[-1] == "timestamp_ms 1003  offset 3"


def test_snapshots_and_checkpoints(data: Path) -> None:
    (producer,) = lines("dump", str(max((data / "t-0").glob("*.snapshot"))))
    assert (producer["producer_epoch"], producer["last_sequence"], producer["last_offset"]) == (0, 5, 5)
    assert lines("dump", str(data / "t-0" / "leader-epoch-checkpoint")) == [{"leader_epoch": 0, "start_offset": 0}]
    (own,) = lines("dump", str(data / "t-0" / "partition.metadata"))
    points = lines("dump", str(data / "replication-offset-checkpoint"))
    assert {"topic": "t", "partition": 0, "offset": 6, **own} in points
    assert f"topic u  partition 0  offset 1  topic_id {id_of(data, 'u')}" in good(
        "dump", str(data / "recovery-point-offset-checkpoint")
    )


def id_of(data: Path, topic: str) -> str:
    found = lines("dump", str(data / "__cluster_metadata-0"))
    (one,) = [each["value"] for each in found if each["value"].get("name") == topic]
    return str(one["topic_id"])


def test_a_snapshot_of_the_metadata_is_told_as_its_log_is(tmp_path: Path) -> None:
    often = {"metadata.log.max.record.bytes.between.snapshots": 300}
    with Broker(data_dir=str(tmp_path), config=often) as broker, Admin(broker.bootstrap_servers) as admin:
        for number in range(8):
            admin.create_topic(f"topic-{number}")
    path = max((tmp_path / "__cluster_metadata-0").glob("*.checkpoint"))
    told = lines("dump", str(path))
    topics = {each["value"]["name"] for each in told if each["value"]["kind"] == "Topic"}
    assert topics >= {"topic-0", "topic-1"}
    assert good("dump", str(path)).startswith(f"{path.name} byte 0: offsets ")
    whole = path.read_bytes()
    for broken in (whole[:-1], whole[:70] + bytes([whole[70] ^ 1]) + whole[71:], b""):
        path.write_bytes(broken)
        code, _, wrong = call("log", "dump", str(path))
        assert (code, wrong.count("\n")) == (1, 1)
        assert " is broken at byte " in wrong


def test_what_a_voter_has_promised(tmp_path: Path) -> None:
    path = tmp_path / "quorum-state"
    path.write_bytes(kept.dump(kept.Kept(7, 2, 3), [3, 1, 2]))
    assert lines("dump", str(path)) == [{"epoch": 7, "voted": 2, "leader": 3, "voters": [1, 2, 3]}]


def test_records_with_their_keys_headers_and_tombstones(data: Path) -> None:
    text = good("dump", str(data / "u-0"))
    assert re.search(r"byte 0: offsets 0 to 0, \d+ bytes, epoch 0, sum [0-9a-f]{8} good, producer \d+/0\n", text)
    assert re.search(r"^  0  \d+  'gone'  -  why='old'  who=-$", text, re.MULTILINE)
    (told,) = lines("dump", str(data / "u-0" / f"{FIRST}.log"))
    assert (told["key"], told["value"], told["headers"]) == ("gone", None, [["why", "old"], ["who", None]])
    assert (told["compression"], told["transactional"], told["control"]) == ("none", False, False)


def test_the_records_of_groups_and_of_the_metadata_are_words(data: Path) -> None:
    (partition,) = [
        each for each in data.glob("__consumer_offsets-*") if any(path.stat().st_size for path in each.glob("*.log"))
    ]
    text = good("dump", str(partition))
    assert "OffsetCommit group=g topic=t partition=0: offset=3" in text
    commit = next(each for each in lines("dump", str(partition)) if each["key"]["kind"] == "OffsetCommit")
    assert commit["key"] == {"kind": "OffsetCommit", "group": "g", "topic": "t", "partition": 0}
    assert commit["value"]["offset"] == 3
    topics = [
        each["value"] for each in lines("dump", str(data / "__cluster_metadata-0")) if each["value"]["kind"] == "Topic"
    ]
    assert {each["name"] for each in topics} >= {"t", "u", "__consumer_offsets"}
    assert all(len(each["topic_id"]) == 22 for each in topics)


def test_a_check_for_programs(data: Path) -> None:
    found = {each["log"]: each for each in lines("check", str(data))}
    assert (found["t-0"]["segments"], found["t-0"]["batches"], found["t-0"]["state"]) == (3, 6, "")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (f"{FIRST}.index", b"x" * 9, "9 bytes are no whole number of entries of 8"),
        (f"{FIRST}.snapshot", b"\0\1", ""),
        ("leader-epoch-checkpoint", b"1\n1\n0 0\nsum 00000000\n", "its sum is wrong"),
        ("replication-offset-checkpoint", b"0\n2\nt 0 5\n", "a checkpoint of 2 entries holds 1"),
        ("partition.metadata", b"version: 9\n", "is not of version 0"),
        ("quorum-state", b"{}", "is damaged"),
        ("7.index", b"", "7.index is no index; one is called by 20 digits"),
    ],
)
def test_a_file_that_is_broken(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    code, told, wrong = call("log", "dump", str(tmp_path / name))
    assert (code, told, wrong.count("\n")) == (1, b"", 1)
    assert said in wrong


def test_what_cannot_be_read_is_the_machine_s_fault(tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{FIRST}.log").mkdir()
    code, _, wrong = call("log", "check", str(directory))
    assert (code, "Is a directory" in wrong) == (4, True)

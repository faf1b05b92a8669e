"""Groups of a real process: killed in the midst of commits, and its files in the hands of Kafka's own tool."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.group.placement import partition_of
from tests.cli.process import Process, broker
from tests.conformance.raw import Connection
from tests.oracle.kafka import kept_libs

PARTITIONS = 3
SECONDS_MAX = 60.0
OPTIONS = ("--port", "0", "--topic", "t:2", "--set", f"offsets.topic.num.partitions={PARTITIONS}")
NO_DELAY = ("--set", "group.initial.rebalance.delay.ms=0")


class Member:
    """A group's only member, over one connection."""

    def __init__(self, process: Process, group: str) -> None:
        self.group = group
        self.connection = Connection(process.port)
        self.member_id = ""
        self.generation = -1

    def call(self, api: str, version: int, **body: Any) -> Any:
        return self.connection.call(api, version, body).body

    def find(self) -> None:
        """Until there is a coordinator: the topic is made on the way."""
        until_s = time.monotonic() + SECONDS_MAX
        while time.monotonic() < until_s:
            found = self.call("find_coordinator", 4, key_type=0, coordinator_keys=(self.group,)).coordinators[0]
            if int(found.error_code) == 0:
                return
        raise AssertionError("no coordinator comes")

    def join(self) -> None:
        protocols = [
            {"name": "range", "metadata": b"\x00\x01\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff\x00\x00\x00\x00"}
        ]
        body = {"group_id": self.group, "session_timeout": 60000, "rebalance_timeout": 60000, "protocols": protocols}
        told = self.call("join_group", 3, **body, member_id="", protocol_type="consumer")
        assert int(told.error_code) == 0
        self.member_id, self.generation = told.member_id, told.generation_id
        given = [{"member_id": self.member_id, "assignment": b"\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff"}]
        member = {"group_id": self.group, "member_id": self.member_id, "generation_id": self.generation}
        assert int(self.call("sync_group", 3, **member, assignments=given).error_code) == 0

    def heartbeat(self) -> int:
        member = {"group_id": self.group, "member_id": self.member_id, "generation_id": self.generation}
        return int(self.call("heartbeat", 3, **member).error_code)

    def commit(self, offset: int) -> None:
        parts = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": "m"}]
        member = {"member_id": self.member_id, "generation_id_or_member_epoch": self.generation}
        body = {"group_id": self.group, **member, "topics": [{"name": "t", "partitions": parts}]}
        told = self.call("offset_commit", 7, **body)
        assert int(told.topics[0].partitions[0].error_code) == 0

    def committed(self) -> int:
        asked = [{"name": "t", "partition_indexes": (0,)}]
        told = self.call("offset_fetch", 7, group_id=self.group, topics=asked)
        assert int(told.error_code) == 0
        return int(told.topics[0].partitions[0].committed_offset)


def test_what_was_committed_and_who_was_a_member_survive_kills(tmp_path: Path) -> None:
    options = (*OPTIONS, *NO_DELAY, "--data-dir", str(tmp_path))
    member_id, generation, last = "", -1, -1
    for _ in range(3):
        with broker(*options) as process:
            member = Member(process, "g")
            member.find()
            if member_id:
                member.member_id, member.generation = member_id, generation
                assert member.committed() == last, "an acknowledged commit is there"
                assert member.heartbeat() == 0, "a member goes on as if nothing had been"
            else:
                member.join()
                member_id, generation = member.member_id, member.generation
            for _ in range(300):
                last += 1
                member.commit(last)
            process.end(signal.SIGKILL)
            member.connection.close()


def libs() -> Path:
    """Apache Kafka's jars, without which a test is skipped."""
    found = Path(os.environ.get("BARNABAS_KAFKA_LIBS") or kept_libs())
    if shutil.which("java") is None:
        pytest.skip("java is absent")
    if not list(found.glob("kafka-tools-*.jar")):
        pytest.skip("Apache Kafka's jars are absent (./dev tools brings them; or name them in BARNABAS_KAFKA_LIBS)")
    return found


def dumped(jars: Path, data_dir: Path, group: str, partitions: int = PARTITIONS) -> list[str]:
    """What Kafka's own tool says of the partition that a group's records are in, a line for each batch and record."""
    segment = data_dir / f"__consumer_offsets-{partition_of(group, partitions)}" / f"{0:020d}.log"
    command = ["java", "-Xmx256m", "-cp", f"{jars}/*", "org.apache.kafka.tools.DumpLogSegments"]
    command += ["--offsets-decoder", "--files", str(segment)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_kafkas_own_tool_reads_what_groups_wrote(tmp_path: Path) -> None:
    jars = libs()
    with broker(*OPTIONS, *NO_DELAY, "--data-dir", str(tmp_path)) as process:
        member = Member(process, "g")
        member.find()
        member.join()
        member.commit(17)
        topics = [{"name": "t", "partitions": [{"partition_index": 0}]}]
        told = member.call("offset_delete", 0, group_id="g", topics=topics)
        assert int(told.topics[0].partitions[0].error_code) == 86, "a topic that is consumed keeps its offsets"
        leaving = [{"member_id": member.member_id}]
        assert int(member.call("leave_group", 3, group_id="g", members=leaving).error_code) == 0
        assert int(member.call("delete_groups", 1, groups_names=("g",)).results[0].error_code) == 0
        member.connection.close()
        assert process.end() == 0
    lines = dumped(jars, tmp_path, "g")
    records = [line.partition("key: ")[2] for line in lines if "key: {" in line]
    kinds = [("OFFSET_COMMIT" if '"topic"' in line else "GROUP", "payload: {" in line) for line in records]
    assert kinds == [
        ("GROUP", True),  # made
        ("GROUP", True),  # assigned
        ("OFFSET_COMMIT", True),
        ("GROUP", True),  # empty
        ("OFFSET_COMMIT", False),
        ("GROUP", False),
    ], lines
    assert '"offset":17' in records[2]
    assert '"metadata":"m"' in records[2]
    assert member.member_id in records[1]
    assert '"protocol":"range"' in records[1]

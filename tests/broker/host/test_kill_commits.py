"""SIGKILL while commits of several connections come, many at once: no offset that was acknowledged is lost."""

from __future__ import annotations

import re
import signal
import socket
import struct
from pathlib import Path

import pytest

from barnabas.client.admin import Admin
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.host.test_groups import dumped, libs
from tests.cli.process import broker

COMMIT, VERSION = 8, 8
GROUPS = ("a", "b", "c")
PARTITIONS = 2
TOGETHER = 40
ROUNDS_BEFORE_KILL = 25
KILLS = 3


class Member:
    """Commits of one group over one connection, each further than the one before; `acked` by partition."""

    def __init__(self, group: str, port: int, number: int) -> None:
        self.group = group
        self.number = number
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        self.sent: list[tuple[int, int]] = []
        self.acked: dict[int, int] = {}

    def send(self) -> None:
        """Many commits in one write."""
        frames = []
        for _ in range(TOGETHER):
            self.number += 1
            index = self.number % PARTITIONS
            part = OffsetCommitRequestPartition(index, self.number, -1, "")
            request = OffsetCommitRequest(self.group, topics=[OffsetCommitRequestTopic("t", partitions=[part])])
            frames += codec.encode_request(COMMIT, VERSION, self.number, "t", request)
            self.sent.append((index, self.number))
        self.socket.sendall(b"".join(map(bytes, frames)))

    def receive(self) -> bool:
        """Take the answer to the oldest; False: the broker is gone."""
        frame = self._read(4)
        if frame is not None:
            frame = self._read(struct.unpack(">i", frame)[0])
        if frame is None:
            return False
        told, response = codec.decode_response(COMMIT, VERSION, memoryview(frame))
        index, number = self.sent.pop(0)
        (answer,) = response.topics[0].partitions
        assert (told, answer.partition_index, answer.error_code) == (number, index, 0)
        self.acked[index] = number
        return True

    def _read(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            try:
                some = self.socket.recv(size - len(data))
            except ConnectionError:
                return None
            if not some:
                return None
            data += some
        return data


def begin(port: int, number: int) -> None:
    """Every group has its coordinator, which has read what there is."""
    with Admin(f"127.0.0.1:{port}") as admin:
        for group in GROUPS:
            admin.alter_group_offsets(group, {TopicPartition("t", index): number for index in range(PARTITIONS)})


def committed(port: int, group: str) -> dict[int, int]:
    with Admin(f"127.0.0.1:{port}") as admin:
        return {key.partition: told.offset for key, told in admin.group_offsets(group).items()}


def test_kafkas_own_tool_reads_what_came_together(tmp_path: Path) -> None:
    jars = libs()
    with broker("--port", "0", "--data-dir", str(tmp_path), "--topic", f"t:{PARTITIONS}") as process:
        begin(process.port, 0)
        member = Member("a", process.port, 0)
        for _ in range(2):  # the first is known by its bytes from then on
            member.send()
            while member.sent:
                assert member.receive()
        member.socket.close()
        assert process.end() == 0
    lines = dumped(jars, tmp_path, "a", 50)
    batches = [line for line in lines if line.startswith("baseOffset")]
    told = [re.findall(r'"partition":(\d+).*"offset":(\d+)', line) for line in lines if "payload: {" in line]
    assert told == [[("0", "0")], [("1", "0")], *([(str(k % PARTITIONS), str(k))] for k in range(1, 2 * TOGETHER + 1))]
    assert len(batches) < len(told)
    assert all("isvalid: true" in line for line in batches)


@pytest.mark.slow
def test_no_acknowledged_offset_is_lost_when_the_broker_is_killed_among_many(tmp_path: Path) -> None:
    options = ("--port", "0", "--data-dir", str(tmp_path), "--topic", f"t:{PARTITIONS}")
    number = 0
    for kill in range(KILLS):
        with broker(*options) as process:
            begin(process.port, number)
            members = [Member(group, process.port, number) for group in GROUPS]
            for _ in range(ROUNDS_BEFORE_KILL):
                for member in members:
                    member.send()
                for member in members:
                    while member.sent:
                        assert member.receive()
            for member in members:
                member.send()
            assert members[kill].receive(), "the broker is in their midst"
            assert process.end(signal.SIGKILL) == -signal.SIGKILL
            for member in members:
                while member.receive():
                    pass
                member.socket.close()
        with broker(*options) as process:
            for member in members:
                found = committed(process.port, member.group)
                assert found.keys() == member.acked.keys()
                for index, offset in found.items():
                    assert member.acked[index] <= offset <= member.number
            assert process.end() == 0
        number = max(member.number for member in members)

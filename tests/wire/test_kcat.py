"""kcat (librdkafka 2.0): old request versions, and compression only if Produce is advertised from 0."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.wire.conftest import make_topic, stored_codecs
from tests.wire.tried import KCAT as TRIED

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
SECONDS_MAX = 60.0
PARTITIONS = 4

pytestmark = pytest.mark.skipif(KCAT is None, reason="kcat is not installed: ./dev tools installs it")


def kcat(address: str, *arguments: str, text: str | None = None) -> str:
    command = [str(KCAT), "-b", address, *arguments]
    run = subprocess.run(command, input=text, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def lines(count: int) -> str:
    return "".join(f"line {number} {'x' * 50}\n" for number in range(count))


@pytest.mark.parametrize("compression", TRIED.codecs)
def test_what_is_produced_is_consumed(address: str, fresh: Callable[[], str], compression: str) -> None:
    topic = fresh()
    make_topic(address, topic, 1)
    kcat(address, "-P", "-t", topic, "-p", "0", "-z", compression, text=lines(100))
    assert stored_codecs(address, topic) == {compression}
    assert kcat(address, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q") == lines(100)


def test_keys_headers_offsets_and_the_tail(address: str, fresh: Callable[[], str]) -> None:
    topic = fresh()  # made by asking for it, which kcat does once a second
    kcat(address, "-P", "-t", topic, "-p", "0", "-K", ":", "-H", "origin=EWR", text="a:1\nb:2\nc:3\n")
    out = kcat(address, "-C", "-t", topic, "-p", "0", "-o", "1", "-e", "-q", "-J")
    found = [json.loads(line) for line in out.splitlines()]
    assert [(each["offset"], each["key"], each["payload"]) for each in found] == [(1, "b", "2"), (2, "c", "3")]
    assert found[0]["headers"] == ["origin", "EWR"]
    assert kcat(address, "-C", "-t", topic, "-p", "0", "-o", "-1", "-e", "-q") == "3\n"


def test_an_idempotent_producer(address: str, fresh: Callable[[], str]) -> None:
    topic = fresh()
    make_topic(address, topic, 1)
    kcat(address, "-P", "-t", topic, "-p", "0", "-X", "enable.idempotence=true", text=lines(1000))
    assert kcat(address, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q") == lines(1000)


def test_metadata_and_offsets_by_time(address: str, fresh: Callable[[], str]) -> None:
    topic = fresh()
    make_topic(address, topic, 1)
    kcat(address, "-P", "-t", topic, "-p", "0", text="1\n2\n")
    listed = json.loads(kcat(address, "-L", "-J", "-t", topic))
    assert [each["topic"] for each in listed["topics"]] == [topic]
    assert listed["topics"][0]["partitions"][0]["leader"] == listed["brokers"][0]["id"]
    assert listed["controllerid"] == listed["brokers"][0]["id"]
    assert kcat(address, "-Q", "-t", f"{topic}:0:-1").strip() == f"{topic} [0] offset 2"
    assert kcat(address, "-Q", "-t", f"{topic}:0:1").strip() == f"{topic} [0] offset 0"


class Member:
    """kcat as one consumer of a group: what it read, and what it says that it owns."""

    def __init__(self, address: str, group: str, topic: str, assignor: str, directory: Path) -> None:
        self.group = group
        self._read, self._said = directory / "read", directory / "said"
        settings = [
            "auto.offset.reset=earliest",
            "auto.commit.interval.ms=100",
            "heartbeat.interval.ms=100",
            f"partition.assignment.strategy={assignor}",
        ]
        options = [word for one in settings for word in ("-X", one)]
        command = [str(KCAT), "-b", address, "-G", group, "-u", *options, "-f", "%p %o\n", topic]
        with self._read.open("wb") as read, self._said.open("wb") as said:
            self._process = subprocess.Popen(command, stdout=read, stderr=said)

    def seen(self) -> list[tuple[int, int]]:
        lines = self._read.read_text().splitlines(keepends=True)
        return [(int(line.split()[0]), int(line.split()[1])) for line in lines if line.endswith("\n")]

    def owned(self) -> set[int]:
        """The eager assignors tell it as assigned and revoked, the cooperative one as incremental (un)assignments."""
        owned: set[int] = set()
        for line in self._said.read_text().splitlines(keepends=True):
            if " rebalanced" in line and line.endswith("\n"):
                named = set(map(int, re.findall(r" \[(\d+)\]", line)))
                owned = owned - named if "revoke" in line else owned | named
        return owned

    def leave(self) -> None:
        """It commits and leaves when it is told to end."""
        self._process.terminate()
        self._process.wait(SECONDS_MAX)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def member(address: str, tmp_path: Path) -> Iterator[Callable[..., Member]]:
    members: list[Member] = []

    def make(topic: str, assignor: str) -> Member:
        directory = tmp_path / str(len(members))
        directory.mkdir()
        members.append(Member(address, f"{topic}-group", topic, assignor, directory))
        return members[-1]

    yield make
    for each in members:
        each.kill()


def until(done: Callable[[], bool], *members: Member) -> None:
    late = time.monotonic() + SECONDS_MAX
    while not done():
        assert time.monotonic() < late, [(each.owned(), each.seen()) for each in members]
        threading.Event().wait(0.01)


@pytest.mark.parametrize("assignor", TRIED.classic)
def test_two_members_share_and_one_that_leaves_gives_back(
    address: str, fresh: Callable[[], str], member: Callable[..., Member], assignor: str
) -> None:
    topic = fresh()
    make_topic(address, topic, PARTITIONS)
    for partition in range(PARTITIONS):
        kcat(address, "-P", "-t", topic, "-p", str(partition), text=lines(10))
    first = member(topic, assignor)
    until(lambda: len(first.seen()) == 40, first)
    assert sorted(first.seen()) == [(partition, offset) for partition in range(PARTITIONS) for offset in range(10)]
    second = member(topic, assignor)
    until(lambda: len(first.owned()) == len(second.owned()) == 2, first, second)
    assert first.owned() | second.owned() == set(range(PARTITIONS))
    first.leave()
    until(lambda: len(second.owned()) == PARTITIONS, first, second)
    for partition in range(PARTITIONS):
        kcat(address, "-P", "-t", topic, "-p", str(partition), text=lines(1))
    until(lambda: len(second.seen()) == 4, first, second)
    assert sorted(second.seen()) == [(partition, 10) for partition in range(PARTITIONS)], "it goes on after the commit"
    assert len(first.seen()) == 40

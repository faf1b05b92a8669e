"""kcat (librdkafka 2.0): old request versions, and compression only if Produce is advertised from 0."""

import json
import shutil
import subprocess
from collections.abc import Callable

import pytest

from tests.wire.conftest import stored_codecs

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
SECONDS_MAX = 30.0

pytestmark = pytest.mark.skipif(KCAT is None, reason="kcat is not installed: ./dev tools installs it")


def kcat(address: str, *arguments: str, text: str | None = None) -> str:
    command = [str(KCAT), "-b", address, *arguments]
    run = subprocess.run(command, input=text, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def lines(count: int) -> str:
    return "".join(f"line {number} {'x' * 50}\n" for number in range(count))


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_consumed(address: str, fresh: Callable[[], str], compression: str) -> None:
    topic = fresh()  # made by asking for it
    kcat(address, "-P", "-t", topic, "-p", "0", "-z", compression, text=lines(100))
    assert stored_codecs(address, topic) == {compression}
    assert kcat(address, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q") == lines(100)


def test_keys_headers_offsets_and_the_tail(address: str, fresh: Callable[[], str]) -> None:
    topic = fresh()
    kcat(address, "-P", "-t", topic, "-p", "0", "-K", ":", "-H", "origin=EWR", text="a:1\nb:2\nc:3\n")
    out = kcat(address, "-C", "-t", topic, "-p", "0", "-o", "1", "-e", "-q", "-J")
    found = [json.loads(line) for line in out.splitlines()]
    assert [(each["offset"], each["key"], each["payload"]) for each in found] == [(1, "b", "2"), (2, "c", "3")]
    assert found[0]["headers"] == ["origin", "EWR"]
    assert kcat(address, "-C", "-t", topic, "-p", "0", "-o", "-1", "-e", "-q") == "3\n"


def test_an_idempotent_producer(address: str, fresh: Callable[[], str]) -> None:
    topic = fresh()
    kcat(address, "-P", "-t", topic, "-p", "0", "-X", "enable.idempotence=true", text=lines(1000))
    assert kcat(address, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q") == lines(1000)


def test_metadata_and_offsets_by_time(address: str, fresh: Callable[[], str]) -> None:
    topic = fresh()
    kcat(address, "-P", "-t", topic, "-p", "0", text="1\n2\n")
    listed = json.loads(kcat(address, "-L", "-J", "-t", topic))
    assert [each["topic"] for each in listed["topics"]] == [topic]
    assert listed["topics"][0]["partitions"][0]["leader"] == listed["brokers"][0]["id"]
    assert listed["controllerid"] == listed["brokers"][0]["id"]
    assert kcat(address, "-Q", "-t", f"{topic}:0:-1").strip() == f"{topic} [0] offset 2"
    assert kcat(address, "-Q", "-t", f"{topic}:0:1").strip() == f"{topic} [0] offset 0"

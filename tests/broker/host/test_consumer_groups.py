"""Groups of the consumer protocol in a real process: real members, a kill, and its files in Kafka's own tool.

And a producer that looks for another coordinator, of which there is none.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from barnabas.broker.group.placement import partition_of
from tests.cli.process import Process, broker
from tests.conformance.raw import Connection
from tests.oracle.kafka import kept_libs

PARTITIONS = 3
SECONDS_MAX = 40.0
"""Below a session of 45 s, after which a broker misses whoever did not leave."""
SOON = ("min.heartbeat.interval.ms=50", "heartbeat.interval.ms=50", "assignment.interval.ms=0")
OPTIONS = (
    *("--port", "0", "--topic", "t:4", "--set", f"offsets.topic.num.partitions={PARTITIONS}"),
    *("--set", "group.initial.rebalance.delay.ms=0"),
    *(word for setting in SOON for word in ("--set", f"group.consumer.{setting}")),
)


class Member:
    """A member over one connection."""

    def __init__(self, process: Process, group: str, member_id: str, epoch: int = 0) -> None:
        self.group, self.member_id, self.epoch = group, member_id, epoch
        self.connection = Connection(process.port)
        self.told: list[int] = []
        until_s = time.monotonic() + SECONDS_MAX
        while time.monotonic() < until_s:
            found = self.call("find_coordinator", 4, key_type=0, coordinator_keys=(group,)).coordinators[0]
            if int(found.error_code) == 0:
                return
        raise AssertionError("no coordinator comes")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        self.connection.close()

    def call(self, api: str, version: int, **body: Any) -> Any:
        return self.connection.call(api, version, body).body

    def beat(self, **said: Any) -> int:
        """One heartbeat; its error."""
        body: dict[str, Any] = {"group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch, **said}
        if self.epoch == 0:
            body |= {"rebalance_timeout": 30_000, "topic_partitions": []}
            body.setdefault("subscribed_topic_names", ["t"])
        told = self.call("consumer_group_heartbeat", 1, **body)
        if int(told.error_code) == 0:
            self.epoch = told.member_epoch
            if told.assignment is not None:
                self.told = [one for part in told.assignment.topic_partitions for one in part.partitions]
        return int(told.error_code)

    def commit(self, offset: int, epoch: int | None = None) -> int:
        member: dict[str, Any] = {
            "member_id": self.member_id,
            "generation_id_or_member_epoch": self.epoch if epoch is None else epoch,
        }
        parts = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": "m"}]
        told = self.call("offset_commit", 9, group_id=self.group, **member, topics=[{"name": "t", "partitions": parts}])
        return int(told.topics[0].partitions[0].error_code)


def test_members_and_what_they_committed_survive_a_kill(tmp_path: Path) -> None:
    options = (*OPTIONS, "--data-dir", str(tmp_path))
    with broker(*options) as process, Member(process, "g", "a") as first, Member(process, "g", "b") as second:
        assert first.beat() == second.beat() == 0
        assert first.commit(5) == 0
        process.end(signal.SIGKILL)
    with (
        broker(*options) as process,
        Member(process, "g", "a", first.epoch) as again,
        Member(process, "g", "b", second.epoch) as other,
        Member(process, "g", "c", 3) as stranger,
    ):
        assert again.beat() == other.beat() == 0, "they go on as if nothing had been"
        assert len(again.told) == 2, "what the second is to have is to be let go now"
        assert again.commit(6, again.epoch + 1) == 113
        assert again.commit(6) == 0
        described = again.call("consumer_group_describe", 1, group_ids=("g",)).groups[0]
        assert (described.group_state, len(described.members)) == ("Reconciling", 2)
        assert stranger.beat() == 25


def test_kafkas_own_tool_reads_what_members_wrote(tmp_path: Path) -> None:
    libs = Path(os.environ.get("BARNABAS_KAFKA_LIBS") or kept_libs())
    if shutil.which("java") is None:
        pytest.skip("java is absent")
    if not list(libs.glob("kafka-tools-*.jar")):
        pytest.skip("Apache Kafka's jars are absent (./dev tools brings them; or name them in BARNABAS_KAFKA_LIBS)")
    with broker(*OPTIONS, "--data-dir", str(tmp_path)) as process, Member(process, "g", "a") as member:
        assert member.beat(subscribed_topic_names=["t"], subscribed_topic_regex="t.*", server_assignor="range") == 0
        assert member.beat(member_epoch=-1) == 0
        assert int(member.call("delete_groups", 1, groups_names=("g",)).results[0].error_code) == 0
        member.connection.close()
        assert process.end() == 0
    segment = tmp_path / f"__consumer_offsets-{partition_of('g', PARTITIONS)}" / f"{0:020d}.log"
    command = ["java", "-Xmx256m", "-cp", f"{libs}/*", "org.apache.kafka.tools.DumpLogSegments"]
    command += ["--offsets-decoder", "--files", str(segment)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    records = [line.partition("key: ")[2] for line in done.stdout.splitlines() if "key: {" in line]
    kinds = [(int(line.partition('"type":"')[2].partition('"')[0]), "payload: {" in line) for line in records]
    kept, gone = ([kind for kind, there in kinds if there is which] for which in (True, False))
    assert kept[:5] == [5, 3, 7, 6, 8], done.stdout
    assert gone[:4] == [8, 7, 5, 16], done.stdout
    assert gone[-2:] == [6, 3], done.stdout
    assert kinds[-1] == (3, False), done.stdout
    assert '"subscribedTopicRegex":"t.*"' in done.stdout
    assert '"serverAssignor":"range"' in done.stdout
    assert '"assignmentEpochs":[' in done.stdout


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """host:port of a broker whose members are heard of often."""
    with broker(*OPTIONS, "--data-dir", str(tmp_path_factory.mktemp("groups"))) as process:
        yield f"127.0.0.1:{process.port}"


def subscribed(address: str, group: str, protocol: str) -> Any:
    settings: dict[str, Any] = {"bootstrap.servers": address, "group.id": group, "group.protocol": protocol}
    if protocol == "classic":
        settings |= {"heartbeat.interval.ms": 50, "partition.assignment.strategy": "cooperative-sticky"}
    clients = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    made = clients.Consumer(settings)
    made.subscribe(["t"])
    return made


def poll_until(consumers: list[Any], done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not done():
        assert time.monotonic() < deadline, [consumer.assignment() for consumer in consumers]
        for consumer in consumers:
            consumer.poll(0.02)


def numbers(*consumers: Any) -> list[int]:
    return sorted(one.partition for consumer in consumers for one in consumer.assignment())


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_two_members_share_and_one_that_leaves_gives_back(address: str, protocol: str) -> None:
    """The first speaks the one protocol or the other: then the group is converted when the second comes, and back."""
    first = subscribed(address, f"g-{protocol}", protocol)
    poll_until([first], lambda: numbers(first) == [0, 1, 2, 3])
    second = subscribed(address, f"g-{protocol}", "consumer")
    poll_until([first, second], lambda: len(numbers(first)) == 2 and numbers(first, second) == [0, 1, 2, 3])
    second.close()
    poll_until([first], lambda: numbers(first) == [0, 1, 2, 3])
    first.close()


def test_a_transactional_producer_is_told_at_once_that_there_are_no_transactions(address: str) -> None:
    """librdkafka asked for its coordinator again and again, until its user's patience ended."""
    clients = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    producer = clients.Producer({"bootstrap.servers": address, "transactional.id": "t"})
    with pytest.raises(clients.KafkaException) as caught:
        producer.init_transactions(SECONDS_MAX)
    (fault,) = caught.value.args
    assert fault.fatal()
    assert "This release has no transactions." in fault.str()

"""Batches of more bytes than one step writes, at a follower: written in pieces, in the log with one change of name."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.log.look import LARGE
from barnabas.broker.log.staging import PIECE
from barnabas.broker.memory_disk.file import MemoryFile
from barnabas.broker.node.jobs import JobQueue
from barnabas.broker.replica.follower import BACKOFF_MS
from barnabas.protocol.requests.fetch import FetchRequest
from tests.broker.replica.brokers import Cluster, P

VALUE = b"v" * (LARGE + PIECE)
STEPS = 9
"""Of a job that takes one in: a sum, five pieces and a bit, and what is between."""


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(partitions=2, max_message_bytes=2 * LARGE)
    made.settle()
    return made


class Slow:
    """The jobs of a broker stop after so many steps, until they are let go on."""

    def __init__(self, jobs: JobQueue, steps: int) -> None:
        self.left = steps
        self._jobs = jobs
        self._step = jobs.step
        jobs.step = self.step  # type: ignore[method-assign]

    def step(self) -> bool:
        self.left -= 1
        return self.left >= 0 and self._step()

    def go_on(self) -> None:
        self._jobs.step = self._step  # type: ignore[method-assign]


def files(cluster: Cluster, broker: int) -> list[str]:
    """Segments of a partition, and what may become one."""
    one = cluster.brokers[broker]
    return [name for name in one.disk.list(one.log().directory) if name.endswith((".log", ".cleaned", ".swap"))]


def begun(cluster: Cluster, steps: int, *before: bytes) -> Slow:
    """Broker 2 is given a large batch and stands still within it; broker 3 has it."""
    for value in before:
        cluster.brokers[1].produce(value)
        cluster.settle()
    slow = Slow(cluster.brokers[2].jobs, steps)
    cluster.brokers[1].produce(VALUE, acks=1)
    cluster.settle()
    end = len(before) + 1
    assert cluster.ends() == {1: end, 2: end - 1, 3: end}
    return slow


def agree(cluster: Cluster) -> None:
    """All have the same, and nothing is left over."""
    cluster.advance(4 * BACKOFF_MS)
    assert len(set(cluster.ends().values())) == 1
    assert cluster.brokers[1].batches() == cluster.brokers[2].batches() == cluster.brokers[3].batches()
    assert not any("large" in name or "swap" in name for one in cluster.brokers for name in files(cluster, one))


def test_no_step_writes_a_large_batch(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """100 MB were one step of 230 ms."""
    written, steps = [0], []
    append, step = MemoryFile.append, JobQueue.step

    def counted(self: Any, buffers: Any) -> None:
        written[-1] += sum(map(len, buffers))
        append(self, buffers)

    def stepped(self: JobQueue) -> bool:
        written.append(0)
        went_on = step(self)
        steps.append(written[-1])
        written.append(0)
        return went_on

    monkeypatch.setattr(MemoryFile, "append", counted)
    monkeypatch.setattr(JobQueue, "step", stepped)
    answer = cluster.brokers[1].produce(b"small")
    cluster.settle()
    large = cluster.brokers[1].produce(VALUE)
    cluster.settle()
    behind = cluster.brokers[1].produce(b"small")
    cluster.settle()
    assert (answer.codes, large.codes, behind.codes) == ([0], [0], [0])
    assert max(written) <= PIECE
    assert sum(written) > 3 * len(VALUE), "by all three brokers, in steps"
    assert sum(steps) > 3 * len(VALUE)
    assert files(cluster, 2) == files(cluster, 1) == ["00000000000000000000.log", "00000000000000000001.log"]
    agree(cluster)


def test_nothing_is_asked_for_meanwhile(cluster: Cluster) -> None:
    """So that one large batch of a leader's is here at a time, however many partitions have one."""
    seen: list[Any] = []
    slow = begun(cluster, 3)
    cluster.on_request = lambda sender, request: seen.append(request) if sender.broker_id == 2 else None
    cluster.brokers[1].produce(VALUE, acks=1, partition=1)
    cluster.advance(2000)
    assert not any(isinstance(one, FetchRequest) for one in seen)
    assert cluster.stages()[2] == "writing"
    slow.go_on()
    agree(cluster)
    assert cluster.ends(1) == {1: 1, 2: 1, 3: 1}


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("before", [(), (b"small",)], ids=["empty", "behind"])
@pytest.mark.parametrize("steps", range(STEPS))
def test_a_kill_within_it_leaves_what_was(cluster: Cluster, steps: int, before: tuple[bytes, ...], power: bool) -> None:
    begun(cluster, steps, *before)
    cluster.restart(2, power=power)
    assert cluster.ends()[2] <= len(before)
    agree(cluster)


@pytest.mark.parametrize("steps", range(STEPS))
def test_another_leader_meanwhile_is_followed_instead(cluster: Cluster, steps: int) -> None:
    """The new leader never had the batch: no trace of it stays."""
    cluster.silent = {3}
    slow = Slow(cluster.brokers[2].jobs, steps)
    cluster.brokers[1].produce(VALUE, acks=1)
    cluster.settle()
    cluster.elect(3)
    cluster.silent = {1}
    cluster.hear(3)
    cluster.hear(2)
    cluster.brokers[3].produce(b"another", acks=1)
    cluster.settle()
    assert cluster.ends()[2] == 1, "it follows, whatever is left of its writing"
    slow.go_on()
    cluster.silent = set()
    cluster.hear(1)
    agree(cluster)


@pytest.mark.parametrize("steps", range(STEPS))
def test_who_leads_meanwhile_writes_a_large_one_of_its_own(cluster: Cluster, steps: int) -> None:
    """At the same end of the log, and in files of their own."""
    cluster.silent = {3}
    slow = Slow(cluster.brokers[2].jobs, steps)
    cluster.brokers[1].produce(VALUE, acks=1)
    cluster.settle()
    cluster.elect(2)
    cluster.hear(2)
    own = VALUE[:-1] + b"w"
    answer = cluster.brokers[2].produce(own, acks=1)
    slow.go_on()
    cluster.silent = set()
    cluster.hear_all()
    agree(cluster)
    assert answer.codes == [0]
    assert cluster.brokers[2].batches()[0][3].endswith(b"vw\0"), "the end of its own value"


def test_a_damaged_one_is_not_taken_and_asked_for_again(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    def damage(response: Any) -> Any:
        for topic in getattr(response, "responses", ()):
            for part in topic.partitions:
                if part.records:
                    part.records = bytearray(part.records)
                    part.records[-1] ^= 1
        return response

    cluster.on_answer = damage
    cluster.brokers[1].produce(VALUE, acks=1)
    cluster.advance(2 * BACKOFF_MS)
    assert cluster.ends() == {1: 1, 2: 0, 3: 0}
    assert caplog.text.count("the checksum of a batch sent to t-0 does not fit it") == 2, "once for each that follows"
    assert files(cluster, 2) == ["00000000000000000000.log"]
    cluster.on_answer = lambda response: response
    agree(cluster)


def test_a_disk_that_is_full_in_the_midst_is_tried_again(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    disk = cluster.brokers[2].disk
    disk.capacity = disk.used + 2 * PIECE
    answer = cluster.brokers[1].produce(VALUE)
    cluster.advance(3 * BACKOFF_MS)
    assert cluster.ends() == {1: 1, 2: 0, 3: 1}
    assert files(cluster, 2) == ["00000000000000000000.log"]
    assert caplog.text.count("no space left on device") == 1, "said once"
    disk.capacity = None
    agree(cluster)
    assert answer.codes == [0]


def test_a_defect_of_ours_ends_nothing(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barnabas.broker.replica.follower.stage", lambda *_: 1 / 0)
    cluster.brokers[1].produce(VALUE, acks=1)
    cluster.advance(BACKOFF_MS)
    assert "ZeroDivisionError" in caplog.text
    monkeypatch.undo()
    agree(cluster)


def test_a_sync_that_is_asked_for_holds_all_of_it() -> None:
    cluster = Cluster(max_message_bytes=2 * LARGE, flush_messages=1)
    cluster.settle()
    answer = cluster.brokers[1].produce(VALUE)
    cluster.settle()
    assert answer.codes == [0]
    cluster.restart(2, power=True)
    assert cluster.brokers[2].log().log_end_offset == 1
    assert cluster.brokers[2].hosted().topic_partition == P(0)

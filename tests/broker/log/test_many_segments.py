"""A log of thousands of segments, which `segment.ms=1` makes in half a minute: no step looks at all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from barnabas.broker.log import retention
from barnabas.broker.log.compaction import cleanable
from barnabas.broker.log.state import Change
from tests.broker.log.harness import NOW, append, batch

SIZE = len(batch(b"x"))
MANY = 1_200


def made(memory):
    log = memory.new_log(segment_bytes=SIZE, retention_ms=-1, min_compaction_lag_ms=1)
    for number in range(MANY):
        append(log, b"x", timestamps=[NOW + number])
    memory.disk.deliver()
    log.commit_all()
    return log


def told(monkeypatch, of, name, calls):
    """Note down what a function is called with from now on."""
    real = getattr(of, name)

    def call(*what):
        calls.append(what)
        return real(*what)

    monkeypatch.setattr(of, name, call)


def most_in_a_step(job, count):
    """How much of something a step did at most; `count` tells how much was done so far."""
    most, before = 0, count()
    while True:
        try:
            next(job)
        except StopIteration:
            return max(most, count() - before)
        most, before = max(most, count() - before), count()


def test_retention_looks_at_the_next_few(memory, monkeypatch):
    log = made(memory)
    looked: list[Any] = []
    told(monkeypatch, retention, "_is_committed", looked)
    log.configure(replace(log.config, retention_bytes=SIZE * MANY // 2))
    assert most_in_a_step(log.retain(NOW), lambda: len(looked)) <= 100
    log.raise_log_start_offset(log.high_watermark)
    assert most_in_a_step(log.retain(NOW), lambda: len(looked)) <= 100
    assert len(log.segments) == 1


def test_snapshots_of_merged_segments_go_a_few_at_a_time(memory, monkeypatch):
    """Compaction makes one segment of 32 and leaves their snapshots; 32 such segments go at once."""
    log = made(memory)
    removed: list[Any] = []
    log.adopt(Change(segments=[log.segments[0], log.active], snapshots=log.bases[1:]))
    told(monkeypatch, memory.disk, "remove", removed)
    log.configure(replace(log.config, retention_bytes=0))
    assert most_in_a_step(log.retain(NOW), lambda: sum(what[-1].endswith(".snapshot") for what in removed)) <= 100
    assert sum(what[-1].endswith(".snapshot") for what in removed) >= MANY - 2
    assert not [one for one in log.snapshots if one < log.log_start_offset]


def test_what_is_dirty_is_looked_for_in_steps(memory):
    log = made(memory)
    assert sum(1 for _ in cleanable(log, NOW + 10**6)) >= 2


class Counted(list[Any]):
    """A list that counts how often it is searched."""

    searched = 0

    def __contains__(self, one: object) -> bool:
        self.searched += 1
        return super().__contains__(one)


def test_a_sync_passes_over_all_that_is_gone_at_once(memory):
    log = memory.new_log(segment_bytes=SIZE)
    for number in range(MANY):
        append(log, b"x", timestamps=[NOW + number])
    memory.disk.deliver()  # the first was synced when the second was begun; those that came since are in line now
    left = Counted([log.segments[0], log.active])
    log.adopt(Change(segments=left))
    memory.settle()
    assert left.searched <= 10
    assert log.recovery_point == log.log_end_offset

"""A log of thousands of segments, which `segment.ms=1` makes in half a minute: no step looks at all of them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import pytest

from barnabas.broker.config import TopicConfig
from barnabas.broker.log import found, reader, recovery, retention
from barnabas.broker.log.compaction import cleanable
from barnabas.broker.log.segment import Segment
from barnabas.broker.log.state import Change
from barnabas.broker.ports import NotYet
from barnabas.protocol.errors import KafkaError
from tests.broker.log.counting import calls
from tests.broker.log.harness import NOW, PARTITION, TOPIC_ID, World, append, batch, manager_of

SIZE = len(batch(b"x"))
MANY = 1_200
SOME = 400


def made(memory, many=MANY):
    log = memory.new_log(segment_bytes=SIZE, retention_ms=-1, min_compaction_lag_ms=1)
    fill(log, many)
    memory.disk.deliver()
    log.commit_all()
    return log


def fill(log, many=MANY):
    for number in range(many):
        append(log, b"x", timestamps=[NOW + number])


def told(monkeypatch, of, name, calls):
    """Note down what a function is called with from now on."""
    real = getattr(of, name)

    def call(*what, **more):
        calls.append(what)
        return real(*what, **more)

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
    fill(log)
    memory.disk.deliver()  # the first was synced when the second was begun; those that came since are in line now
    left = Counted([log.segments[0], log.active])
    log.adopt(Change(segments=left))
    memory.settle()
    assert left.searched <= 10
    assert log.recovery_point == log.log_end_offset


def managed(world, many):
    """A manager, and a log of its with many segments, all of them on the device."""
    manager = manager_of(world)
    world.run(manager.load())
    manager.start(0)
    log = manager.create(PARTITION, TOPIC_ID, TopicConfig(segment_bytes=SIZE, file_delete_delay_ms=0))
    fill(log, many)
    world.settle()
    return manager, log


@pytest.mark.parametrize("kind", ["memory", "real"])
def test_a_log_is_deleted_without_a_look_at_its_segments(kind, tmp_path):
    world = World(kind, tmp_path)
    few = [calls(partial(managed(world, 60)[0].delete, PARTITION))]
    world = World(kind, tmp_path / "many") if kind == "memory" else world
    manager, _ = managed(world, 300)
    assert calls(partial(manager.delete, PARTITION)) < few[0] + 60
    assert manager.room.segments == 0
    if kind == "real":
        world.disk.close()


def test_what_is_left_of_a_log_that_is_deleted_goes_in_steps(memory, monkeypatch):
    manager, log = managed(memory, MANY)
    closed: list[Any] = []
    listed: list[int] = []
    removed: list[Any] = []
    names = memory.disk.names

    def some_names(path):
        listed.append(0)
        for name in names(path):
            listed[-1] += 1
            yield name

    told(monkeypatch, Segment, "close", closed)
    told(monkeypatch, memory.disk, "remove_later", removed)
    monkeypatch.setattr(memory.disk, "names", some_names)
    manager.delete(PARTITION)
    assert manager.next_deadline_ms() == 0  # its handles and its memory do not wait
    for job in manager.due_jobs(0):
        with suppress(StopIteration):
            while True:
                before = len(closed)
                next(job)
                assert len(closed) - before <= 600
                memory.settle()
    assert sorted(id(one) for (one,) in closed) == sorted(map(id, log.segments))
    assert max(listed) <= 600
    assert len(removed) > MANY
    assert not [name for name in names("") if name.endswith("-delete")]
    assert manager.next_deadline_ms() != 0


def test_a_roll_looks_at_what_is_not_synced_yet(memory):
    _, log = managed(memory, MANY)
    number = count(MANY)

    def roll():
        append(log, b"x", timestamps=[NOW + next(number)])
        memory.settle()

    roll()  # the first one sees that all that was in line is done
    assert calls(roll) < MANY // 2
    log.adopt(Change(segments=list(log.segments)))  # as after a compaction: all are looked at, once
    roll()
    assert calls(roll) < MANY // 2
    assert log.recovery_point >= log.active.base
    assert all(one.indexes_saved and one.synced_size >= one.size for one in log.segments[:-1])


def test_segments_are_asked_for_their_largest_timestamp_once(memory):
    _, log = managed(memory, MANY)
    assert calls(log.offset_of_max_timestamp) < 2 * MANY
    found = log.offset_of_max_timestamp()
    assert found is not None
    assert (found.offset, found.timestamp) == (MANY - 1, NOW + MANY - 1)


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_looks_at_some_of_the_segments_in_a_step(memory, monkeypatch, clean):
    manager, _ = managed(memory, MANY)
    if clean:
        memory.run(manager.shutdown())
    memory.settle()
    monkeypatch.setattr(found, "_NAMES_PER_STEP", 100, raising=False)
    monkeypatch.setattr(recovery, "_OPENED_PER_STEP", 100, raising=False)
    again = manager_of(memory)
    job = again.load()
    most, ended = 0, False

    def step():
        nonlocal ended
        try:
            next(job)
        except StopIteration:
            ended = True

    while not ended:
        most = max(most, calls(step))
        memory.settle()
    assert len(again.logs[PARTITION].segments) == MANY
    assert most < 4 * MANY


@pytest.mark.parametrize(("number", "learned"), [(SOME - 1, SOME - 1), (130, 131), (20, 21)])
def test_a_lookup_by_time_opens_some_files_a_step(memory, monkeypatch, number, learned):
    """The largest timestamp of each segment stands in a file of its own."""
    log = memory.restart(made(memory, SOME), clean=True)
    opened: list[Any] = []
    told(monkeypatch, Segment, "_load", opened)
    jobs: list[Any] = []
    found = None
    while found is None:
        before = len(opened)
        try:
            found = log.offset_for_timestamp(NOW + number)
        except NotYet as pending:
            search: Any = pending.token
            search.begin(lambda job, ended: jobs.append((job, ended)))
        assert len(opened) - before <= 60
        while jobs:
            job, ended = jobs.pop()
            assert most_in_a_step(job, lambda: len(opened)) <= 60
            ended(None)
    assert (found.timestamp, found.offset) == (NOW + number, number)
    assert learned <= len(opened) <= learned + 2, "no more than it takes"


def test_the_youngest_record_of_many_segments_is_found_in_steps(memory, monkeypatch):
    log = memory.restart(made(memory, SOME), clean=True)
    opened: list[Any] = []
    told(monkeypatch, Segment, "_load", opened)
    searches: list[Any] = []
    told(monkeypatch, reader, "largest_in_steps", searches)
    with pytest.raises(NotYet):
        log.offset_of_max_timestamp()
    assert len(opened) <= 60
    found = memory.call(log.offset_of_max_timestamp)
    assert (found.timestamp, found.offset) == (NOW + SOME - 1, SOME - 1)
    assert len(searches) == 2, "one for each who asked"


def test_a_lookup_goes_on_where_segments_went_meanwhile(memory):
    log = memory.restart(made(memory, SOME), clean=True)
    with pytest.raises(NotYet) as caught:
        log.offset_for_timestamp(NOW + SOME - 1)
    log.commit_all()
    log.raise_log_start_offset(100)
    memory.run(log.retain(NOW))
    jobs: list[Any] = []
    search: Any = caught.value.token
    search.begin(lambda job, ended: jobs.append((job, ended)))
    for job, ended in jobs:
        memory.run(job)
        ended(None)
    found = memory.call(lambda: log.offset_for_timestamp(NOW + SOME - 1))
    assert found.offset == SOME - 1
    memory.disk.remove(log.segments[150].path(".timeindex"))
    log = memory.restart(log, clean=True)
    memory.disk.remove(log.segments[90].path(".timeindex"))
    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        memory.call(lambda: log.offset_for_timestamp(NOW + SOME - 1))
    assert log.segments[90].doubted


def test_a_look_at_what_is_dirty_opens_some_files_a_step(memory, monkeypatch):
    log = memory.restart(made(memory, SOME), clean=True)
    log.commit_all()
    opened: list[Any] = []
    told(monkeypatch, Segment, "_load", opened)
    assert most_in_a_step(cleanable(log, NOW + 2 * SOME), lambda: len(opened)) <= 100
    assert len(opened) >= SOME - 1


@pytest.mark.parametrize("gone", [5, 90])
def test_a_segment_that_cannot_be_asked_for_its_youngest_record_is_told(memory, gone):
    """Behind fifty that nobody had read, it was looked for without an end."""
    log = memory.restart(made(memory, SOME), clean=True)
    memory.disk.remove(log.segments[gone].path(".timeindex"))
    asked = 0

    def ask():
        nonlocal asked
        asked += 1
        assert asked < 10
        return log.offset_of_max_timestamp()

    with pytest.raises(KafkaError, match="KAFKA_STORAGE_ERROR"):
        memory.call(ask)

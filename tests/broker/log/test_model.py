"""The log against a list: appends, reads, rolls, watermarks, cuts, retention, compaction, clean and unclean restarts.

The model is a list of (offset, key, value) and a few integers. After every step the log must say the same. Power losses
tear files at drawn bytes; what was durable must be there, and what is there must be a record that was written.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from barnabas.broker.config import TopicConfig
from barnabas.broker.log import Isolation
from barnabas.broker.log.index_room import IndexRoom
from barnabas.broker.log.index_walk import walk
from tests.broker.log.harness import NOW, World, append, everything, headers_in

KEYS = [b"a", b"b", b"c"]


class LogModel(RuleBasedStateMachine):
    late = False

    @initialize(
        segment_bytes=st.integers(300, 1500),
        interval=st.sampled_from([0, 100, 4096]),
        flush=st.sampled_from([1, 3, 10**9]),
    )
    def begin(self, segment_bytes, interval, flush):
        self.world = World("late" if self.late else "memory", None)
        self.config = TopicConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            flush_messages=flush,
            cleanup_policy=("compact", "delete"),
            retention_ms=1000,
        )
        self.log = self.world.new_log(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            flush_messages=flush,
            cleanup_policy=self.config.cleanup_policy,
            retention_ms=1000,
        )
        self.records = []
        self.deleted = {}
        self.times = {}
        self.end = self.start = 0
        self.time = NOW
        self.sequence = 0

    @rule(count=st.integers(1, 4), key=st.sampled_from(KEYS), null=st.booleans(), codec=st.sampled_from([0, 0, 1, 4]))
    def append(self, count, key, null, codec):
        self.time += 1
        values = [None if null else b"%d" % (self.end + i) for i in range(count)]
        info = append(
            self.log, *values, keys=[key] * count, timestamps=[self.time] * count, codec=codec, now_ms=self.time
        )
        assert (info.first_offset, info.last_offset) == (self.end, self.end + count - 1)
        self.records += [(self.end + i, key, value) for i, value in enumerate(values)]
        self.times |= {self.end + i: self.time for i in range(count)}
        self.end += count

    @rule()
    def append_as_a_producer(self):
        self.time += 1
        info = append(self.log, b"p", keys=[b"p"], pid=5, epoch=0, sequence=self.sequence, timestamps=[self.time])
        again = append(self.log, b"p", keys=[b"p"], pid=5, epoch=0, sequence=self.sequence, timestamps=[self.time])
        assert (again.duplicate, again.first_offset) == (True, info.first_offset)
        self.sequence += 1
        self.records.append((self.end, b"p", b"p"))
        self.times[self.end] = self.time
        self.end += 1

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data(), size=st.sampled_from([1, 150, 10_000]))
    def read(self, data, size):
        offset = data.draw(st.integers(self.start, self.end - 1))
        got = self.world.call(lambda: self.log.read(offset, size, Isolation.HIGH_WATERMARK))
        following = [o for o, _, _ in self.records if o >= offset]
        headers = headers_in(got.records)
        if following:
            assert headers[0].base_offset <= following[0]
        for header in headers:
            assert header.next_offset > offset

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data())
    def truncate(self, data):
        offset = data.draw(st.integers(self.start, self.end))
        self.world.call(lambda: self.log.truncate_to(offset))
        assert max(offset - 4, self.start) <= self.log.log_end_offset <= offset
        self.lost_from(self.log.log_end_offset)
        active = self.log.active
        told = headers_in(self.world.call(lambda: active.file.read(0, active.size)))
        if self.end > (told[-1].next_offset if told else active.base):
            # In a gap that compaction left, or behind the log start: no batch tells where it ends, and a start ends it
            # before, as Apache Kafka's does.
            self.append_as_a_producer()
            self.world.run(self.log.flush())

    def lost_from(self, end):
        self.end = end
        self.records = [r for r in self.records if r[0] < end]
        self.deleted = {offset: r for offset, r in self.deleted.items() if offset < end}
        self.start = min(self.start, end)
        self.log.advance_high_watermark(self.log.log_end_metadata)
        producer = self.log.producers.producers.get(5)
        if producer is None:
            self.sequence = 0
        else:
            self.sequence = producer.batches[-1].last_sequence + 1

    @precondition(lambda self: self.end > self.start)
    @rule(data=st.data())
    def delete_records(self, data):
        self.start = data.draw(st.integers(self.start, self.end))
        self.log.raise_log_start_offset(self.start)
        self.forget()

    @rule(age=st.integers(0, 40))
    def retain(self, age):
        self.world.run(self.log.retain(self.time + 1000 - age))
        self.start = self.log.log_start_offset
        self.forget()

    def forget(self):
        self.deleted |= {r[0]: r for r in self.records if r[0] < self.start}
        self.records = [r for r in self.records if r[0] >= self.start]

    @rule()
    def compact(self):
        before = self.log.active.base
        result = self.world.run(self.log.compact(self.time))
        if result is None:
            return
        found = {r.offset for r in everything(self.world, self.log)}
        kept = []
        for offset, key, value in self.records:
            superseded = any(o > offset and k == key and o < before for o, k, _ in self.records)
            if offset in found:
                kept.append((offset, key, value))
            else:
                assert superseded, "only what a newer record of the key replaces may go"
        self.records = kept

    @rule()
    def let_indexes_go(self):
        self.world.run(walk(IndexRoom(0), [self.log]))

    @rule(crowded=st.booleans())
    def crowd(self, crowded):
        room = self.log.active.room
        assert room is not None
        room.crowded = crowded

    @precondition(lambda self: self.records)
    @rule(data=st.data())
    def look_up(self, data):
        """By the index, not by what the active segment remembers of its last batches."""
        offset = data.draw(st.integers(self.records[0][0], self.end - 1))
        self.log.recent.clear()
        got = self.world.call(lambda: self.log.read(offset, 1, Isolation.LOG_END))
        following = [o for o, _, _ in self.records if o >= offset]
        if following:
            header = headers_in(got.records)[0]
            assert header.base_offset <= following[0] < header.next_offset

    @precondition(lambda self: self.records)
    @rule(data=st.data(), later=st.booleans())
    def look_up_by_time(self, data, later):
        time = self.times[data.draw(st.sampled_from(self.records))[0]] + later
        found = self.world.call(lambda: self.log.offset_for_timestamp(time))
        first = next((o for o, _, _ in self.records if self.times[o] >= time), None)
        assert (found and found.offset) == first
        assert found is None or found.timestamp == self.times[found.offset]

    @rule()
    def let_it_settle(self):
        self.world.settle()

    @rule()
    def restart(self):
        self.log = self.world.restart(
            self.log, clean=True, high_watermark=self.end, log_start_offset=self.log.log_start_offset
        )
        assert self.log.log_end_offset == self.end

    @rule(torn=st.lists(st.integers(0, 300), min_size=1, max_size=3))
    def power_loss(self, torn):
        durable = self.log.recovery_point
        index = 0

        def keep(path, synced, size):
            nonlocal index
            index += 1
            return synced + torn[index % len(torn)]

        start = self.log.log_start_offset
        self.world.disk.crash(keep)
        self.log = self.world.open_log(
            clean=False, config=self.config, recovery_point=durable, log_start_offset=start, high_watermark=self.end
        )
        assert self.log.log_end_offset >= durable
        found = {r.offset: (r.offset, r.key, r.value) for r in everything(self.world, self.log)}
        there = {r[0]: r for r in self.records}
        written = self.deleted | there  # a log that lost its end below its start begins at its first file
        assert all(written.get(offset) == record for offset, record in found.items())
        assert all(offset in found for offset in there if offset < durable), "what was durable is there"
        self.records = sorted(found.values())
        self.start = self.log.log_start_offset
        self.lost_from(self.log.log_end_offset)

    @invariant()
    def same(self):
        if not hasattr(self, "log"):
            return
        log = self.log
        assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert [(r.offset, r.key, r.value) for r in everything(self.world, log)] == self.records
        assert log.bases == sorted({s.base for s in log.segments})
        assert log.recovery_point <= log.log_end_offset


class LateLogModel(LogModel):
    late = True


limits = settings(max_examples=40, stateful_step_count=30, suppress_health_check=list(HealthCheck), derandomize=True)
TestLogModel = LogModel.TestCase
TestLogModel.settings = limits
TestLateLogModel = LateLogModel.TestCase
TestLateLogModel.settings = limits

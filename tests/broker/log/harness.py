"""What the log's tests share: the three disks, batches, and ways to drive jobs and calls that answer later."""

from __future__ import annotations

import queue
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from barnabas.broker.config import BrokerConfig, TopicConfig
from barnabas.broker.host.disk import RealDisk
from barnabas.broker.jobs import at_once
from barnabas.broker.log import AppendInfo, Log, LogManager
from barnabas.broker.log.look import Costly, Large, Summed, Unsummed, look_apart, stamped
from barnabas.broker.log.search import Search
from barnabas.broker.log.staging import stage
from barnabas.broker.log.types import Isolation
from barnabas.broker.memory_disk import MemoryDisk
from barnabas.broker.ports import NotYet
from barnabas.protocol.batch import BatchHeader, batches, read_header, set_place
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.records import Record, decode_records, encode_batch

PARTITION = TopicPartition("t", 0)
TOPIC_ID = bytes(range(16))
NOW = 1_700_000_000_000


class World:
    """A disk, and the loop's thread of a test: completions run in `deliver`."""

    def __init__(self, kind: str, path: Any) -> None:
        self.kind = kind
        self.path = path
        self._posted: queue.Queue[Callable[[], None]] = queue.Queue()
        self.disk: Any
        self.reopen()

    def reopen(self) -> None:
        """The disk as a new process finds it (the memory disk: the same object)."""
        if self.kind == "real":
            if hasattr(self, "disk"):
                self.disk.close()
            self.disk = RealDisk(str(self.path), self._posted.put)
        elif not hasattr(self, "disk"):
            self.disk = MemoryDisk(late=self.kind == "late")

    def deliver(self) -> None:
        """Let what is under way come back."""
        if self.kind == "real":
            self._posted.get(timeout=60)()
            while not self._posted.empty():
                self._posted.get()()
        else:
            self.disk.deliver()

    def settle(self) -> None:
        """Let everything under way come back."""
        if self.kind == "real":
            while self.disk.under_way:
                self.deliver()
            return
        while self.disk.deliver():
            pass

    def run(self, job: Generator[Any, None, Any]) -> Any:
        """Drive a job to its end."""
        while True:
            try:
                token = next(job)
            except StopIteration as stop:
                return stop.value
            if token is not None:
                fired: list[bool] = []
                token.on_ready(partial(fired.append, True))
                while not fired:
                    self.deliver()

    def call(self, step: Callable[[], Any]) -> Any:
        """A call that may answer later: again until it has its bytes."""
        held = []
        while True:
            try:
                return step()
            except NotYet as pending:
                token = pending.token
            held.append(token)
            fired: list[bool] = []
            token.on_ready(partial(fired.append, True))
            if isinstance(token, Search):
                token.begin(self._run_job)
            while not fired:
                self.deliver()

    def _run_job(self, job: Generator[Any, None, None], ended: Callable[[Exception | None], None]) -> None:
        fault: Exception | None = None
        try:
            self.run(job)
        except Exception as error:
            fault = error
        ended(fault)

    def new_log(self, now_ms: int = NOW, **settings: Any) -> Log:
        log = Log(self.disk, str(PARTITION), PARTITION, TOPIC_ID, TopicConfig(**settings))
        log.open_new(now_ms)
        return log

    def open_log(self, *, clean: bool, now_ms: int = NOW, config: TopicConfig | None = None, **points: Any) -> Log:
        log = Log(self.disk, str(PARTITION), PARTITION, TOPIC_ID, config or TopicConfig())
        self.run(log.recover(clean=clean, now_ms=now_ms, **points))
        return log

    def restart(self, log: Log, *, clean: bool, **points: int) -> Log:
        """Close (or drop) a log and open it again."""
        if clean:
            self.run(log.close())
        else:
            log.release()
        self.settle()
        self.reopen()
        return self.open_log(clean=clean, config=log.config, **points)


class Clock:
    """Time of day that a test sets."""

    def __init__(self, now_ms: int = NOW) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        return self.ms


def manager_of(
    world: World, clock: Clock | None = None, topic: TopicConfig | None = None, **settings: Any
) -> LogManager:
    config = topic or TopicConfig()
    return LogManager(world.disk, BrokerConfig(**settings), lambda _: config, clock or Clock())


def batch(
    *values: bytes | None,
    keys: list[bytes | None] | None = None,
    timestamps: list[int] | None = None,
    codec: int = 0,
    attributes: int = 0,
    pid: int = -1,
    epoch: int = -1,
    sequence: int = -1,
) -> bytearray:
    """A producer's batch; times are NOW unless given."""
    values = values or (b"v",)
    times = timestamps or [NOW] * len(values)
    names = keys or [b"k"] * len(values)
    header = BatchHeader(
        0, 0, -1, 2, 0, codec | attributes, len(values) - 1, times[0], max(times), pid, epoch, sequence, len(values)
    )
    records = [Record(i, times[i], names[i], value) for i, value in enumerate(values)]
    return encode_batch(header, records)


def append(log: Log, *values: bytes | None, leader_epoch: int = 0, now_ms: int = NOW, **fields: Any) -> AppendInfo:
    """Append a batch as the leader, and let the high watermark follow (a partition of one replica)."""
    records: Any = memoryview(batch(*values, **fields))
    while True:
        try:
            info = log.append_as_leader(records, leader_epoch, now_ms=now_ms)
            break
        except Unsummed as unsummed:
            records = Summed(unsummed.view)
        except Large as large:
            set_place(large.batch.data, 0, log.log_end_offset, large.batch.header.length, leader_epoch)
            records = at_once(stage(log, large.batch, leader_epoch, now_ms))
    log.advance_high_watermark(log.log_end_metadata)
    return info


def append_apart(world: World, log: Log, *values: bytes | None, **fields: Any) -> AppendInfo:
    """As `append`, a batch that holds so much that it is looked through apart."""
    try:
        log.append_as_leader(memoryview(batch(*values, **fields)), 0, now_ms=NOW)
    except Costly as costly:
        found = world.run(look_apart(costly, log.apart))
        info = log.append_as_leader(stamped(found[0], found[1], log.config, NOW), 0, now_ms=NOW)
        log.advance_high_watermark(log.log_end_metadata)
        return info
    raise AssertionError("it was appended at once")


def records_in(data: Any) -> list[Record]:
    """All records of whole batches."""
    return [record for position, _ in batches(data) for record in decode_records(data, position)]


def headers_in(data: Any) -> list[BatchHeader]:
    return [read_header(data, position) for position, _ in batches(data)]


def everything(world: World, log: Log) -> list[Record]:
    """Every record from the log start on, as a reader to the log end sees it."""
    found: list[Record] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = world.call(partial(log.read, offset, 1 << 20, Isolation.LOG_END))
        if not len(data.records):
            break
        found += [record for record in records_in(data.records) if record.offset >= offset]
        offset = headers_in(data.records)[-1].next_offset
    return found

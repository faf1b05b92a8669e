"""How a record that finds no open batch gets its place, and how all get their outcome.

Both are generators that say what to wait for: a shell runs one up to what it yields, waits for that, and goes on.

    yielded    what the shell waits for, until its deadline at most; `send` then tells the time
    Memory     `waiter.wake` is called once `waiter.buffer` is there; the sender is told, for it frees memory
    Topic      metadata newer than `version`, which it asks for (`Metadata.want`)

What `place` holds meanwhile (a place in line, a buffer) is given back however it ends: placed, refused, closed,
interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple, TypeAlias, TypeVar

from barnabas.client.arguments import milliseconds
from barnabas.client.errors import BufferExhausted
from barnabas.client.produce.buffer_pool import Waiter
from barnabas.client.produce.columns.rows import CHOSEN, Chunk
from barnabas.client.produce.config import ProducerConfig
from barnabas.client.produce.core import NeedMemory, NeedMetadata, Placed, ProducerCore
from barnabas.client.produce.records import Headers, OnDelivery
from barnabas.client.produce.result import BatchResult
from barnabas.net.errors import ClientClosed, ClientTimeout
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import TopicPartition

F = TypeVar("F")


class Memory(NamedTuple):
    """Wait for the pool. Deadlines are absolute ms."""

    waiter: Waiter
    deadline_ms: int


class Topic(NamedTuple):
    """Wait for metadata."""

    name: str
    version: int
    deadline_ms: int


Wait: TypeAlias = Memory | Topic


def place(
    core: ProducerCore[F],
    topic: str,
    partition: int | None,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
    stamp_ms: int,
    now_ms: int,
    wait_ms: int,
    on_delivery: OnDelivery | None = None,
) -> Generator[Wait, int, tuple[tuple[F, bool], bool]]:
    """Places one record, waiting `wait_ms` at most.

    Returns:
        Its future and whether it found a place; and whether the sender must be woken. What is wrong with the record
        comes through the future; `on_delivery`, which the batch tells, hears nothing of a record that found none.

    Raises:
        ClientClosed: the producer is closed, or was while this waited.
    """

    def attempt(now_ms: int, buffer: bytearray | None) -> Placed | NeedMetadata | NeedMemory:
        return core.append(topic, partition, key, value, headers, stamp_ms, now_ms, buffer)

    try:
        core.check_size(key, value, headers)
        placed, now_ms = yield from _placing(core, attempt, topic, partition, now_ms, wait_ms)
        placed.result.deliver_to(placed.at, stamp_ms, on_delivery)
        return (core.future(placed.result, placed.at, stamp_ms), True), core.should_wake(placed, now_ms)
    except ClientClosed:
        raise
    except BarnabasError as error:
        return (core.failed(topic, partition, error.kept(), stamp_ms), False), False


def place_chunk(
    core: ProducerCore[F], topic: str, chunk: Chunk, now_ms: int, wait_ms: int
) -> Generator[Wait, int, tuple[BatchResult, bool]]:
    """Places the records of one batch, waiting `wait_ms` at most.

    Returns:
        Their outcome, and whether the sender must be woken.

    Raises:
        ClientClosed: the producer is closed, or was while this waited.
        BarnabasError: there was no memory, or the topic went.
    """

    def attempt(now_ms: int, buffer: bytearray | None) -> Placed | NeedMetadata | NeedMemory:
        return core.append_chunk(topic, chunk, now_ms, buffer)

    partition = None if chunk.partition == CHOSEN else chunk.partition
    placed, now_ms = yield from _placing(core, attempt, topic, partition, now_ms, wait_ms)
    return placed.result, core.should_wake(placed, now_ms)


def know(
    core: ProducerCore[F], topic: str, partition: int, now_ms: int, wait_ms: int, setting: str = "max.block.ms"
) -> Generator[Wait, int, tuple[None, bool]]:
    """Waits until the topic is known, and has that partition if it is not `CHOSEN`; `setting` says why not for longer.

    Raises:
        ClientClosed: the producer is closed.
        BarnabasError: it was not known in time, or is refused.
    """
    deadline_ms = now_ms + wait_ms
    where, missing = TopicPartition(topic, partition), False
    try:
        while True:
            core.check_open()
            if core.knows(topic, partition, now_ms):
                return None, False
            missing = core.metadata.note_missing(where, now_ms)
            if now_ms >= deadline_ms:
                raise unknown_topic(core, topic, None if partition == CHOSEN else partition, wait_ms, setting)
            now_ms = yield Topic(topic, core.metadata.version, deadline_ms)
    finally:
        if missing:
            core.metadata.troubles.clear(where)


def limit_of(timeout: float | None, config: ProducerConfig) -> tuple[int, str]:
    """How long `know` waits (ms), given a caller's `timeout` (seconds), and what says so.

    Raises:
        ConfigError: it is no time.
    """
    wait_ms = milliseconds(timeout)
    return (config.max_block_ms, "max.block.ms") if wait_ms is None else (wait_ms, "timeout")


def _placing(
    core: ProducerCore[F],
    attempt: Callable[[int, bytearray | None], Placed | NeedMetadata | NeedMemory],
    topic: str,
    partition: int | None,
    now_ms: int,
    wait_ms: int,
) -> Generator[Wait, int, tuple[Placed, int]]:
    """Tries until it is placed; returns what was got, and the time then."""
    deadline_ms = now_ms + wait_ms
    waiter: Waiter | None = None
    missing: TopicPartition | None = None
    try:
        while True:
            core.check_open()
            buffer = None
            if waiter is not None:
                buffer, waiter.buffer = waiter.buffer, None
            got = attempt(now_ms, buffer)
            if isinstance(got, Placed):
                return got, now_ms
            if isinstance(got, NeedMetadata) and partition is not None:
                missing = TopicPartition(topic, partition)
                core.metadata.note_missing(missing, now_ms)
            if now_ms >= deadline_ms:
                raise _too_long(core, got, topic, partition, wait_ms)
            if isinstance(got, NeedMemory):
                waiter = core.accumulator.pool.wait(got.size, _nobody)
                now_ms = yield Memory(waiter, deadline_ms)
                if waiter.buffer is None:
                    core.accumulator.pool.give_up(waiter)
            else:
                now_ms = yield Topic(topic, core.metadata.version, deadline_ms)
    finally:
        if missing is not None:
            core.metadata.troubles.clear(missing)
        if waiter is not None:
            core.accumulator.pool.give_up(waiter)


def drain(core: ProducerCore[F]) -> Generator[BatchResult, None, None]:
    """Has everything sent now; yields one after another the outcomes to wait for, of what was handed over so far."""
    core.accumulator.flushing += 1
    try:
        pending = [batch.result for batch in core.accumulator.incomplete]
        for result in pending:  # grows while it is walked: a split batch's parts follow
            yield result
            pending.extend(part for _, part in result.parts)
    finally:
        core.accumulator.flushing -= 1


def _nobody() -> None:
    """Whom a waiter wakes until the shell names somebody."""


def _too_long(
    core: ProducerCore[F], need: NeedMetadata | NeedMemory, topic: str, partition: int | None, wait_ms: int
) -> BarnabasError:
    if isinstance(need, NeedMemory):
        why = core.metadata.troubles.why()
        return BufferExhausted(
            f"no {need.size} bytes of buffer.memory became free within max.block.ms ({wait_ms} ms){why}"
        )
    return unknown_topic(core, topic, partition, wait_ms)


def unknown_topic(
    core: ProducerCore[F], topic: str, partition: int | None, wait_ms: int, setting: str = "max.block.ms"
) -> ClientTimeout:
    """The error of a wait for metadata that was in vain."""
    what = f"topic {topic}" if partition is None else f"partition {partition} of topic {topic}"
    keys = [("topic", topic)] if partition is None else [("topic", topic), TopicPartition(topic, partition)]
    why = core.metadata.troubles.why(*keys)
    return ClientTimeout(f"{what} is not in the metadata after {setting} ({wait_ms} ms){why}")

"""Serving a Fetch: read, learn from followers, answer or park. Source: `ReplicaManager.fetchMessages`, `readFromLog`.

Answer at once when: max_wait_ms <= 0; nothing is asked; min_bytes are there; reading one partition gave an error, a
diverging epoch, or a redirect. Else park, watched by every partition.

A fetch of more than `PARTITIONS_AT_ONCE_MAX` partitions, a follower's of more than `LEARNED_AT_ONCE_MAX`, is a job that
reads so many in a step; so is what is left of any when a step has copied `COPIED_AT_ONCE_MAX`. A fetch whose connection
closes ends at once; Kafka lets it wait until its time is up, which no client can tell.

Partitions are read in the request's order, each limited by min(its max_bytes, what is left of the request's); the
first that has data gives its first batch whole, however large.

Long because what is read, and what waits, are two ways through the same rules.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from barnabas.broker.delayed import MANY_KEYS
from barnabas.broker.jobs import Job
from barnabas.broker.log.types import OffsetMetadata
from barnabas.broker.pages import own_bytes, own_bytes_of
from barnabas.broker.ports import NotYet
from barnabas.broker.replica import damage, given
from barnabas.broker.replica.delayed_fetch import DelayedFetch
from barnabas.broker.replica.hosted import HostedPartitions
from barnabas.broker.replica.nearest import nearest
from barnabas.broker.replica.partition import Partition
from barnabas.broker.replica.reading import Reading
from barnabas.broker.replica.shared import Shared
from barnabas.broker.replica.types import FetchInfo, FetchParams, FetchResult
from barnabas.broker.replica.wide_fetch import WideFetch
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import ZERO_UUID, TopicPartition

FetchResults: TypeAlias = dict[TopicPartition, FetchResult]
Ends: TypeAlias = dict[TopicPartition, int]
Asked: TypeAlias = Sequence[tuple[TopicPartition, FetchInfo]]
Respond: TypeAlias = Callable[[FetchResults, int], None]
"""Called with what was read, and when (monotonic ms)."""

PARTITIONS_AT_ONCE_MAX: Final = 500
"""Partitions that one step reads: about 3 µs each."""
COPIED_AT_ONCE_MAX: Final = 4 * 1024 * 1024
"""Bytes that one step copies, the last partition's apart: 0.8 ms a MiB. Views of what is there cost nothing."""
LEARNED_AT_ONCE_MAX: Final = 250
"""So many of a follower's: each may be back in sync, which is proposed to the controller at 45 µs."""
PARKED_PARTITIONS_MAX: Final = 200_000
"""Partitions of all fetches that wait, half a KiB each. Above it a large fetch has its answer at once, as it stands.

Kafka has no such bound; a client cannot tell this from a wait that was over, and asks again."""
SHORT_BYTES: Final = 64 * 1024
"""Records of an answer while memory is short; its first batch comes whole, however large."""

logger = logging.getLogger(__name__)


def fetch(hosted: HostedPartitions, params: FetchParams, asked: Asked, respond: Respond, now_ms: int) -> None:
    """Read and respond, or park, see `ReplicaManager.fetch`."""
    _count(hosted, asked)
    shared, deadline_ms = hosted.shared, now_ms + params.max_wait_ms
    room = _bytes_max(shared, params)
    if len(asked) > _at_once_max(params):
        _read_many(hosted, params, asked, partial(_decide, hosted, params, asked, respond, deadline_ms), now_ms)
        return

    def read(step_ms: int) -> None:
        if params.replica_id >= 0:
            params.held = shared.leader_throttle.exceeded(step_ms)
        results, ends = read_partitions(hosted, params, asked, room)
        if params.replica_id >= 0:
            _learn(hosted, params, asked[: len(results)], results, ends, step_ms)
        if len(results) < len(asked):
            then = partial(_decide, hosted, params, asked, respond, deadline_ms)
            _read_many(hosted, params, asked, then, step_ms, begun=results, room=room)
        else:
            _decide(hosted, params, asked, respond, deadline_ms, results, step_ms)

    shared.when_read(read, now_ms, reader=params.consumer)


def _at_once_max(params: FetchParams) -> int:
    """How many partitions one step reads that have not waited yet."""
    return PARTITIONS_AT_ONCE_MAX if params.replica_id < 0 else LEARNED_AT_ONCE_MAX


def _bytes_max(shared: Shared, params: FetchParams) -> int:
    """What an answer may have: little while memory is short. What was copied for a peer that does not read is kept.

    Asked once for an answer: what is read for it makes memory short by itself, and is not to be read in vain.
    """
    params.passed = PARTITIONS_AT_ONCE_MAX
    account = shared.account
    return min(params.max_bytes, SHORT_BYTES) if account.total > account.low else params.max_bytes  # `short`, spelt out


def fetch_in_steps(
    hosted: HostedPartitions, params: FetchParams, asked: Asked, respond: Respond, now_ms: int
) -> Job[None]:
    """As `fetch`, of many partitions, as a part of the job of who asks: until it is answered, or waits."""
    _count(hosted, asked)
    yield None
    params.held = params.replica_id >= 0 and hosted.shared.leader_throttle.exceeded(now_ms)
    then = partial(_decide, hosted, params, asked, respond, now_ms + params.max_wait_ms)
    reading = Reading(hosted.shared.account, params.consumer)
    yield from _read_in_steps(hosted, params, asked, then, now_ms, reading)


def _count(hosted: HostedPartitions, asked: Asked) -> None:
    total, online = hosted.shared.stats.all.total_fetches, hosted.online
    for key, _ in asked:
        total.count += 1
        partition = online.get(key)
        if partition is not None:
            partition.stats.total_fetches.count += 1


def _decide(
    hosted: HostedPartitions,
    params: FetchParams,
    asked: Asked,
    respond: Respond,
    deadline_ms: int,
    results: FetchResults,
    now_ms: int,
) -> None:
    """Answer with what was read, or park."""
    if _answer_now(params, results):
        _respond(hosted, params, results, respond, now_ms)
    else:
        _park(hosted, params, asked, results, respond, deadline_ms, now_ms)


def _read_many(
    hosted: HostedPartitions,
    params: FetchParams,
    asked: Asked,
    then: Callable[[FetchResults, int], None],
    now_ms: int,
    *,
    again: bool = False,
    begun: FetchResults | None = None,
    room: int = -1,
) -> None:
    """Read so much that it takes steps, and go on with `then(results, now_ms)`; see `_read_in_steps`."""
    params.held = params.replica_id >= 0 and hosted.shared.leader_throttle.exceeded(now_ms)

    def ended(fault: Exception | None) -> None:
        if fault is not None:
            logger.error("a fetch of %d partitions failed", len(asked), exc_info=fault)
            then({key: _failed(hosted, key, fault) for key, _ in asked}, now_ms)

    reading = Reading(hosted.shared.account, params.consumer)
    if begun:
        reading.reach(_copied_in(begun))
    job = _read_in_steps(hosted, params, asked, then, now_ms, reading, again=again, begun=begun, room=room)
    hosted.shared.run(job, ended)


def _read_in_steps(
    hosted: HostedPartitions,
    params: FetchParams,
    asked: Asked,
    then: Callable[[FetchResults, int], None],
    now_ms: int,
    reading: Reading,
    *,
    again: bool = False,
    begun: FetchResults | None = None,
    room: int = -1,
) -> Job[None]:
    """`again`: it has waited, and what a follower's offsets say was taken in before.

    `begun`: what a step has read already, of `room` bytes that the answer may have. Others read meanwhile: what each
    step has copied is charged, and once memory is short no more is read.
    """
    results: FetchResults = begun or {}
    all_bytes = room if begun else _bytes_max(hosted.shared, params)
    copied_bytes = _copied_in(results)
    left_bytes = max(0, all_bytes - _bytes_in(results))
    size = PARTITIONS_AT_ONCE_MAX if again else _at_once_max(params)
    start = len(results)
    try:
        while start < len(asked):
            some = asked[start : start + size]
            params.passed = PARTITIONS_AT_ONCE_MAX
            while True:
                try:
                    part, ends = read_partitions(hosted, params, some, left_bytes, left_bytes == all_bytes)
                    break
                except NotYet as pending:
                    token = reading.hold(pending)
                yield token
            start += len(part)
            if params.replica_id >= 0 and not again:
                _learn(hosted, params, some[: len(part)], part, ends, now_ms)
            results |= part
            copied_bytes += _copied_in(part)
            reading.reach(copied_bytes)
            left_bytes = max(0, left_bytes - _bytes_in(part))
            yield None
            if copied_bytes and hosted.shared.account.short:
                left_bytes = 0
            if params.connection is not None and not params.connection.open:
                return  # nobody is left to answer, and what has been read is charged to nobody
        then(results, now_ms)
    finally:
        reading.end()


def _bytes_in(results: FetchResults) -> int:
    return sum(len(result.records) for result in results.values())


def _copied_in(results: FetchResults) -> int:
    return own_bytes(result.records for result in results.values())


def read_partitions(
    hosted: HostedPartitions,
    params: FetchParams,
    asked: Asked,
    left_bytes: int,
    min_one: bool = True,
) -> tuple[FetchResults, Ends]:
    """Read partitions; errors are results. Also returns the log end each was read at (bytes are leased).

    Of `left_bytes` at most, but that with `min_one` the first batch comes whole. Where a partition was waited for, and
    memory is short by now, nothing is read behind it. With `COPIED_AT_ONCE_MAX` the step ends: partitions that are not
    among the results are to be read in another.

    Raises:
        NotYet: a partition's bytes are not in memory; run the whole step again.
    """
    results: FetchResults = {}
    ends: Ends = {}
    copied_bytes = 0
    for key, info in asked:
        try:
            partition = hosted.get(key)
            result, ends[key] = _read(partition, params, info, min(info.max_bytes, left_bytes), min_one)
        except NotYet:
            if not hosted.shared.account.short:
                params.passed = len(results)
            raise
        except Exception as error:
            results[key] = _failed(hosted, key, error)
            leader = hosted.online.get(key)
            if leader is not None and leader.remotes:
                damage.unreadable(leader, params.replica_id, info.fetch_offset, error)
            continue
        results[key] = result
        size = len(result.records)
        if size:
            min_one = False
            left_bytes = max(0, left_bytes - size)
            if len(results) > params.passed and hosted.shared.account.short:
                left_bytes = 0
            copied_bytes += own_bytes_of(result.records)
            if copied_bytes >= COPIED_AT_ONCE_MAX:
                break
    return results, ends


def _read(
    partition: Partition, params: FetchParams, info: FetchInfo, max_bytes: int, min_one: bool
) -> tuple[FetchResult, int]:
    log = partition.log
    if info.topic_id != partition.topic_id and info.topic_id != ZERO_UUID:
        raise KafkaError(
            ErrorCode.INCONSISTENT_TOPIC_ID, f"{partition.topic_partition} has another topic id than the request"
        )
    partition.check_access(info.current_leader_epoch, leader_only=params.leader_only)
    if params.replica_id >= 0:
        partition.follower(params.replica_id, info.current_leader_epoch)
    offset = info.fetch_offset
    if partition.remotes:
        params.followed = True
    if params.rack and partition.is_leader and params.connection is not None:
        other = nearest(partition, params.rack, params.connection.listener, offset)
        if other >= 0:  # nothing is read: it goes there
            ends = log.high_watermark, log.last_stable_offset, log.log_start_offset
            return FetchResult(0, b"", *ends, preferred_read_replica=other), log.log_end_offset
    epoch = info.last_fetched_epoch
    if epoch >= 0:
        there = log.end_offset_for_epoch(epoch)
        if there.leader_epoch < 0 or there.end_offset < 0 or offset < log.log_start_offset:
            detail = f"{partition.topic_partition}: offset {offset} of epoch {epoch} is not in the log"
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, detail)
        if there.leader_epoch < epoch or there.end_offset < offset:
            diverged = FetchResult(
                0, b"", log.high_watermark, log.last_stable_offset, log.log_start_offset, diverging_epoch=there
            )
            return diverged, log.log_end_offset
    if params.held and partition.shared.leader_throttle.holds_back(partition, params.replica_id):
        max_bytes, min_one = 0, False
    start, records, watermark, stable, log_start, log_end = log.read(offset, max_bytes, params.isolation, min_one)
    return FetchResult(0, records, watermark, stable, log_start, start=start), log_end


def _learn(
    hosted: HostedPartitions,
    params: FetchParams,
    asked: Asked,
    results: FetchResults,
    ends: Ends,
    now_ms: int,
) -> None:
    """Take in what the offsets of a follower say, but for those that failed or diverge."""
    for key, info in asked:
        start = results[key].start
        if start is None:
            continue
        try:
            partition = hosted.get(key)
            damage.check_given(partition, params.replica_id, start.offset, results[key].records)
            partition.follower_fetched(
                params.replica_id, start, info.log_start_offset, ends[key], params.replica_epoch, now_ms
            )
        except KafkaError as error:
            results[key] = _failed(hosted, key, error)


def _answer_now(params: FetchParams, results: FetchResults) -> bool:
    if params.max_wait_ms <= 0 or not results:
        return True
    bytes_count = 0
    for result in results.values():
        if result.error_code or result.diverging_epoch is not None or result.preferred_read_replica >= 0:
            return True
        bytes_count += len(result.records)
    return bytes_count >= params.min_bytes


def _park(
    hosted: HostedPartitions,
    params: FetchParams,
    asked: Asked,
    results: FetchResults,
    respond: Respond,
    deadline_ms: int,
    now_ms: int,
) -> None:
    shared = hosted.shared
    if params.connection is not None and not params.connection.open:
        return  # it was closed while a job read for it: nobody waits
    if len(asked) > PARTITIONS_AT_ONCE_MAX and shared.parked_partitions + len(asked) > PARKED_PARTITIONS_MAX:
        _respond(hosted, params, results, respond, now_ms)
        return
    starts = [(key, info, start) for key, info in asked if (start := results[key].start) is not None]

    def read_afresh(room: int, step_ms: int) -> None:
        if params.replica_id >= 0:
            params.held = shared.leader_throttle.exceeded(step_ms)
        fresh, _ = read_partitions(hosted, params, asked, room)
        if len(fresh) < len(asked):
            then = _responding(hosted, params, respond)
            _read_many(hosted, params, asked, then, step_ms, again=True, begun=fresh, room=room)
        else:
            _respond(hosted, params, fresh, respond, step_ms)

    def answer(then_ms: int) -> None:
        if len(asked) <= PARTITIONS_AT_ONCE_MAX:
            shared.when_read(partial(read_afresh, _bytes_max(shared, params)), then_ms, reader=params.consumer)
        else:
            _read_many(hosted, params, asked, _responding(hosted, params, respond), then_ms, again=True)

    if len(starts) > PARTITIONS_AT_ONCE_MAX:
        _park_in_steps(hosted, params, starts, answer, deadline_ms, now_ms)
        return
    kind = DelayedFetch if len(starts) < MANY_KEYS else WideFetch
    operation = kind(deadline_ms - now_ms, params, starts, hosted, answer)
    # The keys alone: an operation keeps what it is given, and has no use for what was read so far.
    if not shared.fetch.try_complete_else_watch(operation, tuple(results), now_ms):
        shared.parked(operation, params.connection, len(starts))


def _park_in_steps(
    hosted: HostedPartitions,
    params: FetchParams,
    starts: list[tuple[TopicPartition, FetchInfo, OffsetMetadata]],
    answer: Callable[[int], None],
    deadline_ms: int,
    now_ms: int,
) -> None:
    """It counts as parked from now on, so that it ends with its connection."""
    shared = hosted.shared
    operation = WideFetch(deadline_ms - now_ms, params, starts, hosted, answer)
    operation.begin()
    shared.parked(operation, params.connection, len(starts))
    keys = [key for key, _, _ in starts]

    def steps() -> Job[None]:
        for _ in shared.fetch.watch_in_steps(operation, keys, deadline_ms, PARTITIONS_AT_ONCE_MAX, now_ms):
            yield None

    def ended(fault: Exception | None) -> None:
        if fault is not None:
            logger.error("a fetch of %d partitions cannot wait", len(starts), exc_info=fault)
            operation.force_complete(now_ms)

    shared.run(steps(), ended)


def _respond(
    hosted: HostedPartitions, params: FetchParams, results: FetchResults, respond: Respond, now_ms: int
) -> None:
    """Answer, once what others have, too, is summed up."""
    if params.followed and params.replica_id < 0:
        apart = given.sum_up(hosted, results)
        if apart:

            def ended(fault: Exception | None) -> None:
                if fault is not None:
                    logger.error("a large batch cannot be summed up", exc_info=fault)
                _send(hosted, params, results, respond, now_ms)

            hosted.shared.run(given.sum_up_apart(hosted, results, apart), ended)
            return
    _send(hosted, params, results, respond, now_ms)


def _responding(hosted: HostedPartitions, params: FetchParams, respond: Respond) -> Callable[[FetchResults, int], None]:
    """`_respond`, for a job to end with."""
    return lambda results, now_ms: _respond(hosted, params, results, respond, now_ms)


def _send(hosted: HostedPartitions, params: FetchParams, results: FetchResults, respond: Respond, now_ms: int) -> None:
    """Count what was read, and answer with it."""
    stats, throttle = hosted.shared.stats, hosted.shared.leader_throttle
    for key, result in results.items():
        size = len(result.records)
        if not size:
            continue
        if params.replica_id >= 0:
            stats.all.replication_bytes_out.count += size
            led = hosted.online.get(key)
            if led is None:
                continue
            if params.replica_id in led.adding:
                stats.all.reassignment_bytes_out.count += size
            if throttle.on and throttle.holds_back(led, params.replica_id):
                throttle.passed(size, now_ms)
        else:
            stats.all.bytes_out.count += size
            partition = hosted.online.get(key)
            if partition is not None:
                partition.stats.bytes_out.count += size
    respond(results, now_ms)


def _failed(hosted: HostedPartitions, key: TopicPartition, error: Exception) -> FetchResult:
    if isinstance(error, KafkaError):
        return FetchResult(error.code)
    stats = hosted.shared.stats
    stats.all.failed_fetches.mark()
    partition = hosted.online.get(key)
    if partition is not None:
        partition.stats.failed_fetches.mark()
    code = ErrorCode.KAFKA_STORAGE_ERROR if isinstance(error, OSError) else ErrorCode.UNKNOWN_SERVER_ERROR
    logger.error("reading %s failed", key, exc_info=error)
    return FetchResult(code)

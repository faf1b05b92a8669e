"""The topics that a group's regular expressions match are found anew, as a job. Source: `TopicRegexResolver`.

At most every 10 s for a group, where a pattern is new, where topics have come or gone, and now and then: what is found
is written, and the group epoch rises if that is something else than before. What could not be written waits as long.

RE2 takes time linear in a name, but a dear pattern takes 10 ms for each, and a hundred of them over all topics take
hours. Apache Kafka has a thread for that; here it has half of the loop at most, that of all groups together, and ends
with the last member who has the pattern.
"""

from __future__ import annotations

import logging
from typing import Final

from barnabas.broker.group.alarms import Alarm
from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.consumer.hashing import group_hash, hash_topics
from barnabas.broker.group.consumer.replaying import size_of_patterns
from barnabas.broker.group.consumer.values import EpochRecord, PatternRecord, Resolved
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.shared import Shared
from barnabas.broker.group.state import Status
from barnabas.broker.group.values import CoordinatorRecord
from barnabas.broker.jobs import Gate, Job
from barnabas.protocol.errors import ErrorCode, KafkaError

BATCH_MS: Final = 10_000
"""Patterns that come within this time are resolved together (`REGEX_BATCH_REFRESH_MIN_INTERVAL_MS`)."""
BATCH_BYTES: Final = 256 * 1024
"""Names of topics that are written at once: a few ms, and less than a batch takes. Kafka writes all in one batch."""
MATCHES_MAX: Final = 20_000
"""Topics that all patterns of a group match, each counted by itself: what is written of them is one step (20 ms), and a
target of more does not fit into a batch. Apache Kafka has no such bound."""
REST_MS: Final = 5
"""So long nothing is looked for after a step of one pattern, but for its first, or as long as that step has taken; and
as often as groups are at it."""
REST_MS_MAX: Final = 100
"""A step takes less, so the machine slept."""

logger = logging.getLogger(__name__)


def refresh_if_due(shard: Shard, group: ConsumerGroup, now_ms: int) -> None:
    """Find the topics of a group's patterns anew, if it is time for that."""
    shared = shard.shared
    wall_ms = shared.wall_clock.now_ms()
    if group.resolving or group.resolve_from_ms - BATCH_MS <= wall_ms < group.resolve_from_ms:
        return
    last = next(iter(group.resolved.values()), None)
    if last is not None:
        if last.at_ms <= wall_ms <= last.at_ms + BATCH_MS:
            return
        interval_ms = shared.config.group_consumer_regex_refresh_interval_ms
        complete = group.patterns.keys() == group.resolved.keys()
        if complete and last.version == shared.topics.version and wall_ms <= last.at_ms + interval_ms:
            return
    group.resolving = True
    shared.resolving += 1
    shared.run(_refresh(shard, group, now_ms), lambda fault: _ended(shared, group, fault))


def _ended(shared: Shared, group: ConsumerGroup, fault: Exception | None) -> None:
    group.resolving = False
    shared.resolving -= 1
    if fault is not None:
        logger.error("group %s: its regular expressions cannot be resolved: %s", group.group_id, fault)


def _refresh(shard: Shard, group: ConsumerGroup, now_ms: int) -> Job[None]:
    topics, wall_ms = shard.shared.topics, shard.shared.wall_clock.now_ms()
    version, names = topics.version, list(topics.names())
    found: dict[str, Resolved] = {}
    matches = 0
    for text in list(group.patterns):
        matching = yield from _matching(shard, group, text, names)
        if matching is None:
            continue
        matches += len(matching)
        if matches > MATCHES_MAX:
            group.resolve_from_ms = wall_ms + BATCH_MS
            logger.warning(
                "group %s: its patterns match more than %d topics, and are not resolved", group.group_id, MATCHES_MAX
            )
            return
        found[text] = Resolved(frozenset(matching), version, wall_ms)
        yield from hash_topics(topics, matching)
        yield None
    try:
        yield from _write(shard, group, found, now_ms)
    except KafkaError as fault:
        group.resolve_from_ms = wall_ms + BATCH_MS
        logger.warning("group %s: what its patterns match cannot be written yet: %s", group.group_id, fault)


def _matching(shard: Shard, group: ConsumerGroup, text: str, names: list[str]) -> Job[list[str] | None]:
    """The names that a pattern means; None: nobody has it any more."""
    from barnabas.broker.group.consumer.patterns import compile_pattern

    if text not in group.patterns or not _is_here(shard, group):
        return None
    looking, is_first, alarms = compile_pattern(text).matching(names), True, shard.shared.alarms
    while True:
        began_ms = alarms.now_ms
        try:
            next(looking)
        except StopIteration as end:
            found: list[str] = end.value
            return found
        yield None
        if text not in group.patterns or not _is_here(shard, group):
            return None
        if not is_first:
            yield _rest(shard.shared, alarms.now_ms - began_ms)
        is_first = False


def _rest(shared: Shared, spent_ms: int) -> Gate:
    """Opens when others have had the loop for as long as a step has taken."""
    gate, rest_ms = Gate(), min(max(spent_ms, REST_MS), REST_MS_MAX)
    shared.alarms.set(Alarm(lambda _: gate.open()), shared.alarms.now_ms + rest_ms * shared.resolving)
    return gate


def _write(shard: Shard, group: ConsumerGroup, found: dict[str, Resolved], now_ms: int) -> Job[None]:
    """Write what was found, in as many batches as that takes; the epoch, if it rises, comes with the last."""
    growth = size_of_patterns(group.resolved | found) - group.pattern_bytes
    if growth > 0 and not shard.shared.holdings.room_for(group.address, growth):
        raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"no memory is left for {growth} bytes")
    group_id, topics = group.group_id, shard.shared.topics
    pending: list[PatternRecord] = []
    size = 0
    others = False
    for text, new in found.items():
        more = sum(map(len, new.topics)) + len(text)
        if pending and size + more > BATCH_BYTES:
            if not _is_here(shard, group):
                return
            shard.write(pending, now_ms)
            pending, size = [], 0
            yield None
        if text in group.patterns:
            others = others or _topics(group, text) != new.topics
            pending.append(PatternRecord(group_id, text, new))
            size += more
    if not _is_here(shard, group):
        return
    names = dict(group.names)
    for record in pending:
        assert record.resolved is not None
        for change, some in ((-1, _topics(group, record.pattern)), (1, record.resolved.topics)):
            for name in some:
                names[name] = names.get(name, 0) + change
    records: list[CoordinatorRecord] = [*pending]
    metadata_hash = group_hash(topics, [name for name, count in names.items() if count])
    if others or metadata_hash != group.metadata_hash:
        records.append(EpochRecord(group_id, group.epoch + 1, metadata_hash))
    if records:
        shard.write(records, now_ms)
        group.checked = topics.version
        shard.shared.counts.consumer_rebalances += int(type(records[-1]) is EpochRecord)


def _is_here(shard: Shard, group: ConsumerGroup) -> bool:
    return shard.status is Status.ACTIVE and shard.groups.get(group.group_id) is group


def _topics(group: ConsumerGroup, text: str) -> frozenset[str]:
    found = group.resolved.get(text)
    return frozenset() if found is None else found.topics

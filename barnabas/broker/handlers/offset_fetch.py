"""OffsetFetch (9). A real broker tells how far groups have read.

- What was never committed, also of a group that nobody knows: offset -1, and no error.
- v1 says an error in each partition, v2 to v7 once for all. v2: null topics mean all that was committed.
- v7: `require_stable`; there are no transactions yet whose offsets could be undecided. v8: many groups, each with an
  error of its own. v9: a member of the consumer protocol says who it is, and has to be in its epoch:
  STALE_MEMBER_EPOCH; of classic groups nobody asks. v10: topic ids.
- What was committed of a topic that is gone is not told of one of the same name.
- A group named twice is told once, as it was named last, and a partition of it once (Kafka tells them twice).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, cast

from barnabas.broker.context import RequestContext
from barnabas.broker.group.consumer.committing import check_fetch
from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.kinds import AnyGroup
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.values import CommittedOffset
from barnabas.broker.handlers.coordinators import may, nothing_left, reply_to, until_committed
from barnabas.broker.handlers.services import Charge, Operation, Resource, Services
from barnabas.broker.handlers.steps import SLICE, Slice, answer, work_of
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import ZERO_UUID, TopicPartition
from barnabas.protocol.requests.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_ONE_ERROR_FROM: Final = 2
_MANY_FROM: Final = 8
_IDS_FROM: Final = 10
_BYTES: Final = 170
"""What an offset takes as it is told, and written, beside its metadata."""
_NO_OFFSET: Final = CommittedOffset(-1, -1, "", -1)


class _Uncommitted(NamedTuple):
    """An answer of so many elements, which is told once all that these shards have written is committed."""

    response: OffsetFetchResponse
    elements: int
    shards: list[Shard]


def handle(services: Services, request: OffsetFetchRequest, context: RequestContext, now_ms: int) -> bool:
    """Tell the offsets. True if nothing is left to do (see `registry`)."""
    asked = request.groups if context.api_version >= _MANY_FROM else [_as_group(request)]
    asked = list({group.group_id: group for group in asked}.values())
    services.work(_serve(services, request, asked, context, now_ms), request, context)
    return nothing_left(services)


def _is_large(services: Services, asked: list[OffsetFetchRequestGroup]) -> bool:
    """Whether the answer may have more elements than one slice."""
    size = 0
    for group in asked:
        size += work_of(group.group_id) + _size(services, group)
        if size > SLICE:
            return True
    return False


def _size(services: Services, asked: OffsetFetchRequestGroup) -> int:
    """How many elements a group's part of the answer has at most, counted as far as it is a small one."""
    if asked.topics is not None:
        few = asked.topics[: SLICE + 1]  # more are a large answer, whatever they hold
        return sum([1 + len(topic.partition_indexes) for topic in few])
    try:
        group = services.groups.shard_of(asked.group_id).groups.get(asked.group_id)
    except KafkaError:
        return 0
    return 0 if group is None else 2 * len(group.offsets)


def _serve(
    services: Services,
    request: OffsetFetchRequest,
    asked: list[OffsetFetchRequestGroup],
    context: RequestContext,
    now_ms: int,
) -> Job[None]:
    """A large answer is made in line. Until it may be told is up to `offsets.commit.timeout.ms`, outside of it."""
    charge = services.charging(context)
    steps: Job[_Uncommitted | None] = _answer(services, request, asked, context, charge, now_ms)
    if _is_large(services, asked):
        steps = services.line.within(context.connection.id, steps)
    with charge:
        waits = yield from steps
        if waits is None:
            return
        refused = yield from until_committed(waits.shards, context, now_ms)
        if refused:
            reply_to(request, context).refuse(max(refused.values()))
        else:
            yield from answer(context, waits.response, waits.elements)


def _answer(
    services: Services,
    request: OffsetFetchRequest,
    asked: list[OffsetFetchRequestGroup],
    context: RequestContext,
    charge: Charge,
    now_ms: int,
) -> Job[_Uncommitted | None]:
    """Answer; returns what is to be answered later instead, if it tells of what is not committed yet."""
    many = context.api_version >= _MANY_FROM
    told = []
    held: list[Shard] = []
    elements = 0
    current = Slice()
    for group in asked:
        one = OffsetFetchResponseGroup(group.group_id)
        told.append(one)
        elements += work_of(group.group_id)
        if current.is_over(work_of(group.group_id)):
            yield None
        try:
            shard = _shard(services, context, group.group_id)
            known = shard.groups.get(group.group_id)
            if isinstance(known, ConsumerGroup):
                check_fetch(known, group.member_id, group.member_epoch)
        except KafkaError as fault:
            one.error_code = fault.code
            continue
        held.append(shard)
        elements += yield from _tell(services, context, shard.groups.get(group.group_id), group, one, current, charge)
    if not many and told[0].error_code:
        if context.api_version >= _ONE_ERROR_FROM:
            request.topics = []
        reply_to(request, context).refuse(told[0].error_code)
        return None
    response = OffsetFetchResponse(groups=told)
    if not many:
        response = OffsetFetchResponse(topics=cast("list[OffsetFetchResponseTopic]", told[0].topics))
    behind = list(dict.fromkeys(shard for shard in held if shard.behind))
    if not behind:
        yield from answer(context, response, elements)
    elif len(behind) == 1 and elements <= SLICE:
        behind[0].answer(reply_to(request, context), response, now_ms)
    else:
        return _Uncommitted(response, elements, behind)
    return None


def _as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """What versions for one group ask, as those for many do; its topics stay what they are, and have no ids."""
    return OffsetFetchRequestGroup(
        request.group_id, topics=cast("list[OffsetFetchRequestTopics] | None", request.topics)
    )


def _shard(services: Services, context: RequestContext, group_id: str) -> Shard:
    if not may(services, context, Operation.DESCRIBE, group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return services.groups.shard_of(group_id)


def _tell(
    services: Services,
    context: RequestContext,
    group: AnyGroup | None,
    asked: OffsetFetchRequestGroup,
    told: OffsetFetchResponseGroup,
    current: Slice,
    charge: Charge,
) -> Job[int]:
    """What a group has committed of what is asked, a slice at a time; returns how many elements that are."""
    elements = size = 0
    offsets = {} if group is None else group.offsets
    many = context.api_version >= _MANY_FROM
    make = OffsetFetchResponsePartitions if many else OffsetFetchResponsePartition
    topics = cast("list[OffsetFetchResponseTopics | OffsetFetchResponseTopic]", told.topics)
    if asked.topics is None:
        all_of = yield from _all_of(services, offsets)
        keys_of = _told_of(services, context, all_of)
    else:
        keys_of = _named(services, context, asked.topics)
    for topic_name, topic_id, error, keys in keys_of:
        partitions: list[Any] = []
        topics.append(
            OffsetFetchResponseTopics(topic_name, topic_id, partitions)
            if many
            else OffsetFetchResponseTopic(topic_name, partitions)
        )
        elements += 1
        if current.is_over():
            yield None
        living = services.image.topics.get(topic_name)
        for key in keys:
            known = offsets.get(key, _NO_OFFSET) if not error else _NO_OFFSET
            if living is not None and not known.is_of(living.topic_id):
                known = _NO_OFFSET
            partitions.append(make(key.partition, known.offset, known.leader_epoch, known.metadata, error))
            elements += 1
            size += _BYTES + 2 * len(known.metadata)
            if current.is_over():
                charge(size)
                size = 0
                yield None
    return elements


def _all_of(services: Services, offsets: dict[TopicPartition, CommittedOffset]) -> Job[dict[str, list[TopicPartition]]]:
    """All partitions that have an offset, by topic."""
    topics = services.image.topics
    found: dict[str, list[TopicPartition]] = {}
    for number, (key, committed) in enumerate(list(offsets.items()), 1):
        state = topics.get(key.topic)
        if state is None or committed.is_of(state.topic_id):
            found.setdefault(key.topic, []).append(key)
        if number % SLICE == 0:
            yield None
    return found


def _told_of(
    services: Services, context: RequestContext, found: dict[str, list[TopicPartition]]
) -> Iterator[tuple[str, bytes, int, list[TopicPartition]]]:
    """Topics by name and id, no error, and partitions: of those that may be told."""
    image, principal = services.image, context.connection.principal
    for name, keys in found.items():
        state = image.topics.get(name)
        authorised = services.authorise(principal, Operation.DESCRIBE, Resource("topic", name))
        if authorised and (state or context.api_version < _IDS_FROM):
            yield name, ZERO_UUID if state is None else state.topic_id, ErrorCode.NONE, keys


def _named(
    services: Services, context: RequestContext, topics: list[OffsetFetchRequestTopics]
) -> Iterator[tuple[str, bytes, int, list[TopicPartition]]]:
    """Topics by name and id, the error for all of them, and partitions."""
    image, principal = services.image, context.connection.principal
    by_id = context.api_version >= _IDS_FROM
    seen: set[TopicPartition | tuple[bytes, int]] = set()
    for topic in topics:
        name, error = topic.name, ErrorCode.NONE
        topic_id = topic.topic_id if by_id else ZERO_UUID
        if by_id and (topic_id != ZERO_UUID or not name):
            state = image.topics_by_id.get(topic_id)
            name, error = ("", ErrorCode.UNKNOWN_TOPIC_ID) if state is None else (state.name, error)
        if not error and not services.authorise(principal, Operation.DESCRIBE, Resource("topic", name)):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        keys = []
        for index in topic.partition_indexes:
            key = TopicPartition(name, index)
            which = key if name else (topic_id, index)
            if which not in seen:
                seen.add(which)
                keys.append(key)
        if keys or not topic.partition_indexes:
            yield name, topic_id, error, keys

"""OffsetCommit (8). A real broker writes how far a group has read, partition by partition.

- A topic or partition that is not there: UNKNOWN_TOPIC_OR_PARTITION; v10 names topics by id: UNKNOWN_TOPIC_ID.
- Metadata of more than `offset.metadata.max.bytes` characters: OFFSET_METADATA_TOO_LARGE.
- A commit that is refused as a whole says so in every partition: who may commit stands in `group/offsets.py`.
- v2 to v4 may say how long the offsets are to be kept. v5: `offsets.retention.minutes` alone. v7: static members.

What is not there is told first, what is named twice as in Kafka (`refused_first`).
So many partitions as one slice has are written as one batch, as in Kafka; more than that a slice at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from barnabas.broker.cluster.image import TopicState
from barnabas.broker.context import RequestContext, source_of
from barnabas.broker.group.offsets import commit, commit_again
from barnabas.broker.group.reply import Reply
from barnabas.broker.group.shard import Shard
from barnabas.broker.group.values import Commit, Committer
from barnabas.broker.handlers.coordinators import may, nothing_left, reply_to
from barnabas.broker.handlers.refused_first import RefusedFirst
from barnabas.broker.handlers.services import Operation, Resource, Services, allow_all
from barnabas.broker.handlers.steps import Slice, slices
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OneCommitRequest,
    OneCommitResponse,
)

_IDS_FROM = 10
_NONE = ErrorCode.NONE  # once, as all that every commit asks for


def handle(services: Services, request: OffsetCommitRequest, context: RequestContext, now_ms: int) -> bool:
    """Write the offsets, and answer when they are committed."""
    followed, ahead = context.followed, services.groups.shared.ahead
    one = request if isinstance(request, OneCommitRequest) else None
    if one is None or not _commit_again(services, one, context, followed or bool(ahead.waiting), now_ms):
        services.work(_serve(services, request, context, now_ms), request, context)
    elif followed and ahead.waiting and one.said is not None:
        ahead.take_behind(one.said, context)
        followed = context.followed
    if ahead.waiting and (not followed or ahead.is_full):
        ahead.write(now_ms)
    return nothing_left(services)


def _commit_again(
    services: Services, request: OneCommitRequest, context: RequestContext, runs: bool, now_ms: int
) -> bool:
    """Serve the commonest request: a later commit of one partition. False: nothing was done, `_serve` knows.

    `runs`: another commit is behind it, or before it; both may be written together.
    """
    image, by_id = services.image, context.api_version >= _IDS_FROM
    state = image.topics_by_id.get(request.topic_id) if by_id else image.topics.get(request.name)
    key = None if state is None else state.keys.get(request.index)
    if (
        state is None
        or key is None
        or (services.authorise is not allow_all and not _may_commit(services, request, context, state))
    ):
        return False
    told = OneCommitResponse(request.name, request.topic_id, request.index, _NONE)
    try:
        shard = services.groups.shard_of(request.group_id)
        one = Commit(key, request.offset, request.leader_epoch, "", state.topic_id)
        asked = (context, told) if runs and services.groups.shared.ahead.may_take(shard) else None
        if not commit_again(shard, _committer(request, context), one, now_ms, asked):
            return False
        if asked:
            return True
    except KafkaError as fault:
        told.error_code = fault.code
        context.respond(told)
        return True
    if shard.behind:
        shard.answer(reply_to(request, context), told, now_ms)
    else:
        context.respond(told)
    return True


def _may_commit(services: Services, request: OneCommitRequest, context: RequestContext, state: TopicState) -> bool:
    resource = Resource("topic", state.name)
    return may(services, context, Operation.READ, request.group_id) and services.authorise(
        context.connection.principal, Operation.READ, resource
    )


def _committer(request: OffsetCommitRequest, context: RequestContext) -> Committer:
    return Committer(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        source_of(context.connection.client_host),
        context.api_version,
    )


def _serve(services: Services, request: OffsetCommitRequest, context: RequestContext, now_ms: int) -> Job[None]:
    reply = reply_to(request, context)
    if not may(services, context, Operation.READ, request.group_id):
        reply.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return
    by = _committer(request, context)
    answers: RefusedFirst[OffsetCommitResponseTopic] = RefusedFirst()
    by_id = context.api_version >= _IDS_FROM
    wanted: list[tuple[OffsetCommitResponsePartition, Commit]] = []
    current = Slice()
    for topic in request.topics:
        named = topic.topic_id if by_id else topic.name
        make = partial(OffsetCommitResponseTopic, topic.name, topic.topic_id)
        told = make()
        state, code = _topic(services, topic, context)
        refused = None if state is not None else answers.refused(named, make)
        for part in topic.partitions:
            key = None if state is None else state.keys.get(part.partition_index)
            answer = OffsetCommitResponsePartition(part.partition_index, code)
            if state is not None and key is not None:
                told.partitions.append(answer)
                said = part.committed_offset, part.committed_leader_epoch, part.committed_metadata or ""
                wanted.append((answer, Commit(key, *said, state.topic_id)))
            else:
                answer.error_code = code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                refused = refused or answers.refused(named, make)
                refused.partitions.append(answer)
            if current.is_over():
                if _is_refused(services, request, reply):
                    return
                yield None
        answers.take(named, told)
        if current.is_over():
            if _is_refused(services, request, reply):
                return
            yield None
    response = OffsetCommitResponse(topics=(yield from answers.merged()))
    shard: Shard | None = None
    for some in slices(wanted):
        if some:
            shard = _commit(services, by, some, request.retention_time_ms, now_ms) or shard
        if some is not wanted:
            yield None
    if shard is None:
        reply.send(response)
    else:
        shard.answer(reply, response, now_ms)


def _is_refused(services: Services, request: OffsetCommitRequest, reply: Reply) -> bool:
    """Refuse a large request as a whole where its group has no coordinator here; whether it was.

    A coordinator that loads is asked by many at once: what they hold would come to lie between what is loaded, and not
    go back to the system. Kafka tells of unknown topics first.
    """
    try:
        services.groups.shard_of(request.group_id)
    except KafkaError as fault:
        reply.refuse(fault.code)
        return True
    return False


def _commit(
    services: Services,
    by: Committer,
    some: Sequence[tuple[OffsetCommitResponsePartition, Commit]],
    retention_ms: int,
    now_ms: int,
) -> Shard | None:
    """Commit a slice; returns where it was written, if it was."""
    try:
        shard = services.groups.shard_of(by.group_id)
        codes = commit(shard, by, [each for _, each in some], retention_ms, now_ms)
    except KafkaError as fault:
        for answer, _ in some:
            answer.error_code = fault.code
        return None
    for answer, each in some:
        answer.error_code = codes[each.key]
    return shard


def _topic(
    services: Services, topic: OffsetCommitRequestTopic, context: RequestContext
) -> tuple[TopicState | None, int]:
    """The topic that a request names, or the error for all of its partitions."""
    image = services.image
    if context.api_version >= _IDS_FROM and (topic.topic_id != ZERO_UUID or not topic.name):
        state, missing = image.topics_by_id.get(topic.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    else:
        state, missing = image.topics.get(topic.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    name = topic.name if state is None else state.name
    if not services.authorise(context.connection.principal, Operation.READ, Resource("topic", name)):
        return None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return (None, missing) if state is None else (state, ErrorCode.NONE)

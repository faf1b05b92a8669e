"""OffsetCommit, API key 8. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from dataclasses import field
from typing import Protocol

from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests import message


@message
class OffsetCommitRequestPartition:
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ""


@message
class OffsetCommitRequestTopic:
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: list[OffsetCommitRequestPartition] = field(default_factory=list)


@message
class OffsetCommitRequest:
    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = -1
    topics: list[OffsetCommitRequestTopic] = field(default_factory=list)


class OneCommitRequest(OffsetCommitRequest):
    """The commonest request, one partition without metadata, laid flat.

    Reads like any other OffsetCommitRequest; who knows it by its type spares a list and an object on each level.
    `said` finds those that lie behind it on its connection, and differ in offset and leader epoch at most.
    """

    __slots__ = ("index", "leader_epoch", "name", "offset", "said", "topic_id")

    def __init__(
        self,
        group_id: str,
        generation_id_or_member_epoch: int,
        member_id: str,
        group_instance_id: str | None,
        name: str,
        topic_id: bytes,
        index: int,
        offset: int,
        leader_epoch: int,
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.retention_time_ms = -1
        self.name = name
        self.topic_id = topic_id
        self.index = index
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.said: SaidAgain | None = None

    @property
    def topics(self) -> list[OffsetCommitRequestTopic]:  # type: ignore[override]  # made when it is asked for
        """The partition where it stands in a request."""
        part = OffsetCommitRequestPartition(self.index, self.offset, self.leader_epoch, "")
        return [OffsetCommitRequestTopic(self.name, self.topic_id, [part])]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetCommitRequest) and _asked(self) == _asked(other)

    __hash__ = None  # type: ignore[assignment]  # as its like


class SaidAgain(Protocol):
    """What a commit says but for its offset, as bytes that come again."""

    def again(self, behind: memoryview, most: int) -> tuple[list[tuple[int, int, int]], int]:
        """Correlation id, offset and leader epoch of those that `behind` begins with, and how many bytes they are.

        `most` of them at most; never raises.
        """


def _asked(request: OffsetCommitRequest) -> tuple[object, ...]:
    who = request.group_id, request.generation_id_or_member_epoch, request.member_id, request.group_instance_id
    return *who, request.retention_time_ms, request.topics


@message
class OffsetCommitResponsePartition:
    partition_index: int = 0
    error_code: int = 0


@message
class OffsetCommitResponseTopic:
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: list[OffsetCommitResponsePartition] = field(default_factory=list)


@message
class OffsetCommitResponse:
    throttle_time_ms: int = 0
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)


class OneCommitResponse(OffsetCommitResponse):
    """The answer for one partition, laid flat. Reads like any other OffsetCommitResponse."""

    __slots__ = ("error_code", "index", "name", "topic_id")

    def __init__(self, name: str, topic_id: bytes, index: int, error_code: int) -> None:
        self.throttle_time_ms = 0
        self.name = name
        self.topic_id = topic_id
        self.index = index
        self.error_code = error_code

    @property
    def topics(self) -> list[OffsetCommitResponseTopic]:  # type: ignore[override]  # made when it is asked for
        """The partition where it stands in a response."""
        told = [OffsetCommitResponsePartition(self.index, self.error_code)]
        return [OffsetCommitResponseTopic(self.name, self.topic_id, told)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetCommitResponse) and _answered(self) == _answered(other)

    __hash__ = None  # type: ignore[assignment]  # as its like


def _answered(response: OffsetCommitResponse) -> tuple[object, ...]:
    return response.throttle_time_ms, response.topics

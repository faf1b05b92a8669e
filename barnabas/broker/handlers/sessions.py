"""Fetch sessions (KIP-227): the broker remembers what a client fetches, so that only changes travel.

    request (id, epoch)   meaning
    (0, 0)                full; open a session: the answer has its id, or 0 when the cache is full
    (x, 0)                close x, then as (0, 0)
    (0, -1), (x, -1)      full, without a session; close x
    (x, n > 0)            incremental: n must be the next epoch (71), x be known (70), ids or names as before (106)

An incremental answer lists the partitions that have records, a changed high watermark or log start, a redirect, a
divergence or an error; an error forgets the high watermark told, so that the partition is told again once it is over.
Partitions that returned records move to the end, for the first ones get the bytes. Source: `FetchSession`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.metrics import Meter, MetricsRegistry
from barnabas.broker.ports import Entropy
from barnabas.broker.replica.types import FetchInfo
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import ZERO_UUID, TopicPartition

if TYPE_CHECKING:  # loaded with the first fetch
    from barnabas.protocol.requests.fetch import (
        FetchPartition,
        FetchRequest,
        FetchTopic,
        ForgottenTopic,
        PartitionData,
    )

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
NO_SESSION: Final = 0
EVICTION_MS: Final = 120_000
FIRST_VERSION_WITH_IDS: Final = 13
PARTITIONS_MAX: Final = 1_000_000
"""Partitions all sessions may remember together. Kafka has no bound; names that nobody knows count, too."""

Key = tuple[str | bytes, int]


class Asked:
    """One partition a client fetches, and what it was last told of it (-1: nothing)."""

    __slots__ = ("high_watermark", "info", "key", "log_start_offset", "partition", "topic", "topic_id")

    def __init__(self, topic: FetchTopic, part: FetchPartition) -> None:
        self.topic = topic.topic
        self.topic_id = topic.topic_id
        self.partition = part.partition
        self.key: TopicPartition | None = (
            None if topic.topic_id != ZERO_UUID else TopicPartition(topic.topic, part.partition)
        )
        """The partition by name; None while a topic id is not resolved."""
        self.high_watermark = -1
        self.log_start_offset = -1
        self.update(part)

    def update(self, part: FetchPartition) -> None:
        """Take over what the client asks now."""
        self.info = FetchInfo(
            self.topic_id,
            part.fetch_offset,
            part.log_start_offset,
            part.partition_max_bytes,
            part.current_leader_epoch,
            part.last_fetched_epoch,
        )

    def told(self, data: PartitionData) -> bool:
        """Remember what the answer says; whether an incremental answer must list it."""
        must = bool(data.records) or data.preferred_read_replica != -1 or data.diverging_epoch is not None
        if self.high_watermark != data.high_watermark:
            self.high_watermark = data.high_watermark
            must = True
        if self.log_start_offset != data.log_start_offset:
            self.log_start_offset = data.log_start_offset
            must = True
        if data.error_code:
            self.high_watermark = -1
            must = True
        return must


class Session:
    """What one client fetches, in the order it is served."""

    __slots__ = ("asked", "created_ms", "epoch", "id", "privileged", "used_ms", "uses_ids")

    def __init__(self, session_id: int, asked: dict[Key, Asked], privileged: bool, uses_ids: bool, now_ms: int) -> None:
        self.id = session_id
        self.asked = asked
        self.privileged = privileged
        self.uses_ids = uses_ids
        self.epoch = 1
        self.created_ms = self.used_ms = now_ms


class Fetching:
    """How one request is served: what it asks, and what becomes of the answer."""

    __slots__ = ("asked", "epoch", "error", "opens", "session", "session_id")

    def __init__(
        self, asked: dict[Key, Asked], error: int = 0, opens: bool = False, session: Session | None = None
    ) -> None:
        self.asked = asked
        self.error = error
        self.opens = opens
        self.session = session
        self.epoch = 0 if session is None else session.epoch
        self.session_id = NO_SESSION if session is None else session.id


class FetchSessions:
    """All sessions of one broker, at most `slots_max`."""

    def __init__(self, slots_max: int, entropy: Entropy, registry: MetricsRegistry) -> None:
        self.slots_max = slots_max
        self.sessions: dict[int, Session] = {}
        self._entropy = entropy
        self._evictions: Meter = registry.meter("FetchSessionCache", "IncrementalFetchSessionEvictionsPerSec")
        registry.gauge("FetchSessionCache", "NumIncrementalFetchSessions", None, lambda: len(self.sessions))
        registry.gauge(
            "FetchSessionCache",
            "NumIncrementalFetchPartitionsCached",
            None,
            lambda: sum(len(session.asked) for session in self.sessions.values()),
        )

    def begin(self, request: FetchRequest, api_version: int, now_ms: int) -> Fetching:
        """Find out what a request asks."""
        uses_ids = api_version >= FIRST_VERSION_WITH_IDS
        session_id, epoch = request.session_id, request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != NO_SESSION:
                self.sessions.pop(session_id, None)
            asked: dict[Key, Asked] = {}
            _merge(asked, request.topics, uses_ids)
            return Fetching(asked, opens=epoch == INITIAL_EPOCH)
        session = self.sessions.get(session_id)
        if session is None:
            return Fetching({}, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return Fetching({}, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_ids != uses_ids:
            return Fetching({}, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        before = len(session.asked)
        _merge(session.asked, request.topics, uses_ids)
        _forget(session.asked, request.forgotten_topics_data, uses_ids)
        if len(session.asked) > before and not self._room_for(0):
            del self.sessions[session_id]  # the client asks for all once more, and gets no session for it
            return Fetching({}, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if not session.asked:
            del self.sessions[session_id]
            return Fetching({})
        session.epoch = session.epoch % (2**31 - 1) + 1
        session.used_ms = now_ms
        return Fetching(session.asked, session=session)

    def finish(
        self,
        fetching: Fetching,
        answers: list[tuple[Asked, PartitionData]],
        *,
        privileged: bool,
        uses_ids: bool,
        now_ms: int,
    ) -> list[tuple[Asked, PartitionData]] | None:
        """What of the answers is to be sent (`fetching.session_id` with it); None: the session went on without it."""
        session = fetching.session
        if session is None:
            size = len(fetching.asked)
            if fetching.opens and self._room_for(size) and self._make_room(size, privileged, now_ms):
                session_id = self._fresh_id()
                self.sessions[session_id] = Session(session_id, fetching.asked, privileged, uses_ids, now_ms)
                fetching.session_id = session_id
                for asked, data in answers:
                    asked.told(data)
            return answers
        if session.epoch != fetching.epoch:
            return None
        listed = []
        for asked, data in answers:
            if asked.told(data):
                listed.append((asked, data))
                if data.records:
                    key = (asked.topic_id if uses_ids else asked.topic, asked.partition)
                    if session.asked.pop(key, None) is not None:
                        session.asked[key] = asked
        return listed

    def snapshot(self, now_ms: int) -> list[dict[str, Any]]:
        """All sessions as plain values."""
        return [
            {
                "id": session.id,
                "epoch": session.epoch,
                "partitions": len(session.asked),
                "follower": session.privileged,
                "age_ms": now_ms - session.created_ms,
                "idle_ms": now_ms - session.used_ms,
            }
            for session in self.sessions.values()
        ]

    def _room_for(self, size: int) -> bool:
        """Whether so many partitions more can be remembered."""
        return size + sum(len(session.asked) for session in self.sessions.values()) <= PARTITIONS_MAX

    def _make_room(self, size: int, privileged: bool, now_ms: int) -> bool:
        """Whether a session may be opened, for which one that is long unused, or of less worth, may have to go."""
        if len(self.sessions) < self.slots_max:
            return True
        if not self.sessions:
            return False
        oldest = min(self.sessions.values(), key=lambda session: session.used_ms)
        if now_ms - oldest.used_ms <= EVICTION_MS:
            oldest = min(self.sessions.values(), key=lambda one: (one.privileged, len(one.asked), one.used_ms))
            settled = now_ms - oldest.created_ms > EVICTION_MS
            if not (settled and (oldest.privileged, len(oldest.asked)) < (privileged, size)):
                return False
        del self.sessions[oldest.id]
        self._evictions.mark()
        return True

    def _fresh_id(self) -> int:
        while True:
            session_id = self._entropy.below(2**31 - 1) + 1
            if session_id not in self.sessions:
                return session_id


def _merge(asked: dict[Key, Asked], topics: Iterable[FetchTopic], uses_ids: bool) -> None:
    for topic in topics:
        name: str | bytes = topic.topic_id if uses_ids else topic.topic
        for part in topic.partitions:
            known = asked.get((name, part.partition))
            if known is None:
                asked[name, part.partition] = Asked(topic, part)
            else:
                known.update(part)


def _forget(asked: dict[Key, Asked], topics: Iterable[ForgottenTopic], uses_ids: bool) -> None:
    for topic in topics:
        name: str | bytes = topic.topic_id if uses_ids else topic.topic
        for partition in topic.partitions:
            asked.pop((name, partition), None)

"""Fetch sessions (KIP-227): the broker remembers what a client fetches, so that only changes travel.

    request (id, epoch)   meaning
    (0, 0)                full; open a session: the answer has its id, or 0 when the cache is full
    (x, 0)                close x, then as (0, 0)
    (0, -1), (x, -1)      full, without a session; close x
    (x, n > 0)            incremental: n must be the next epoch (71), x be known (70), ids or names as before (106)

An incremental answer lists the partitions that have records, a changed high watermark or log start, a redirect, a
divergence or an error; an error forgets the high watermark told, so that the partition is told again once it is over.
A session belongs to the connection that used it last, and ends with it; Kafka keeps it until it is evicted, and a
client that comes back finds it. Here such a client has error 70, and asks for all once more. One connection, client or
address is given so many sessions and no more (see `_may_have`); who asks for more is served without one, and so is who
asks for many partitions that nobody knows.

Partitions that returned records move to the end, for the first ones get the bytes. Source: `FetchSession`.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.account import KEPT, Account, text_bytes
from barnabas.broker.context import RequestContext, source_of
from barnabas.broker.handlers.asked import UNKNOWN_MAX, Asked, Key, forget, in_steps, merge
from barnabas.broker.jobs import Job
from barnabas.broker.metrics import Meter, MetricsRegistry
from barnabas.broker.ports import Entropy
from barnabas.protocol.errors import ErrorCode

if TYPE_CHECKING:  # loaded with the first fetch
    from barnabas.protocol.requests.fetch import FetchRequest, PartitionData

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
NO_SESSION: Final = 0
EVICTION_MS: Final = 120_000
FIRST_VERSION_WITH_IDS: Final = 13
PARTITIONS_MAX: Final = 200_000
"""Partitions all sessions may remember together, some 600 bytes each. Kafka has no bound."""
PARTITION_BYTES: Final = 600
"""What a session keeps of one partition, as it is charged."""
PER_CONNECTION_MAX: Final = 10
"""Sessions of one connection; a consumer needs one."""

Holder = tuple[str, str | None]
"""Address and client id."""


class Session:
    """What one client fetches, in the order it is served."""

    __slots__ = (
        "asked",
        "charged_bytes",
        "connection_id",
        "created_ms",
        "epoch",
        "holder",
        "id",
        "privileged",
        "unknown",
        "used_ms",
        "uses_ids",
    )

    def __init__(
        self,
        session_id: int,
        asked: dict[Key, Asked],
        context: RequestContext,
        privileged: bool,
        uses_ids: bool,
        unknown: int,
        now_ms: int,
    ) -> None:
        self.connection_id = context.connection.id
        self.holder: Holder = (source_of(context.connection.client_host), context.client_id)
        self.unknown = unknown
        self.charged_bytes = 0
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

    def __init__(
        self, slots_max: int, entropy: Entropy, registry: MetricsRegistry, account: Account | None = None
    ) -> None:
        self._account = account if account is not None else Account()
        self.slots_max = slots_max
        self.sessions: dict[int, Session] = {}
        self._by_connection: Counter[int] = Counter()
        self._by_holder: Counter[Holder] = Counter()
        self._by_address: Counter[str] = Counter()
        self._entropy = entropy
        self._evictions: Meter = registry.meter("FetchSessionCache", "IncrementalFetchSessionEvictionsPerSec")
        registry.gauge("FetchSessionCache", "NumIncrementalFetchSessions", None, lambda: len(self.sessions))
        registry.gauge(
            "FetchSessionCache",
            "NumIncrementalFetchPartitionsCached",
            None,
            lambda: sum(len(session.asked) for session in self.sessions.values()),
        )

    def size(self, request: FetchRequest) -> int:
        """How many partitions a request is about at most: those it names, and those of its session."""
        size = 0
        for topic in request.topics:
            size += len(topic.partitions)
        for forgotten in request.forgotten_topics_data:
            size += len(forgotten.partitions)
        session = self.sessions.get(request.session_id) if request.session_epoch > INITIAL_EPOCH else None
        return size if session is None else size + len(session.asked)

    def begin(self, request: FetchRequest, api_version: int, context: RequestContext, now_ms: int) -> Fetching:
        """Find out what a request asks."""
        uses_ids = api_version >= FIRST_VERSION_WITH_IDS
        fetching = self._find(request, uses_ids, context, now_ms)
        if not fetching.error:
            before = len(fetching.asked)
            for topic in request.topics:
                merge(fetching.asked, topic, topic.partitions, uses_ids)
            if fetching.session is not None:
                for forgotten in request.forgotten_topics_data:
                    forget(fetching.asked, forgotten, forgotten.partitions, uses_ids)
                return self._changed(fetching, fetching.session, before)
        return fetching

    def begin_in_steps(
        self, request: FetchRequest, api_version: int, context: RequestContext, now_ms: int
    ) -> Job[Fetching]:
        """As `begin`, of many partitions. From the first step on the session is this request's."""
        uses_ids = api_version >= FIRST_VERSION_WITH_IDS
        fetching = self._find(request, uses_ids, context, now_ms)
        if fetching.error:
            return fetching
        before = len(fetching.asked)
        for _ in in_steps(request.topics, lambda topic, some: merge(fetching.asked, topic, some, uses_ids)):
            yield None
        if fetching.session is None:
            return fetching
        gone = request.forgotten_topics_data
        for _ in in_steps(gone, lambda topic, some: forget(fetching.asked, topic, some, uses_ids)):
            yield None
        if self.sessions.get(fetching.session_id) is not fetching.session:
            return Fetching({}, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return self._changed(fetching, fetching.session, before)

    def _find(self, request: FetchRequest, uses_ids: bool, context: RequestContext, now_ms: int) -> Fetching:
        """What a request begins with: nothing, its session, or an error."""
        session_id, epoch = request.session_id, request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != NO_SESSION:
                self._drop(session_id)
            return Fetching({}, opens=epoch == INITIAL_EPOCH)
        session = self.sessions.get(session_id)
        if session is None:
            return Fetching({}, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return Fetching({}, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_ids != uses_ids:
            return Fetching({}, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if session.connection_id != context.connection.id:
            self._count(session, -1)
            session.connection_id = context.connection.id
            session.holder = (source_of(context.connection.client_host), context.client_id)
            self._count(session, 1)
        session.epoch = session.epoch % (2**31 - 1) + 1
        session.used_ms = now_ms
        return Fetching(session.asked, session=session)

    def _changed(self, fetching: Fetching, session: Session, before: int) -> Fetching:
        """The partitions of a session, of which there were so many `before`, are what its request made of them."""
        if len(session.asked) > before and not self._room_for(0):
            self._drop(session.id)  # the client asks for all once more, and gets no session for it
            return Fetching({}, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if not session.asked:
            self._drop(session.id)
            return Fetching({})
        if len(session.asked) != before:
            self._charge(session)
        return fetching

    def finish(
        self,
        fetching: Fetching,
        answers: list[tuple[Asked, PartitionData]],
        context: RequestContext,
        *,
        privileged: bool,
        unknown: int,
        uses_ids: bool,
        now_ms: int,
    ) -> list[tuple[Asked, PartitionData]] | None:
        """What of the answers is to be sent (`fetching.session_id` with it); None: the session went on without it.

        `unknown` is the weight of the partitions asked for that nobody knows.
        """
        session = fetching.session
        if session is None:
            size = len(fetching.asked)
            wanted = fetching.opens and self._room_for(size) and self._may_have(context, unknown)
            if wanted and self._make_room(size, privileged, now_ms):
                session_id = self._fresh_id()
                session = Session(session_id, fetching.asked, context, privileged, uses_ids, unknown, now_ms)
                self.sessions[session_id] = session
                self._count(session, 1)
                fetching.session_id = session_id
                for asked, data in answers:
                    asked.told(data)
            return answers
        if session.epoch != fetching.epoch:
            return None
        session.unknown = unknown
        if unknown and self._unknown() > UNKNOWN_MAX:
            self._drop(session.id)
            fetching.session_id = NO_SESSION
        listed = []
        for asked, data in answers:
            if asked.told(data):
                listed.append((asked, data))
                if data.records:
                    key = (asked.topic_id if uses_ids else asked.topic, asked.partition)
                    if session.asked.pop(key, None) is not None:
                        session.asked[key] = asked
        return listed

    def disconnected(self, connection_id: int) -> None:
        """A connection is gone, and its sessions with it."""
        if self._by_connection.get(connection_id):
            for session in [one for one in self.sessions.values() if one.connection_id == connection_id]:
                self._drop(session.id)

    def snapshot(self, now_ms: int, first: int = 0, end: int | None = None) -> list[dict[str, Any]]:
        """The sessions from `first` to before `end` as plain values."""
        return [
            {
                "id": session.id,
                "epoch": session.epoch,
                "partitions": len(session.asked),
                "follower": session.privileged,
                "age_ms": now_ms - session.created_ms,
                "idle_ms": now_ms - session.used_ms,
            }
            for session in islice(self.sessions.values(), first, end)
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
        self._drop(oldest.id)
        self._evictions.mark()
        return True

    def _may_have(self, context: RequestContext, unknown: int) -> bool:
        """Whether who asks may have one session more: nobody is to take the places of all others."""
        if not context.connection.open:
            return False
        address = source_of(context.connection.client_host)
        half, most = max(self.slots_max // 2, 1), max(self.slots_max * 9 // 10, 1)
        return (
            self._by_connection[context.connection.id] < PER_CONNECTION_MAX
            and self._by_holder[address, context.client_id] < half
            and self._by_address[address] < most
            and (not unknown or self._unknown() + unknown <= UNKNOWN_MAX)
        )

    def _unknown(self) -> int:
        return sum(session.unknown for session in self.sessions.values())

    def _drop(self, session_id: int) -> None:
        session = self.sessions.pop(session_id, None)
        if session is not None:
            self._count(session, -1)

    def _charge(self, session: Session) -> None:
        name_bytes = max(text_bytes(session.holder[1] or "") - PARTITION_BYTES, 0)
        size = (1 + len(session.asked)) * PARTITION_BYTES + name_bytes
        session.charged_bytes = self._account.change(session.connection_id, KEPT, session.charged_bytes, size)

    def _count(self, session: Session, change: int) -> None:
        """One session more or less of its connection, client and address."""
        if change > 0:
            self._charge(session)
        else:
            session.charged_bytes = self._account.change(session.connection_id, KEPT, session.charged_bytes, 0)
        for counter, key in (
            (self._by_connection, session.connection_id),
            (self._by_holder, session.holder),
            (self._by_address, session.holder[0]),
        ):
            counter[key] += change  # type: ignore[index]
            if not counter[key]:  # type: ignore[index]
                del counter[key]

    def _fresh_id(self) -> int:
        while True:
            session_id = self._entropy.below(2**31 - 1) + 1
            if session_id not in self.sessions:
                return session_id

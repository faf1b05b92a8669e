"""The active controller's side of its log's way to the other controllers: records that are not committed yet, too.

Who has all there is, and has heard what is committed, waits for news, as an observer does (`feed`). One answer waits
for each voter at most: a later question ends an earlier one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from barnabas.broker.cluster.metadata_log import TOPIC_ID
from barnabas.broker.cluster.quorum_log import Later, QuorumLog
from barnabas.broker.delayed import CallbackTask, Timer
from barnabas.broker.log import Isolation
from barnabas.broker.ports import NotYet, Token
from barnabas.broker.raft.raft import Raft
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.requests.fetch import FetchableTopicResponse, FetchPartition, FetchResponse, PartitionData

WAIT_MS_MAX: Final = 30_000
BYTES_MAX: Final = 8 * 1024 * 1024

Respond = Callable[[FetchResponse], None]


class _Waiting:
    """One voter that is to be answered."""

    __slots__ = ("asked", "replica", "respond", "task", "token")

    def __init__(self, replica: int, asked: FetchPartition, respond: Respond) -> None:
        self.replica = replica
        self.asked = asked
        self.respond = respond
        self.task: CallbackTask | None = None
        self.token: list[Token] = []


class VoterFeed:
    """Serves voters that fetch."""

    def __init__(self, raft: Raft, log: QuorumLog, timer: Timer, later: Later) -> None:
        self._raft = raft
        self._log = log
        self._timer = timer
        self._later = later
        self._leader = -1, -1
        self._waiting: dict[int, _Waiting] = {}
        self._told: dict[int, int] = {}
        """What each was told is committed."""

    def fetch(self, replica: int, asked: FetchPartition, wait_ms: int, respond: Respond, now_ms: int) -> None:
        """Answer a voter, now or when there is news. `respond` is called once."""
        data = self._raft.fetch(replica, asked, now_ms)
        one = _Waiting(replica, asked, respond)
        earlier = self._waiting.get(replica)
        if earlier is not None:
            self._answer(earlier)
        if wait_ms > 0 and self._has_all(data, asked) and self._told.get(replica) == self._log.committed:
            self._waiting[replica] = one
            one.task = CallbackTask(lambda _: self._answer(one))
            self._timer.add(one.task, now_ms + min(wait_ms, WAIT_MS_MAX))
        else:
            self._answer(one)

    def led_by(self, leader: int, epoch: int) -> None:
        """Who leads; where that is another one, whoever waits is told."""
        if self._leader != (leader, epoch):
            self._leader = leader, epoch
            self.news()

    def news(self) -> None:
        """Something was appended, or committed: who waits is answered."""
        for one in tuple(self._waiting.values()):
            self._answer(one)

    def _has_all(self, data: PartitionData, asked: FetchPartition) -> bool:
        parts = data.error_code or data.diverging_epoch is not None or data.snapshot_id is not None
        return not parts and asked.fetch_offset == self._log.end.end

    def _answer(self, one: _Waiting) -> None:
        if one.task is not None:
            self._timer.cancel(one.task)
            one.task = None
        if self._waiting.get(one.replica) is one:
            del self._waiting[one.replica]
        asked = one.asked
        data = self._raft.judged(one.replica, asked)
        if not data.error_code and data.diverging_epoch is None and data.snapshot_id is None:
            try:
                size = max(1, min(asked.partition_max_bytes, BYTES_MAX))
                data.records = self._log.log.read(asked.fetch_offset, size, Isolation.LOG_END).records
            except NotYet as pending:
                one.token.append(pending.token)
                pending.token.on_ready(lambda: self._later(lambda _: self._answer(one)))
                return
            except KafkaError as error:
                data.error_code = error.code
            self._told[one.replica] = data.high_watermark
        one.respond(FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])]))

"""All partitions that follow one broker: one request at a time, as a consumer has it. Source: `ReplicaFetcherThread`.

    wake ... end of the step: look what each partition wants -> ListOffsets, else Fetch -> the answer -> look again

Who was given records goes to the end of the line, so that an answer that is full leaves nobody out. While one of them
waits for its sync, or writes a large batch, the request waits, too, as it does in Kafka, where both are a part of the
append: so one large batch is here at a time.

There are no fetch sessions yet: every request names all partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from barnabas.broker.delayed import CallbackTask
from barnabas.broker.metrics import Meter
from barnabas.broker.ports import Peers
from barnabas.broker.replica.follower import BACKOFF_MS, Follower, Stage, name_of
from barnabas.broker.replica.shared import Shared
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.fetch import FetchRequest, FetchResponse, FetchTopic, ReplicaState
from barnabas.protocol.requests.list_offsets import ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic

WAIT_MS_MAX: Final = 500
"""How long the leader may wait for records. Kafka's default of `replica.fetch.wait.max.ms`."""
BYTES_MIN: Final = 1
"""For how many it waits. Kafka's default of `replica.fetch.min.bytes`."""
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of all partitions in an answer, which is taken in one step, at 1.3 ms a MiB. Kafka asks for 10 MiB by default."""

_ASKING: Final = (Stage.ASKING_END, Stage.ASKING_START)

logger = logging.getLogger(__name__)


class Fetcher:
    """Those that follow `leader_id`."""

    __slots__ = (
        "_in_flight",
        "_not_before_ms",
        "_peers",
        "_shared",
        "_silent",
        "_task",
        "_woken",
        "followers",
        "leader_id",
        "requests",
    )

    def __init__(self, leader_id: int, shared: Shared, peers: Peers) -> None:
        self.leader_id = leader_id
        self.followers: dict[TopicPartition, Follower] = {}
        self.requests = Meter()
        self._shared = shared
        self._peers = peers
        self._in_flight = False
        self._woken = False
        self._silent = False
        self._not_before_ms = 0
        self._task = CallbackTask(lambda _: self.wake())

    def wake(self) -> None:
        """Look at the end of this step, or of the next, what is to be asked for."""
        if not self._woken:
            self._woken = True
            self._shared.actions.add(self._look)

    def _look(self, now_ms: int) -> None:
        self._woken = False
        if self._in_flight:
            return
        if now_ms < self._not_before_ms:
            self._shared.timer.add(self._task, self._not_before_ms)
            return
        busy = [one for one in self.followers.values() if one.is_busy()]  # all are asked: each sync is to begin
        if busy:
            return
        asking: list[Follower] = []
        fetching: list[Follower] = []
        later_ms: int | None = None
        throttle = self._shared.follower_throttle
        over = throttle.exceeded(now_ms)
        for one in self.followers.values():
            if one.stage in _ASKING or one.stage is Stage.FETCHING:
                if over and one.lag != 0 and throttle.holds_for(one.partition.topic_partition):
                    one.not_before_ms = max(one.not_before_ms, throttle.again_ms(now_ms))
                if now_ms >= one.not_before_ms:
                    (fetching if one.stage is Stage.FETCHING else asking).append(one)
                elif later_ms is None or one.not_before_ms < later_ms:
                    later_ms = one.not_before_ms
        if later_ms is not None:
            self._shared.timer.add(self._task, later_ms)
        if asking:
            stage = asking[0].stage
            self._ask_offsets([one for one in asking if one.stage is stage])
        elif fetching:
            self._fetch(fetching)

    def _fetch(self, followers: Iterable[Follower]) -> None:
        me = self._shared.broker_id
        topics: list[FetchTopic] = []
        asked: dict[tuple[bytes, int], tuple[Follower, int]] = {}
        for one in followers:
            wanted = one.asks()
            topic_id = one.partition.topic_id
            if not topics or topics[-1].topic_id != topic_id:
                topics.append(FetchTopic(one.partition.topic_partition.topic, topic_id))
            topics[-1].partitions.append(wanted)
            asked[topic_id, wanted.partition] = one, wanted.fetch_offset
        request = FetchRequest(
            replica_state=ReplicaState(me, self._shared.cluster.broker_epoch(me)),
            max_wait_ms=WAIT_MS_MAX,
            min_bytes=BYTES_MIN,
            max_bytes=ANSWER_BYTES_MAX,
            topics=topics,
        )
        self._send(request, partial(self._fetched, asked))

    def _fetched(
        self, asked: dict[tuple[bytes, int], tuple[Follower, int]], response: FetchResponse, now_ms: int
    ) -> None:
        if response.error_code:
            self._stand_back(f"broker {self.leader_id} refuses to be followed: {name_of(response.error_code)}", now_ms)
            return
        self._heard()
        throttle = self._shared.follower_throttle
        for topic in response.responses:
            for data in topic.partitions:
                one, offset = asked.pop((topic.topic_id, data.partition_index), (None, -1))
                if one is None or one.stage is not Stage.FETCHING:
                    continue
                log = one.partition.log
                assert log.log_end_offset == offset, "nobody else appends to a log that follows"
                held = one.lag != 0
                if one.take(data, now_ms):
                    key = one.partition.topic_partition
                    size = sum(map(len, _runs(data.records)))
                    if held and throttle.on and throttle.holds_for(key):
                        throttle.passed(size, now_ms)
                    stats = self._shared.stats.all
                    stats.replication_bytes_in.count += size
                    if self._shared.broker_id in one.partition.adding:
                        stats.reassignment_bytes_in.count += size
                    self.followers[key] = self.followers.pop(key)
        self._missed((one for one, _ in asked.values()), now_ms)

    def _ask_offsets(self, followers: Iterable[Follower]) -> None:
        topics: dict[str, ListOffsetsTopic] = {}
        asked: dict[TopicPartition, Follower] = {}
        for one in followers:
            key = one.partition.topic_partition
            topics.setdefault(key.topic, ListOffsetsTopic(key.topic)).partitions.append(one.asks_offset())
            asked[key] = one
        request = ListOffsetsRequest(self._shared.broker_id, topics=list(topics.values()))
        self._send(request, partial(self._told_offsets, asked))

    def _told_offsets(self, asked: dict[TopicPartition, Follower], response: ListOffsetsResponse, now_ms: int) -> None:
        self._heard()
        for topic in response.topics:
            for data in topic.partitions:
                one = asked.pop(TopicPartition(topic.name, data.partition_index), None)
                if one is not None and one.stage in _ASKING:
                    one.take_offset(data, now_ms)
        self._missed(asked.values(), now_ms)

    def _missed(self, followers: Iterable[Follower], now_ms: int) -> None:
        """These were asked for and not answered."""
        for one in followers:
            if one.stage is not Stage.OVER:
                one.back_off("its leader's answer leaves it out", now_ms)

    def _send(self, request: Any, then: Callable[[Any, int], None]) -> None:
        self._in_flight = True
        self.requests.mark()
        actions = self._shared.actions
        self._peers.send(self.leader_id, request, lambda answer: actions.add(partial(self._answered, then, answer)))

    def _answered(self, then: Callable[[Any, int], None], response: Any | None, now_ms: int) -> None:
        self._in_flight = False
        if response is None:
            self._stand_back(f"broker {self.leader_id} does not answer", now_ms)
        else:
            try:
                then(response, now_ms)
            except Exception:  # whatever one answer holds, the next is asked for
                logger.exception("an answer of broker %d cannot be taken", self.leader_id)
                self._not_before_ms = now_ms + BACKOFF_MS
        self._look(now_ms)

    def _heard(self) -> None:
        if self._silent:
            self._silent = False
            logger.info("broker %d answers again", self.leader_id)

    def _stand_back(self, reason: str, now_ms: int) -> None:
        self._not_before_ms = now_ms + BACKOFF_MS
        if not self._silent and self.followers:
            level = logging.WARNING if self._shared.cluster.is_alive(self.leader_id) else logging.INFO
            logger.log(level, "%s; it is asked again every %d ms", reason, BACKOFF_MS)
            self._silent = True


def _runs(records: Any) -> Iterable[Any]:
    return records if isinstance(records, list) else () if records is None else (records,)

"""All partitions that follow one broker: one request at a time, as a consumer has it. Source: `ReplicaFetcherThread`.

    wake ... end of the step: look what each partition wants -> ListOffsets, else Fetch -> the answer -> look again

Who was given records goes to the end of the line, so that an answer that is full leaves nobody out. While one of them
waits for its sync, or writes a large batch, the request waits, too, as it does in Kafka, where both are a part of the
append: so one large batch is here at a time.

There are no fetch sessions yet: every request names all partitions, or as many as a leader decodes. Where there are
more, those that were named go to the end of the line, and the wait is short. Very many are looked at in slices.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from barnabas.broker.delayed import CallbackTask
from barnabas.broker.jobs import Job, at_once
from barnabas.broker.metrics import Meter
from barnabas.broker.ports import Peers
from barnabas.broker.replica.follower import BACKOFF_MS, Follower, Stage
from barnabas.broker.replica.shared import Shared
from barnabas.protocol.errors import error_name
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.fetch import FetchRequest, FetchResponse, FetchTopic, PartitionData, ReplicaState
from barnabas.protocol.requests.list_offsets import ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopic

BYTES_MIN: Final = 1
"""For how many it waits. Kafka's default of `replica.fetch.min.bytes`."""
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of all partitions in an answer, which is taken in one step, at 1.3 ms a MiB. Kafka asks for 10 MiB by default."""

SLICE: Final = 1000
"""So many followers are looked at in one step, or told: 2 to 5 ms. Fewer would wait more often behind others' jobs.
Up to so many are told, looked at and asked for again in one step: 13 ms."""
ELEMENTS_MAX: Final = 19_000
"""Partitions and topics that one request names: a little below what a leader decodes (`REQUEST_ELEMENTS_MAX`)."""
TURN_WAIT_MS_MAX: Final = 100
"""So long, and no longer, the leader may wait while others wait to be named; else `replica.fetch.wait.max.ms`."""

_ASKING: Final = (Stage.ASKING_END, Stage.ASKING_START)

logger = logging.getLogger(__name__)


class Fetcher:
    """Those that follow `leader_id`."""

    __slots__ = (
        "_in_flight",
        "_missed",
        "_not_before_ms",
        "_peers",
        "_sent",
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
        """From the first look to the end of what is answered."""
        self._sent = False
        self._missed = False
        """Somebody woke it meanwhile."""
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
            self._missed = True
            return
        if now_ms < self._not_before_ms:
            self._shared.timer.add(self._task, self._not_before_ms)
            return
        self._in_flight = True
        self._sent = self._missed = False
        self._run(self._ask(now_ms), len(self.followers), partial(self._asked, now_ms))

    def _run(self, steps: Job[None], count: int, ended: Callable[[Exception | None], None]) -> None:
        """Take all steps of something at once, for few followers; for many among the broker's jobs."""
        if count > SLICE:
            self._shared.run(steps, ended)
            return
        fault = None
        try:
            at_once(steps)
        except Exception as error:
            fault = error
        ended(fault)

    def _ask(self, now_ms: int) -> Job[None]:
        """Ask for what all want that are there now, unless one of them is busy."""
        busy = False
        asking: list[Follower] = []
        round_ = _Round()
        later_ms: int | None = None
        throttle = self._shared.follower_throttle
        over = throttle.exceeded(now_ms)
        for number, one in enumerate(list(self.followers.values()), 1):
            busy |= one.is_busy()  # all are asked: each sync is to begin
            fetches = one.stage is Stage.FETCHING
            if fetches or one.stage in _ASKING:
                if over and one.lag != 0 and throttle.holds_for(one.partition.topic_partition):
                    one.not_before_ms = max(one.not_before_ms, throttle.again_ms(now_ms))
                if now_ms < one.not_before_ms:
                    later_ms = one.not_before_ms if later_ms is None else min(later_ms, one.not_before_ms)
                elif not fetches:
                    asking.append(one)
                elif not busy:
                    round_.add(one)
            if number % SLICE == 0:
                yield None
        if busy:
            return
        if later_ms is not None:
            self._shared.timer.add(self._task, later_ms)
        if asking:
            stage = asking[0].stage
            self._ask_offsets([one for one in asking if one.stage is stage][: ELEMENTS_MAX // 2])
        elif round_.asked:
            self._fetch(round_)

    def _fetch(self, round_: _Round) -> None:
        me = self._shared.broker_id
        if round_.is_full:
            for one, _ in round_.asked.values():
                self._to_the_end(one)
        wait_ms = self._shared.config.replica_fetch_wait_max_ms
        request = FetchRequest(
            replica_state=ReplicaState(me, self._shared.broker_epoch()),
            max_wait_ms=min(wait_ms, TURN_WAIT_MS_MAX) if round_.is_full else wait_ms,
            min_bytes=BYTES_MIN,
            max_bytes=ANSWER_BYTES_MAX,
            topics=round_.topics,
        )
        self._send(request, partial(self._fetched, round_.asked), len(round_.asked))

    def _asked(self, began_ms: int, fault: Exception | None) -> None:
        """What there is to ask for was looked at, and is on its way if there was any."""
        if self._sent:
            return
        self._in_flight = False
        if fault is not None:
            logger.error("broker %d cannot be asked", self.leader_id, exc_info=fault)
            self._not_before_ms = began_ms + BACKOFF_MS
        if fault is not None or self._missed:
            self.wake()

    def _to_the_end(self, one: Follower) -> None:
        key = one.partition.topic_partition
        if self.followers.get(key) is one:
            self.followers[key] = self.followers.pop(key)

    def _fetched(
        self, asked: dict[tuple[bytes, int], tuple[Follower, int]], response: FetchResponse, now_ms: int
    ) -> Job[None]:
        if response.error_code:
            self._stand_back(
                f"broker {self.leader_id} refuses to be followed: {error_name(response.error_code)}", now_ms
            )
            return
        self._heard()
        left = SLICE
        for topic in response.responses:
            for data in topic.partitions:
                one, offset = asked.pop((topic.topic_id, data.partition_index), (None, -1))
                if one is not None and one.stage is Stage.FETCHING:
                    assert one.partition.log.log_end_offset == offset, "nobody else appends to a log that follows"
                    self._take(one, data, now_ms)
                left -= 1
                if not left:
                    left = SLICE
                    yield None
        self._left_out((one for one, _ in asked.values()), now_ms)

    def _take(self, one: Follower, data: PartitionData, now_ms: int) -> None:
        held = one.lag != 0
        if not one.take(data, now_ms):
            return
        throttle = self._shared.follower_throttle
        size = sum(map(len, _runs(data.records)))
        if held and throttle.on and throttle.holds_for(one.partition.topic_partition):
            throttle.passed(size, now_ms)
        stats = self._shared.stats.all
        stats.replication_bytes_in.count += size
        if self._shared.broker_id in one.partition.adding:
            stats.reassignment_bytes_in.count += size
        self._to_the_end(one)

    def _ask_offsets(self, followers: Iterable[Follower]) -> None:
        topics: dict[str, ListOffsetsTopic] = {}
        asked: dict[TopicPartition, Follower] = {}
        for one in followers:
            key = one.partition.topic_partition
            topics.setdefault(key.topic, ListOffsetsTopic(key.topic)).partitions.append(one.asks_offset())
            asked[key] = one
        request = ListOffsetsRequest(self._shared.broker_id, topics=list(topics.values()))
        self._send(request, partial(self._told_offsets, asked), len(asked))

    def _told_offsets(
        self, asked: dict[TopicPartition, Follower], response: ListOffsetsResponse, now_ms: int
    ) -> Job[None]:
        self._heard()
        left = SLICE
        for topic in response.topics:
            for data in topic.partitions:
                one = asked.pop(TopicPartition(topic.name, data.partition_index), None)
                if one is not None and one.stage in _ASKING:
                    one.take_offset(data, now_ms)
                left -= 1
                if not left:
                    left = SLICE
                    yield None
        self._left_out(asked.values(), now_ms)

    def _left_out(self, followers: Iterable[Follower], now_ms: int) -> None:
        """These were asked for and not answered."""
        for one in followers:
            if one.stage is not Stage.OVER:
                one.back_off("its leader's answer leaves it out", now_ms)

    def _send(self, request: Any, then: Callable[[Any, int], Job[None]], count: int) -> None:
        self._sent = True
        self.requests.mark()
        actions = self._shared.actions
        self._peers.send(
            self.leader_id, request, lambda answer: actions.add(partial(self._answered, then, count, answer))
        )

    def _answered(self, then: Callable[[Any, int], Job[None]], count: int, response: Any | None, now_ms: int) -> None:
        if response is None:
            self._stand_back(f"broker {self.leader_id} does not answer", now_ms)
            self._in_flight = False
            self._look(now_ms)
        else:
            self._run(then(response, now_ms), count, partial(self._taken, now_ms))

    def _taken(self, began_ms: int, fault: Exception | None) -> None:
        if fault is not None:  # whatever one answer holds, the next is asked for
            logger.error("an answer of broker %d cannot be taken", self.leader_id, exc_info=fault)
            self._not_before_ms = began_ms + BACKOFF_MS
        self._in_flight = False
        self._look(began_ms)

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


class _Round:
    """What one request names. `asked` has each with the offset that it asked for, by topic id and partition."""

    __slots__ = ("asked", "is_full", "topics")

    def __init__(self) -> None:
        self.topics: list[FetchTopic] = []
        self.asked: dict[tuple[bytes, int], tuple[Follower, int]] = {}
        self.is_full = False
        """Whether there are more than it may name."""

    def add(self, one: Follower) -> None:
        """Name one more, if there is room."""
        topics, topic_id = self.topics, one.partition.topic_id
        if len(self.asked) + len(topics) >= ELEMENTS_MAX:
            self.is_full = True
            return
        wanted = one.asks()
        if not topics or topics[-1].topic_id != topic_id:
            topics.append(FetchTopic(one.partition.topic_partition.topic, topic_id))
        topics[-1].partitions.append(wanted)
        self.asked[topic_id, wanted.partition] = one, wanted.fetch_offset

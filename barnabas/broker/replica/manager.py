"""All partitions of one broker, and the front door for everything that reads or writes them.

Source: `ReplicaManager` of Apache Kafka. The work itself stands in the module named after each request.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.config import BrokerConfig
from barnabas.broker.context import Connection
from barnabas.broker.delayed import CallbackTask
from barnabas.broker.jobs import Job
from barnabas.broker.log import Log, LogManager, lacking
from barnabas.broker.log.producer_owners import Asker
from barnabas.broker.log.types import Isolation
from barnabas.broker.metrics import MetricsRegistry
from barnabas.broker.ports import Controller, Peers, WallClock
from barnabas.broker.replica import (
    damage,
    delete_records,
    fetch,
    gauges,
    list_offsets,
    offset_for_leader_epoch,
    produce,
)
from barnabas.broker.replica.hosted import HostedPartitions
from barnabas.broker.replica.lives import Lives
from barnabas.broker.replica.partition import Partition
from barnabas.broker.replica.shared import Shared, run_to_its_end
from barnabas.broker.replica.types import (
    ClusterView,
    EpochQuery,
    EpochResult,
    FetchParams,
    ListOffsetsQuery,
    PartitionState,
)
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.ids import NO_LEADER, ZERO_UUID, Buffer, TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.replica.following import Following

logger = logging.getLogger(__name__)

SHRUNK_AT_ONCE: Final = 1000
"""Of so many partitions the ISR is looked at in one step: 3 to 5 ms."""
RETRY_MS: Final = 500
"""How soon a log that found no room on the disk is made, once there is some."""


class ReplicaManager:
    """The replica room of one broker.

    Every `respond` is called exactly once, now or later, with a dict in the request's order. After each step (a
    request, completions of the disk) the caller calls `drain`; at `next_deadline_ms`, `tick`. `now_ms` is monotonic.
    """

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        logs: LogManager,
        controller: Controller,
        cluster: ClusterView,
        wall_clock: WallClock,
        registry: MetricsRegistry,
        now_ms: int,
        peers: Peers | None = None,
    ) -> None:
        """`peers`: the way to the brokers that are followed; None for one that stands alone, and follows nobody."""
        self.logs = logs
        self._peers = peers
        self._following: Following | None = None
        self.shared = Shared(broker_id, config, controller, cluster, wall_clock, registry, now_ms)
        self.hosted = HostedPartitions(self.shared)
        self.lives = Lives(self.shared, self.hosted)
        self.actions = self.shared.actions
        self._due = tuple(purgatory.timer.due for purgatory in self.shared.purgatories)
        self.behind = 0
        """Changes of many partitions that are committed, and not yet followed to their end."""
        self._now_ms = now_ms
        self._shrink_task = CallbackTask(self._shrink_isrs)
        self._refused: dict[TopicPartition, PartitionState] = {}
        self._retries = False
        self._host_task = CallbackTask(self._host_refused)
        gauges.register(self, registry)

    def is_coming(self, key: TopicPartition) -> bool:
        """Whether a partition that is this broker's is still to be made: one of many that came at once."""
        return bool(self.behind) and key not in self.hosted.online and key not in self.hosted.offline

    # Life and time

    def start(self, now_ms: int) -> None:
        """Begin the periodic look for lagging members of ISRs."""
        self._plan_shrink(now_ms)

    def tick(self, now_ms: int) -> None:
        """Run periodic tasks, expire parked operations, purge, and drain."""
        self._now_ms = now_ms
        shared = self.shared
        shared.timer.advance(now_ms)
        shared.timer.run_due(now_ms)
        for purgatory in shared.purgatories:
            purgatory.advance(now_ms)
        self.drain(now_ms)

    def drain(self, now_ms: int) -> None:
        """Run the deferred checks, then operations whose time was up at once. The very end of every step."""
        self._now_ms = now_ms
        if self.actions:
            self.actions.drain(now_ms)
        if any(self._due):
            for purgatory in self.shared.purgatories:
                purgatory.run_due(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do; the present when actions were left behind, None for never."""
        shared = self.shared
        if shared.actions:
            return self._now_ms
        earliest = shared.timer.next_deadline_ms()
        for purgatory in shared.purgatories:  # mostly there is nobody in two of the three
            deadline_ms = purgatory.next_deadline_ms() if purgatory.estimated_total else None
            if deadline_ms is not None and (earliest is None or deadline_ms < earliest):
                earliest = deadline_ms
        return earliest

    # Requests

    def append_records(
        self,
        entries: Collection[tuple[TopicPartition, Buffer]],
        acks: int,
        timeout_ms: int,
        respond: produce.Respond,
        now_ms: int,
        *,
        internal_allowed: bool = False,
        asker: Asker | None = None,
        connection: Connection | None = None,
    ) -> int:
        """Append one batch per partition (a partition stands once in `entries`); partitions fail independently.

        Returns how many of them, from the first, one step had time for (`WORK_AT_ONCE`; at least one): `respond` hears
        of these, and the caller comes again with the others, in a later step.

        acks=0 and acks=1 respond at once (acks=1 after the sync where `flush.messages` asks for one); acks=-1 when
        all that was appended is committed, or with REQUEST_TIMED_OUT after `timeout_ms`. `internal_allowed` lets
        writes to internal topics pass (the admin client's). `asker` sent it: its producers count as its own. Nobody is
        waited for once `connection` is gone.
        """
        return produce.append_records(
            self.hosted,
            entries,
            acks,
            timeout_ms,
            respond,
            now_ms,
            internal_allowed=internal_allowed,
            asker=asker,
            connection=connection,
        )

    def fetch_in_steps(self, params: FetchParams, asked: fetch.Asked, respond: fetch.Respond, now_ms: int) -> Job[None]:
        """As `fetch`, of many partitions, as a part of the job of who asks: until it is answered, or waits."""
        return fetch.fetch_in_steps(self.hosted, params, asked, respond, now_ms)

    def fetch(self, params: FetchParams, asked: fetch.Asked, respond: fetch.Respond, now_ms: int) -> None:
        """Read partitions in order; answer now, or when enough has come, or after `params.max_wait_ms`.

        `params.max_bytes` and `min_bytes` must be capped by `fetch.max.bytes` already.
        """
        fetch.fetch(self.hosted, params, asked, respond, now_ms)

    def delete_records(
        self,
        offsets: Mapping[TopicPartition, int],
        timeout_ms: int,
        respond: delete_records.Respond,
        now_ms: int,
        connection: Connection | None = None,
    ) -> None:
        """Hide all below an offset (-1: the high watermark); answers when every alive replica has followed.

        Nobody is waited for once `connection` is gone.
        """
        delete_records.delete_records(self.hosted, offsets, timeout_ms, respond, now_ms, connection)

    def list_offsets(
        self,
        queries: Mapping[TopicPartition, ListOffsetsQuery],
        isolation: Isolation,
        respond: list_offsets.Respond,
        now_ms: int,
        *,
        leader_only: bool = True,
        asker: Connection | None = None,
    ) -> None:
        """Offsets by time or by Kafka's special timestamps (-1 to -5), as long as `asker` is there.

        `isolation` is LOG_END for replicas and debuggers; only a debugger (replica id -2) may ask a follower. What a
        version does not know, and partitions named twice, are the handler's to refuse; OFFSET_NOT_AVAILABLE (78) is
        LEADER_NOT_AVAILABLE (5) below version 5.
        """
        list_offsets.list_offsets(
            self.hosted, queries, isolation, respond, now_ms, leader_only=leader_only, asker=asker
        )

    def offsets_for_leader_epoch(
        self, queries: Mapping[TopicPartition, EpochQuery]
    ) -> dict[TopicPartition, EpochResult]:
        """Where leader epochs ended. Never waits."""
        return offset_for_leader_epoch.offsets_for_leader_epoch(self.hosted, queries)

    # Metadata

    def apply(
        self, changed: Mapping[TopicPartition, PartitionState], removed: Iterable[TopicPartition], now_ms: int
    ) -> None:
        """Act on a new metadata image, which must be in force already (`ClusterView` is asked).

        `changed` holds partitions that are new or different, hosted here or not; `removed` those whose topic is gone.
        """
        self._now_ms = now_ms
        gone: dict[str, None] = {}
        for key in removed:
            self._remove(key, now_ms)
            gone[key.topic] = None
        for key, state in changed.items():
            if self.shared.broker_id in state.replicas:
                self._host(key, state, now_ms)
            else:
                self._remove(key, now_ms)
                gone[key.topic] = None
        for topic in gone:
            if topic not in self.hosted.topics:
                self.shared.stats.forget_topic(topic)

    def disown(self, removed: Iterable[TopicPartition]) -> None:
        """Lead these no longer: their topic is gone, and `apply` will hear of it a few at a time.

        Meanwhile there may be another topic of that name, whose records must not come to the logs of this one. It is
        one step, so of each no more is done than that (0.2 to 0.5 µs); but who keeps state in it hears of it at once.
        """
        me, online = self.shared.broker_id, self.hosted.online
        for key in removed:
            partition = online.get(key)
            if partition is not None and partition.leader_id == me:
                if partition.is_internal:
                    partition.stop()
                partition.leader_id = NO_LEADER

    def disconnected(self, connection_id: int) -> None:
        """A connection is gone: what waits to answer it ends; what was begun is written, and replicas follow."""
        self.shared.disconnected(connection_id)

    def partition(self, key: TopicPartition) -> Partition | None:
        """The partition hosted here, or None."""
        return self.hosted.online.get(key)

    def snapshot(self, now_ms: int, first: int = 0, end: int | None = None) -> dict[str, Any]:
        """Partitions and parked operations as plain values, of each kind those from `first` to before `end`."""
        return {
            "partitions": [one.snapshot() for one in islice(self.hosted.online.values(), first, end)],
            "offline": [str(key) for key in islice(self.hosted.offline, first, end)],
            "purgatories": [purgatory.snapshot(first, end) for purgatory in self.shared.purgatories],
            "timer": self.shared.timer.snapshot(),
            "following": [] if self._following is None else self._following.snapshot(first, end),
            "deferred_actions": len(self.shared.actions),
        }

    def _host(self, key: TopicPartition, state: PartitionState, now_ms: int) -> None:
        damage.decide(self.logs, key, state, self.shared.broker_id)
        partition = self.hosted.online.get(key)
        if partition is not None and (partition.topic_id != state.topic_id or partition.log.closed):
            self._remove(key, now_ms)
            partition = None
        if partition is None:
            try:
                if self.logs.is_damaged(key) and damage.others_have_all(state, self.shared.broker_id):
                    self.logs.give_up(key)
                log = self._log_of(key, state.topic_id)
            except KafkaError as error:
                if key not in self.hosted.offline and key not in self.logs.failed:  # said already
                    logger.error("%s is offline: %s", key, error)
                known = self.hosted.offline.get(key)
                self.hosted.offline[key] = state
                if known is not state:
                    damage.never_opened(self.shared, key, state)
                if key not in self.logs.failed or self.logs.is_damaged(key):
                    self._try_again(key, state, now_ms)
                return
            if key in self.hosted.offline:
                logger.info("%s is online", key)
                del self.hosted.offline[key]
                self._refused.pop(key, None)
            partition = Partition(key, state.topic_id, log, self.shared)
            partition.damaged = self.logs.gaps.pop(key, -1)
            if partition.damaged >= 0 and len(state.replicas) == 1:
                lacking.forget(self.logs.disk, str(key))  # nobody has it
            self.hosted.add(partition)
        if state.leader == self.shared.broker_id and not self.shared.superseded:
            if partition.become_leader(state, now_ms):
                self._follow_nobody(key)
        elif partition.become_follower(state):
            self.shared.check_not_leader(key, now_ms)
            self._follow(partition, now_ms)

    def _follow(self, partition: Partition, now_ms: int) -> None:
        if self._following is None:
            if self._peers is None:
                return
            from barnabas.broker.replica.following import Following  # a broker that stands alone needs none of it

            self._following = Following(self.shared, self._peers)
        self._following.follow(partition, now_ms)

    def lags(self) -> list[tuple[int, TopicPartition, int]]:
        """What follows others here: the leader, the partition, and by how many committed records it is behind."""
        return [] if self._following is None else list(self._following.lags())

    def fetch_rate_min(self) -> float:
        """How often the leader that is asked least often is asked, in requests per second; 0 without any."""
        return 0.0 if self._following is None else self._following.fetch_rate_min(self._now_ms)

    def _follow_nobody(self, key: TopicPartition) -> None:
        if self._following is not None:
            self._following.end(key)

    def _try_again(self, key: TopicPartition, state: PartitionState, now_ms: int) -> None:
        """The disk had no room for a new log: look soon whether it has."""
        self._refused[key] = state
        if not self._retries:
            self._retries = True
            self.shared.timer.add(self._host_task, now_ms + RETRY_MS)

    def _host_refused(self, now_ms: int) -> None:
        self._retries = False
        refused, self._refused = self._refused, {}
        for key, state in refused.items():
            if key in self.hosted.offline:
                self._host(key, state, now_ms)

    def _log_of(self, key: TopicPartition, topic_id: bytes) -> Log:
        """The partition's log, found or made. One that a deleted topic of the same name left behind makes way.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR.
        """
        found = self.logs.get(key)
        if found is not None and found.topic_id not in (topic_id, ZERO_UUID):
            self.logs.delete(key)
        return self.logs.create(key, topic_id, self.logs.config_of(key))

    def _remove(self, key: TopicPartition, now_ms: int) -> None:
        """The partition is hosted here no longer: its log goes, and what waits for it is answered with that."""
        was_offline = key in self.hosted.offline
        self.hosted.offline.pop(key, None)
        self.shared.complaints.forget(key)
        self._refused.pop(key, None)
        partition = self.hosted.take(key)
        if partition is not None:
            self._follow_nobody(key)
            partition.stop()
            self.shared.check_not_leader(key, now_ms)
        elif not was_offline and key not in self.logs.logs:  # at the start logs are there before their partitions
            return
        try:
            self.logs.delete(key)
        except KafkaError as error:
            logger.error("the log of %s stays behind: %s", key, error)

    def _shrink_isrs(self, now_ms: int) -> None:
        def ended(fault: Exception | None) -> None:
            if fault is not None:
                logger.error("not all members of ISRs were looked at", exc_info=fault)
            self._plan_shrink(max(now_ms, self._now_ms))

        shrinks = self._shrink_in_steps(list(self.hosted.online.values()), now_ms)
        (self.shared.run if len(self.hosted.online) > SHRUNK_AT_ONCE else run_to_its_end)(shrinks, ended)

    def _shrink_in_steps(self, partitions: Sequence[Partition], now_ms: int) -> Job[None]:
        for number, partition in enumerate(partitions, 1):
            partition.shrink_isr(now_ms)
            if number % SHRUNK_AT_ONCE == 0:
                yield None
        for key, state in list(self.hosted.offline.items()):
            damage.never_opened(self.shared, key, state)

    def _plan_shrink(self, now_ms: int) -> None:
        interval_ms = max(1, self.shared.config.replica_lag_time_max_ms // 2)
        self.shared.timer.add(self._shrink_task, now_ms + interval_ms)

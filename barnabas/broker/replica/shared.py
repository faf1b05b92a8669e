"""What all partitions and operations of one broker share: the world's ports, the purgatories, the deferred actions."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from barnabas.broker.account import PARKED, Account
from barnabas.broker.config import BrokerConfig
from barnabas.broker.context import Connection
from barnabas.broker.delayed import MANY_KEYS, Purgatory, Timer
from barnabas.broker.jobs import Job
from barnabas.broker.log.search import Search
from barnabas.broker.metrics import MetricsRegistry
from barnabas.broker.ports import Controller, NotYet, WallClock
from barnabas.broker.replica.action_queue import ActionQueue
from barnabas.broker.replica.complaints import Complaints
from barnabas.broker.replica.listeners import LeadershipListeners
from barnabas.broker.replica.reading import Reading
from barnabas.broker.replica.stats import BrokerStats
from barnabas.broker.replica.throttle import FOLLOWER, LEADER, Throttle
from barnabas.broker.replica.types import ClusterView
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.replica.late import Late
    from barnabas.broker.replica.parked import Parked

PARKED_PARTITION_BYTES: Final = 450
"""What a fetch that waits keeps of one partition: where it began, and its place in a watch list (measured 420)."""
UNCHARGED_PARTITIONS_MAX: Final = 8
"""So few cost a connection less than the connection itself takes, and nearly every fetch that waits has no more."""

logger = logging.getLogger(__name__)

RunJob: TypeAlias = Callable[[Job[None], Callable[[Exception | None], None]], object]


def run_to_its_end(job: Job[None], ended: Callable[[Exception | None], None]) -> None:
    """Where nobody else takes on jobs; such a job must have nothing to wait for."""
    for token in job:
        assert token is None, "nobody is here to wait"
    ended(None)


def _walked(fault: Exception | None) -> None:
    if fault is not None:
        logger.error("what waits cannot be tried", exc_info=fault)


class Shared:
    """One per broker. `timer` runs the periodic tasks; each purgatory has a timer of its own."""

    __slots__ = (
        "account",
        "actions",
        "broker_epoch",
        "broker_id",
        "cluster",
        "complaints",
        "config",
        "controller",
        "delete_records",
        "fetch",
        "follower_throttle",
        "late",
        "leader_throttle",
        "leadership",
        "parked_partitions",
        "produce",
        "purgatories",
        "run",
        "stats",
        "timer",
        "validate_full",
        "waiting",
        "wall_clock",
    )

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        controller: Controller,
        cluster: ClusterView,
        wall_clock: WallClock,
        registry: MetricsRegistry,
        now_ms: int,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch: Callable[[], int] = partial(cluster.broker_epoch, broker_id)
        """In which of its lives this process was registered; the metadata may tell of another one of that id by now."""
        self.config = config
        self.controller = controller
        self.cluster = cluster
        self.wall_clock = wall_clock
        self.validate_full = config.barnabas_validate_records == "full"
        self.run: RunJob = run_to_its_end
        """Who takes on a job, and says that it ended."""
        self.account = Account()
        """Charged with what parked operations keep."""
        self.waiting: dict[int, dict[Parked, None]] = {}
        """What waits, by connection; there is an entry from its first that waits to its end."""
        self.late: dict[TopicPartition, deque[Late]] = {}
        """Batches that wait for their append, by partition."""
        self.leadership = LeadershipListeners()
        self.parked_partitions = 0
        self.actions = ActionQueue()
        self.stats = BrokerStats(registry)
        overrides = cluster.topic_overrides
        self.leader_throttle = Throttle(lambda: config.leader_replication_throttled_rate, LEADER, broker_id, overrides)
        self.follower_throttle = Throttle(
            lambda: config.follower_replication_throttled_rate, FOLLOWER, broker_id, overrides
        )
        self.timer = Timer(now_ms)
        self.complaints = Complaints(self.timer, self.actions, wall_clock)

        def purgatory(name: str, purge_interval: int) -> Purgatory:
            return Purgatory(name, Timer(now_ms), purge_interval, registry, lambda walk: self.run(walk, _walked))

        self.produce = purgatory("Produce", config.producer_purgatory_purge_interval_requests)
        self.fetch = purgatory("Fetch", config.fetch_purgatory_purge_interval_requests)
        self.delete_records = purgatory("DeleteRecords", config.delete_records_purgatory_purge_interval_requests)
        self.purgatories = (self.fetch, self.produce, self.delete_records)

    @property
    def superseded(self) -> bool:
        """Whether another process was registered with this node id since: what is said of the id is said of it."""
        return self.cluster.broker_epoch(self.broker_id) > self.broker_epoch()

    @property
    def awaited(self) -> bool:
        """Whether anybody waits for anything, so that an append must be told of."""
        return bool(self.fetch.watchers or self.produce.watchers or self.delete_records.watchers)

    def parked(self, operation: Parked, connection: Connection | None, partitions: int) -> None:
        """An operation of a connection waits from now on."""
        connection_id = -1 if connection is None else connection.id
        operation.parked_partitions = partitions
        operation.connection_id = connection_id
        self.parked_partitions += partitions
        if partitions > UNCHARGED_PARTITIONS_MAX:
            self.account.charge(connection_id, PARKED, partitions * PARKED_PARTITION_BYTES)
        mine = self.waiting.get(connection_id)
        if mine is None:
            self.waiting[connection_id] = {operation: None}
        else:
            mine[operation] = None

    def unparked(self, operation: Parked) -> None:
        """An operation waits no longer."""
        connection_id, partitions = operation.connection_id, operation.parked_partitions
        self.parked_partitions -= partitions
        if partitions > UNCHARGED_PARTITIONS_MAX:
            self.account.release(connection_id, PARKED, partitions * PARKED_PARTITION_BYTES)
        operation.parked_partitions = 0
        del self.waiting[connection_id][operation]

    def disconnected(self, connection_id: int) -> None:
        """Nobody is left to answer on this connection: what waits for that ends."""
        for operation in tuple(self.waiting.get(connection_id, ())):
            self.unparked(operation)
            operation.leave()
        self.waiting.pop(connection_id, None)

    def check_all(self, key: TopicPartition, now_ms: int) -> None:
        """The high or low watermark of `key` rose, or its ISR changed: try what waits for it."""
        self.fetch.check_and_complete(key, now_ms)
        self.produce.check_and_complete(key, now_ms)
        self.delete_records.check_and_complete(key, now_ms)

    def check_not_leader(self, key: TopicPartition, now_ms: int) -> None:
        """`key` is led elsewhere now, or gone. DeleteRecords is not among those Kafka checks here.

        One of many partitions is told all the same: news of the others, which is its next check there, is theirs alone.
        """
        self.produce.check_and_complete(key, now_ms)
        self.fetch.check_and_complete(key, now_ms)
        for operation in tuple(self.delete_records.watchers.get(key, ())):
            if operation.listed >= MANY_KEYS and not operation.completed:
                operation.try_key(key, now_ms)

    def when_read(
        self,
        step: Callable[[int], None],
        now_ms: int,
        asker: Connection | None = None,
        reader: Connection | None = None,
    ) -> None:
        """Run `step(now_ms)`; each time it raises `NotYet`, run the whole of it again once the token has fired.

        Every token is held until the step is through, so that the reads it has made answer at once. A search is made
        for `asker`, as long as that is there; what is read from the device until then is charged to `reader`.
        """
        try:
            step(now_ms)
        except NotYet as pending:
            self._go_on(step, pending, Reading(self.account, reader), asker)

    def _go_on(self, step: Callable[[int], None], pending: NotYet, reading: Reading, asker: Connection | None) -> None:
        """Run `step` once what is `pending` is there, and then as often as it takes."""
        token = reading.hold(pending)

        def again(now_ms: int) -> None:
            try:
                step(now_ms)
            except NotYet as more:
                self._go_on(step, more, reading, asker)
                return
            except BaseException:
                reading.end()
                raise
            reading.end()

        actions = self.actions
        token.on_ready(lambda: actions.add(again))
        if isinstance(token, Search):
            token.begin(self.run, asker)

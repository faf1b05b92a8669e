"""All groups of one broker: a shard for each partition of `__consumer_offsets` that it leads.

Shards come and go with leadership. Which partition a group belongs to goes by the number of partitions that the topic
has; without the topic there are no groups, and nothing is imported that only they need.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.config import BrokerConfig
from barnabas.broker.config.topics import OFFSETS_TOPIC
from barnabas.broker.group.alarms import Alarm
from barnabas.broker.group.consumer.topics import Topics
from barnabas.broker.group.counts import Counts, register
from barnabas.broker.group.kinds import AnyGroup
from barnabas.broker.group.placement import KEPT_LENGTH_MAX, partition_of
from barnabas.broker.group.shared import RunJob, Shared
from barnabas.broker.group.state import Status
from barnabas.broker.jobs import Job
from barnabas.broker.log import Log
from barnabas.broker.metrics import MetricsRegistry
from barnabas.broker.ports import Entropy, WallClock
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.group.journals import Journal
    from barnabas.broker.group.loading import Loader
    from barnabas.broker.group.shard import Shard

KNOWN_MAX: Final = 4096
"""Groups whose shard is known without a look at the topic."""
GIVE_UP_MS: Final = 1000
"""So long after it was asked to have another lead what is damaged here the controller is asked again."""

logger = logging.getLogger(__name__)


class GroupCoordinator:
    """The groups of one broker.

    Args:
        config: its settings; dynamic ones are changed in place.
        wall_clock: time of day.
        entropy: for member ids.
        believed_ms: the time of day by which offsets grow old, at a monotonic time.
        registry: where what can be counted is registered.
        topics: those of the cluster, `__consumer_offsets` among them.
        group_overrides: the settings given to a group itself.
        run: takes on a job, and says how it ended.
        now_ms: monotonic.
    """

    def __init__(
        self,
        config: BrokerConfig,
        wall_clock: WallClock,
        entropy: Entropy,
        believed_ms: Callable[[int], int],
        registry: MetricsRegistry,
        topics: Topics,
        group_overrides: Callable[[str], Mapping[str, str]],
        run: RunJob,
        now_ms: int,
    ) -> None:
        self.shared = Shared(config, wall_clock, entropy, Counts(), topics, group_overrides, run, now_ms)
        self.shards: dict[int, Shard] = {}
        self._topics = topics
        self._known: dict[str, Shard] = {}
        """Where groups were found: in shards that are active, as they are until resigned. The topic cannot grow."""
        self._believed_ms = believed_ms
        self._run = run
        self._loaders: dict[int, Loader] = {}
        self._gone: dict[TopicPartition, bytes] = {}
        """Partitions that are no more, and what groups have committed for them is still to go."""
        self._forgets = False
        self._expiry = Alarm(self._expire_all)
        self._alarms = self.shared.alarms
        self.timer = self._alarms.timer
        register(registry, self.shared.counts, self.groups)

    # Time

    def tick(self, now_ms: int) -> None:
        """Ring what is due."""
        self._alarms.advance(now_ms)

    def catch_up(self, now_ms: int) -> None:
        """Write what was answered ahead; the end of every step, and before an answer leaves."""
        if self.shared.ahead.waiting:
            self.shared.ahead.write(now_ms)

    def drain(self, now_ms: int) -> None:
        """What was due at once; the end of every step."""
        self._alarms.now_ms = now_ms
        if self.timer.due:
            self._alarms.ring_due(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        return self.timer.next_deadline_ms()

    # Leadership

    def elected(self, index: int, epoch: int, log: Log, journal: Journal) -> None:
        """This broker leads a partition from now on, or leads it in a new epoch: what is in its log counts."""
        from barnabas.broker.group.loading import Loader, activate
        from barnabas.broker.group.shard import Shard

        self.resigned(index)
        if not self.shards:
            self._alarms.set(self._expiry, self._alarms.now_ms + self._interval_ms)
        shard = self.shards[index] = Shard(TopicPartition(OFFSETS_TOPIC, index), epoch, journal, self.shared)
        loader = self._loaders[index] = Loader(shard, log)

        def loaded(fault: Exception | None) -> None:
            if self._loaders.get(index) is not loader:
                return
            if loader.damaged >= 0 and journal.give_up(loader.damaged):  # until another leads, or nobody else can
                self._alarms.set(Alarm(lambda _: loaded(fault)), self._alarms.now_ms + GIVE_UP_MS)
                return
            del self._loaders[index]
            if fault is not None:
                logger.error("%s cannot be read, its groups have no coordinator: %s", shard.key, fault)
                shard.status = Status.FAILED
                return
            if shard.groups:
                self._run(activate(shard, self._alarms.now_ms), lambda _: None)
            else:
                shard.status = Status.ACTIVE

        if log.log_start_offset == log.log_end_offset:  # a new one: served at once
            loaded(None)
        else:
            self._run(loader.run(), loaded)

    def resigned(self, index: int) -> None:
        """This broker leads a partition no longer: whoever waits in one of its groups is told to ask another."""
        shard = self.shards.pop(index, None)
        if shard is None:
            return
        self._known.clear()
        from barnabas.broker.group.unloading import unload

        loader = self._loaders.pop(index, None)
        if loader is not None:
            loader.cancelled = True
        unloading = unload(shard)
        for _ in unloading:  # it is not done with its first step
            self._run(unloading, lambda _: None)
            break
        if not self.shards:
            self._alarms.stop(self._expiry)

    def committed(self, index: int) -> None:
        """The high watermark of a partition rose."""
        shard = self.shards.get(index)
        if shard is not None and shard.held:
            shard.committed()

    # Who is asked

    def shard_of(self, group_id: str) -> Shard:
        """Where a group is.

        Raises:
            KafkaError: COORDINATOR_NOT_AVAILABLE: there is no such topic yet; NOT_COORDINATOR: another broker leads it;
                COORDINATOR_LOAD_IN_PROGRESS.
        """
        known = self._known.get(group_id)
        if known is not None:
            return known
        offsets_topic = self._topics.get(OFFSETS_TOPIC)
        if offsets_topic is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        shard = self.shards.get(partition_of(group_id, offsets_topic[1]))
        if shard is None or shard.status is Status.FAILED:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if shard.status is Status.LOADING:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if len(group_id) <= KEPT_LENGTH_MAX:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[group_id] = shard
        return shard

    @property
    def loading(self) -> bool:
        """Whether some groups are still to be read."""
        return bool(self._loaders)

    def groups(self) -> Iterator[AnyGroup]:
        """All groups, as they are now."""
        for shard in list(self.shards.values()):
            yield from list(shard.groups.values())

    # What becomes of what was committed

    def topics_changed(self, gone: Mapping[TopicPartition, bytes]) -> None:
        """Topics have come, gone or grown; those that are gone had these partitions."""
        self._topics.changed()
        if not gone or not any(shard.groups for shard in self.shards.values()):
            return
        self._gone.update(gone)
        if not self._forgets:  # many go in slices, and every group is looked at for each time that this is begun
            self._forgets = True
            self._run(self._forget_gone(), self._forgotten)

    def _forget_gone(self) -> Job[None]:
        from barnabas.broker.group.deleting import forget_topics

        while self._gone:
            gone, self._gone = self._gone, {}
            for shard in list(self.shards.values()):
                yield from forget_topics(shard, gone, self._alarms.now_ms)

    def _forgotten(self, _: Exception | None) -> None:
        self._forgets = False

    @property
    def _interval_ms(self) -> int:
        return self.shared.config.offsets_retention_check_interval_ms

    def _expire_all(self, now_ms: int) -> None:
        from barnabas.broker.group.expiry import expire

        self._alarms.set(self._expiry, now_ms + self._interval_ms)
        wall_ms = self._believed_ms(now_ms)
        for shard in self.shards.values():
            if shard.groups:
                self._run(expire(shard, wall_ms, now_ms), lambda _: None)

    # Looking in

    def snapshot(self, first: int = 0, end: int | None = None) -> list[dict[str, Any]]:
        """Groups as plain values, those from `first` to before `end`."""
        from barnabas.broker.group.looking import snapshot

        return [snapshot(group) for group in islice(self.groups(), first, end)]

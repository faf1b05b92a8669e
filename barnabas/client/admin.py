"""The blocking admin client: `AsyncAdmin` on a thread of its own.

with Admin("localhost:9092") as admin:
    admin.create_topic("flights", partitions=4, config={"retention.ms": "60000"})
    answers = admin.create_topics("arrivals", NewTopic("departures", partitions=2))
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, Self, TypeVar, Unpack

from barnabas.client.answers import BROKER, CLIENT_METRICS, GROUP, TOPIC
from barnabas.client.async_access import Acl, Quota
from barnabas.client.async_admin import Answers, AsyncAdmin, NewTopic
from barnabas.client.async_cluster import Outcomes
from barnabas.client.async_configs import ConfigEntry
from barnabas.client.cluster_views import (
    ClusterDescription,
    Features,
    LogDir,
    ProducerState,
    QuorumDescription,
    Reassignment,
    TransactionListing,
)
from barnabas.client.consume.group.values import OffsetAndMetadata
from barnabas.client.group_views import GroupDescription, GroupListing, GroupMember
from barnabas.client.handle import Handle
from barnabas.client.loop_thread import LoopThread
from barnabas.client.offsets import OffsetAndTimestamp
from barnabas.net.counts import Metrics
from barnabas.net.errors import ClientClosed
from barnabas.net.topology import TopicInfo
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.settings import ClientSettings

__all__ = [
    "BROKER",
    "CLIENT_METRICS",
    "GROUP",
    "TOPIC",
    "Admin",
    "AsyncAdmin",
    "ConfigEntry",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "NewTopic",
]

T = TypeVar("T")


class Admin(Handle):
    """What `AsyncAdmin` does, blocking, on a thread of its own; it is connected once this returns.

    Settings carry Kafka's names: `config` or keywords, as with `Producer`.

    Raises:
        ConfigError: an unknown setting, or a bad value.
        ClientTimeout: no broker answered within `default.api.timeout.ms`.
    """

    def __init__(
        self, config: Mapping[str, Any] | str | None = None, *more: Never, **settings: Unpack[ClientSettings]
    ) -> None:
        self._inner = AsyncAdmin(config, *more, **settings)
        self._thread = LoopThread("barnabas-admin")
        self._inner.leave_with(self._thread.leave)
        try:
            self._call(self._inner.start())
        except BaseException:
            self._thread.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread.call(work)

    def metrics(self) -> Metrics:
        """Figures in groups, by Kafka's names: `metrics()["admin-client-metrics"]["request-total"]`."""
        return self._inner.metrics()

    def close(self) -> None:
        """Closes all connections and ends the thread; a second call does nothing."""
        self._thread.check_may_wait()
        with suppress(ClientClosed):
            self._call(self._inner.close())
        self._thread.stop()

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        config: Mapping[str, Any] | None = None,
        replicas: Sequence[Sequence[int]] | None = None,
        if_absent: bool = False,
        validate_only: bool = False,
    ) -> None:
        """Creates a topic and waits until every partition has a leader; the arguments are those of `NewTopic`."""
        self._call(
            self._inner.create_topic(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                config=config,
                replicas=replicas,
                if_absent=if_absent,
                validate_only=validate_only,
            )
        )

    def create_topics(self, *topics: NewTopic | str, validate_only: bool = False) -> Answers:
        """Creates topics in one request and waits until what was made has leaders; what became of each."""
        return self._call(self._inner.create_topics(*topics, validate_only=validate_only))

    def delete_topic(self, name: str) -> None:
        """Deletes a topic."""
        self._call(self._inner.delete_topic(name))

    def delete_topics(self, *names: str) -> Answers:
        """Deletes topics in one request; what became of each."""
        return self._call(self._inner.delete_topics(*names))

    def create_partitions(
        self, name: str, count: int, *, replicas: Sequence[Sequence[int]] | None = None, validate_only: bool = False
    ) -> None:
        """Raises a topic's number of partitions to `count`; `replicas` are the brokers of each new one."""
        self._call(self._inner.create_partitions(name, count, replicas=replicas, validate_only=validate_only))

    def list_topics(self, *, internal: bool = False) -> list[str]:
        """The names of all topics, internal ones only if asked for."""
        return self._call(self._inner.list_topics(internal=internal))

    def describe_topics(self, *names: str) -> dict[str, TopicInfo]:
        """Partitions, leaders and replicas of topics."""
        return self._call(self._inner.describe_topics(*names))

    def describe_all_topics(
        self, *, internal: bool = False, among: Callable[[Collection[str]], Iterable[str]] | None = None
    ) -> dict[str, TopicInfo]:
        """What `describe_topics` tells, of all topics in one question, or of those `among` their names."""
        return self._call(self._inner.describe_all_topics(internal=internal, among=among))

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes the records before an offset of each partition (-1: all); returns the new first offsets."""
        return self._call(self._inner.delete_records(before))

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: str = "read_uncommitted"
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """The first offset at or after a timestamp in ms since the epoch (-2 first, -1 end, -3 the youngest)."""
        return self._call(self._inner.list_offsets(timestamps, isolation_level=isolation_level))

    def lag(
        self, positions: Mapping[TopicPartition, int], *, isolation_level: str = "read_uncommitted"
    ) -> dict[TopicPartition, int]:
        """How many offsets lie between a position and the end of its partition, for each."""
        return self._call(self._inner.lag(positions, isolation_level=isolation_level))

    def describe_configs(self, name: str, *, kind: int = TOPIC) -> dict[str, str | None]:
        """The settings of a topic (or of a broker by its id, a group by its name); None where a value is secret."""
        return self._call(self._inner.describe_configs(name, kind=kind))

    def config_entries(self, name: str, *, kind: int = TOPIC, keys: Iterable[str] | None = None) -> list[ConfigEntry]:
        """The same with where each value comes from, of these `keys` or of all. A broker "" is all of them."""
        return self._call(self._inner.config_entries(name, kind=kind, keys=keys))

    def alter_configs(
        self,
        name: str,
        change: Mapping[str, Any] | None = None,
        *,
        reset: Sequence[str] = (),
        append: Mapping[str, Any] | None = None,
        subtract: Mapping[str, Any] | None = None,
        kind: int = TOPIC,
        validate_only: bool = False,
    ) -> None:
        """Changes settings of a topic (a broker, a group); those in `reset` go back to their defaults."""
        self._call(
            self._inner.alter_configs(
                name, change, reset=reset, append=append, subtract=subtract, kind=kind, validate_only=validate_only
            )
        )

    def describe_cluster(self) -> ClusterDescription:
        """The cluster's id, controller and brokers."""
        return self._call(self._inner.describe_cluster())

    def describe_quorum(self) -> QuorumDescription:
        """Who leads and who keeps the metadata log, and how far each replica is."""
        return self._call(self._inner.describe_quorum())

    def describe_features(self) -> Features:
        """The levels of the cluster's features, and which ones a broker knows."""
        return self._call(self._inner.describe_features())

    def update_features(
        self, levels: Mapping[str, int], *, downgrade: bool = False, validate_only: bool = False
    ) -> None:
        """Sets features to these levels: up, with `downgrade` down where nothing is lost by it."""
        self._call(self._inner.update_features(levels, downgrade=downgrade, validate_only=validate_only))

    def list_config_resources(self, *kinds: int) -> list[tuple[int, str]]:
        """(kind, name) of all that has settings of its own; only of these kinds if any are named."""
        return self._call(self._inner.list_config_resources(*kinds))

    def describe_partitions(self, *names: str, page: int = 2000) -> dict[str, TopicInfo]:
        """Partitions, leaders and replicas of topics, asked for in pages: of however many partitions."""
        return self._call(self._inner.describe_partitions(*names, page=page))

    def describe_log_dirs(self) -> dict[int, tuple[LogDir, ...]]:
        """By broker, the directories of its logs: their sizes in bytes, and what each partition takes."""
        return self._call(self._inner.describe_log_dirs())

    def describe_producers(self, *partitions: TopicPartition) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """The idempotent producers that each partition knows."""
        return self._call(self._inner.describe_producers(*partitions))

    def elect_leaders(self, *partitions: TopicPartition, unclean: bool = False) -> Outcomes:
        """Makes the preferred replica of each partition its leader (of all, if none is named); what became of each."""
        return self._call(self._inner.elect_leaders(*partitions, unclean=unclean))

    def alter_partition_reassignments(
        self, moves: Mapping[TopicPartition, Sequence[int] | None], *, may_resize: bool = True
    ) -> Outcomes:
        """Begins to move partitions to these brokers; None gives up what is under way. What became of each."""
        return self._call(self._inner.alter_partition_reassignments(moves, may_resize=may_resize))

    def unregister_broker(self, broker_id: int) -> None:
        """Has the cluster forget a broker that was stopped for good; what it had stays assigned to it."""
        self._call(self._inner.unregister_broker(broker_id))

    def list_partition_reassignments(self) -> dict[TopicPartition, Reassignment]:
        """The partitions whose replicas move at present."""
        return self._call(self._inner.list_partition_reassignments())

    def list_transactions(self, *, states: Iterable[str] = ()) -> list[TransactionListing]:
        """The transactions that the brokers know, only those in one of these states if any are named."""
        return self._call(self._inner.list_transactions(states=states))

    def list_groups(self, *, states: Iterable[str] = (), kinds: Iterable[str] = ()) -> list[GroupListing]:
        """All groups that the brokers know, only those in one of these states, and of these kinds, if any are named."""
        return self._call(self._inner.list_groups(states=states, kinds=kinds))

    def describe_groups(self, *names: str) -> dict[str, GroupDescription]:
        """Who is in these groups, and what each member has."""
        return self._call(self._inner.describe_groups(*names))

    def remove_group_members(self, name: str, *members: GroupMember) -> dict[str, KafkaError | None]:
        """Removes members, all if none is named; what became of each, by member id."""
        return self._call(self._inner.remove_group_members(name, *members))

    def describe_acls(self) -> list[Acl]:
        """All access rules."""
        return self._call(self._inner.describe_acls())

    def describe_client_quotas(self) -> list[Quota]:
        """All quotas that are set."""
        return self._call(self._inner.describe_client_quotas())

    def describe_user_scram_credentials(self) -> dict[str, list[tuple[int, int]]]:
        """By user, the mechanisms there is a password for, and their iterations."""
        return self._call(self._inner.describe_user_scram_credentials())

    def delete_group(self, name: str) -> None:
        """Deletes a group without members, with its offsets."""
        self._call(self._inner.delete_group(name))

    def delete_groups(self, *names: str) -> dict[str, KafkaError | None]:
        """Deletes groups without members, with their offsets; what became of each: None, or why not."""
        return self._call(self._inner.delete_groups(*names))

    def group_offsets(
        self, name: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group has committed, of these partitions or of all; partitions with nothing are left out."""
        return self._call(self._inner.group_offsets(name, partitions))

    def offsets_of_groups(self, *names: str) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """What each of these groups, asked about together, has committed; partitions with nothing are left out."""
        return self._call(self._inner.offsets_of_groups(*names))

    def alter_group_offsets(self, name: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> None:
        """Sets where a group goes on; it must have no members, which would go on where they are."""
        self._call(self._inner.alter_group_offsets(name, offsets))

    def delete_group_offsets(self, name: str, *partitions: TopicPartition) -> None:
        """Forgets what a group has committed of these partitions."""
        self._call(self._inner.delete_group_offsets(name, *partitions))

    def group_lag(self, name: str, *, isolation_level: str = "read_uncommitted") -> dict[TopicPartition, int]:
        """How many offsets lie between what a group has committed and the end, of each partition it committed."""
        return self._call(self._inner.group_lag(name, isolation_level=isolation_level))

"""What is counted of groups, by Kafka's names (`GroupCoordinatorMetrics`, and the older `GroupMetadataManager`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from barnabas.broker.group.consumer.group import ConsumerGroup, ConsumerState
from barnabas.broker.group.group import Group
from barnabas.broker.group.kinds import AnyGroup
from barnabas.broker.group.state import GroupState
from barnabas.broker.metrics import MetricsRegistry

_KIND: Final = "group-coordinator-metrics"
_OLD: Final = "kafka.coordinator.group:GroupMetadataManager"


class Counts:
    """How often it has happened since the start.

    Offsets committed, deleted, expired; rebalances completed of classic groups, and begun of those of the consumer
    protocol (each new epoch).
    """

    __slots__ = ("commits", "consumer_rebalances", "deletions", "expirations", "rebalances")

    def __init__(self) -> None:
        self.commits = 0
        self.consumer_rebalances = 0
        self.deletions = 0
        self.expirations = 0
        self.rebalances = 0


def register(registry: MetricsRegistry, counts: Counts, groups: Callable[[], Iterable[AnyGroup]]) -> None:
    """Register what can be read of all groups of a broker."""

    def in_state(state: GroupState) -> int:
        return sum(group.state is state for group in classic())

    def in_consumer_state(state: ConsumerState) -> int:
        return sum(group.state is state for group in consumer())

    def classic() -> Iterable[Group]:
        return (group for group in groups() if isinstance(group, Group))

    def consumer() -> Iterable[ConsumerGroup]:
        return (group for group in groups() if isinstance(group, ConsumerGroup))

    registry.counter(_KIND, "offset-commit-count", None, lambda: counts.commits)
    registry.counter(_KIND, "offset-deletion-count", None, lambda: counts.deletions)
    registry.counter(_KIND, "offset-expiration-count", None, lambda: counts.expirations)
    registry.counter(_KIND, "group-completed-rebalance-count", None, lambda: counts.rebalances)
    registry.counter(_KIND, "consumer-group-rebalance-count", None, lambda: counts.consumer_rebalances)
    registry.gauge(_KIND, "group-count", {"protocol": "classic"}, lambda: sum(1 for _ in classic()))
    registry.gauge(_KIND, "group-count", {"protocol": "consumer"}, lambda: sum(1 for _ in consumer()))
    for one in ConsumerState:
        tags = {"state": one.value.lower()}
        registry.gauge(_KIND, "consumer-group-count", tags, partial(in_consumer_state, one))
    registry.gauge(_OLD, "NumGroups", None, lambda: sum(1 for _ in classic()))
    registry.gauge(_OLD, "NumOffsets", None, lambda: sum(len(group.offsets) for group in groups()))
    for state in GroupState:
        registry.gauge(_OLD, f"NumGroups{state.value}", None, partial(in_state, state))

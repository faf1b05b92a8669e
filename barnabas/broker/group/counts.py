"""What is counted of groups, by Kafka's names (`GroupCoordinatorMetrics`, and the older `GroupMetadataManager`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from barnabas.broker.group.group import Group
from barnabas.broker.group.state import GroupState
from barnabas.broker.metrics import Meter, MetricsRegistry

_KIND: Final = "group-coordinator-metrics"
_OLD: Final = "kafka.coordinator.group:GroupMetadataManager"


class Counts:
    """What has happened. `requests` that wait, groups and offsets are counted when somebody reads."""

    __slots__ = ("commits", "deletions", "expirations", "rebalances")

    def __init__(self, registry: MetricsRegistry) -> None:
        self.commits: Meter = registry.meter(_KIND, "offset-commit", None)
        self.deletions: Meter = registry.meter(_KIND, "offset-deletion", None)
        self.expirations: Meter = registry.meter(_KIND, "offset-expiration", None)
        self.rebalances: Meter = registry.meter(_KIND, "group-completed-rebalance", None)


def register_gauges(registry: MetricsRegistry, groups: Callable[[], Iterable[Group]]) -> None:
    """Register what is counted by looking."""

    def in_state(state: GroupState) -> int:
        return sum(group.state is state for group in groups())

    registry.gauge(_OLD, "NumGroups", None, lambda: sum(1 for _ in groups()))
    registry.gauge(_OLD, "NumOffsets", None, lambda: sum(len(group.offsets) for group in groups()))
    for state in GroupState:
        registry.gauge(_OLD, f"NumGroups{state.value}", None, partial(in_state, state))
    registry.gauge(_KIND, "group-count", {"protocol": "classic"}, lambda: sum(1 for _ in groups()))

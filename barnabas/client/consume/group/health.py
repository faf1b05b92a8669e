"""How a consumer is, for whoever watches over it: it never stalls in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.consume.core import ConsumerCore


class Health(NamedTuple):
    """What a consumer tells of itself at one moment. None: there is none, or it is not known (yet).

    Attributes:
        state: of a group's member `out`, `joining`, `leading`, `syncing`, `taking`, `stable` or `fenced`; else
            `assigned`, `unassigned` or `closed`.
        coordinator: where the group's coordinator is, `host:port`.
        assignment: the partitions it has.
        lag: how many records of each are not handed out yet.
        seconds_since_poll: since records were asked for; 0 while they are waited for.
        seconds_since_heartbeat: since the coordinator last answered.
        last_error: what is wrong at present, or was refused last.
    """

    state: str
    group_id: str | None
    member_id: str | None
    generation: int | None
    coordinator: str | None
    assignment: tuple[TopicPartition, ...]
    lag: dict[TopicPartition, int | None]
    seconds_since_poll: float | None
    seconds_since_heartbeat: float | None
    last_error: BarnabasError | None

    @property
    def ok(self) -> bool:
        """Whether it has its partitions, and nothing is wrong."""
        return self.last_error is None and self.state in ("assigned", "stable")


def health_of(core: ConsumerCore, now_ms: int) -> Health:
    """How it is now."""
    positions = core.fetcher.positions
    group = core.group
    failed = next((each.error for each in positions.values() if each.error is not None), None)
    error = failed or core.fetcher.metadata.fatal or core.fetcher.metadata.troubles.last()
    state = "assigned" if positions else "unassigned"
    member_id = generation = coordinator = polled = heard = None
    if group is not None:
        error = group.membership.error or group.coordinator.last_error or error
        who, node = group.membership.identity, group.coordinator.node
        member_id, generation = group.membership.member_id or None, who.generation if who.generation >= 0 else None
        coordinator = None if node is None else f"{node.host}:{node.port}"
        polled, heard = _seconds(group.polled_at_ms, now_ms), _seconds(group.membership.heartbeats.heard_at_ms, now_ms)
        if group.waiting():
            polled = 0.0
        if group.subscription:
            state = group.membership.state.value
    return Health(
        state if core.closed is None else "closed",
        core.config.group_id or None,
        member_id,
        generation,
        coordinator,
        tuple(sorted(positions)),
        {where: each.lag for where, each in positions.items()},
        polled,
        heard,
        error,
    )


def _seconds(at_ms: int | None, now_ms: int) -> float | None:
    return None if at_ms is None else max(now_ms - at_ms, 0) / 1000

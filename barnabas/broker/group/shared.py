"""What all shards of a broker share: settings, the time of day, chance, alarms, and what is counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from barnabas.broker.config import BrokerConfig
from barnabas.broker.group.ahead import Ahead
from barnabas.broker.group.alarms import Alarms
from barnabas.broker.group.consumer.topics import Topics
from barnabas.broker.group.counts import Counts
from barnabas.broker.group.full import Full
from barnabas.broker.group.holdings import Holdings
from barnabas.broker.jobs import Job
from barnabas.broker.ports import Entropy, WallClock
from barnabas.protocol.errors import ErrorCode

RunJob: TypeAlias = Callable[[Job[None], Callable[[Exception | None], None]], object]
"""Takes on a job, and says how it ended."""

_MEANS: Final[dict[int, ErrorCode]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def told_for(code: int) -> int:
    """What a group's client is told when the coordinator's own append failed with `code`.

    Source: `CoordinatorOperationExceptionHelper.handleOperationException`.
    """
    return _MEANS.get(code, code)


class Shared:
    """One per broker."""

    __slots__ = (
        "ahead",
        "alarms",
        "config",
        "counts",
        "entropy",
        "full",
        "group_overrides",
        "holdings",
        "resolving",
        "run",
        "topics",
        "wall_clock",
    )

    def __init__(
        self,
        config: BrokerConfig,
        wall_clock: WallClock,
        entropy: Entropy,
        counts: Counts,
        topics: Topics,
        group_overrides: Callable[[str], Mapping[str, str]],
        run: RunJob,
        now_ms: int,
    ) -> None:
        self.config = config
        self.wall_clock = wall_clock
        self.entropy = entropy
        self.counts = counts
        self.topics = topics
        self.group_overrides = group_overrides
        """The settings given to a group itself, by its id."""
        self.run = run
        self.ahead = Ahead()
        self.alarms = Alarms(now_ms)
        self.holdings = Holdings()
        self.full = Full(wall_clock)
        self.resolving = 0
        """Groups whose patterns are being looked for."""

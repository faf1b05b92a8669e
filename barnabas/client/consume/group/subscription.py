"""What a consumer wants to read: topics by name, or all whose names match a pattern; and who is told of its share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from barnabas.client.arguments import checked_topics, shown
from barnabas.net.errors import ConfigError
from barnabas.net.topology import Cluster
from barnabas.protocol.ids import TopicPartition

OnPartitions: TypeAlias = Callable[[list[TopicPartition]], Any]
"""Told of partitions that come or go. On asyncio it may be a coroutine function."""


class Turn(Enum):
    """What becomes of partitions."""

    ASSIGNED = "on_assigned"
    REVOKED = "on_revoked"
    LOST = "on_lost"


class Listener(NamedTuple):
    """Who is told. Partitions that are lost without notice are told of as revoked where nobody asked for `on_lost`."""

    on_assigned: OnPartitions | None = None
    on_revoked: OnPartitions | None = None
    on_lost: OnPartitions | None = None

    def of(self, turn: Turn) -> OnPartitions | None:
        """Who is told of this turn."""
        if turn is Turn.ASSIGNED:
            return self.on_assigned
        return self.on_revoked if turn is Turn.REVOKED or self.on_lost is None else self.on_lost


class Call(NamedTuple):
    """The application is to be called, in its own thread or task, before anything else is handed out."""

    turn: Turn
    function: OnPartitions
    partitions: list[TopicPartition]

    def run(self) -> Any:
        """Calls it; what it returns may have to be awaited."""
        return self.function(self.partitions)


@dataclass(slots=True)
class Subscription:
    """What is wanted: `names`, or what `pattern` matches as a whole (as in Kafka's Java client).

    `by_broker`: a pattern that the broker matches (Java's SubscriptionPattern), as groups of the consumer protocol can.
    """

    names: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    listener: Listener = field(default_factory=Listener)
    by_broker: str | None = None

    @classmethod
    def of(
        cls,
        topics: tuple[Any, ...],
        pattern: str | re.Pattern[str] | None,
        listener: Listener,
        *,
        broker_matches: bool = False,
    ) -> Subscription:
        """What `subscribe` was given. `broker_matches`: a string is the broker's to match, and to refuse.

        Raises:
            ConfigError: topics and a pattern, a pattern that is none, a listener that cannot be called.
        """
        names = checked_topics(topics, "subscribe")
        if names and pattern is not None:
            raise ConfigError("subscribe: give the names of topics, or a pattern")
        for turn, function in zip(Turn, listener, strict=True):
            if function is not None and not callable(function):
                raise ConfigError(f"{turn.value}: {shown(function)} is no function")
        if broker_matches and isinstance(pattern, str):
            if not pattern:
                raise ConfigError("pattern: it is empty")
            return cls((), None, listener, pattern)
        if isinstance(pattern, str):
            try:
                pattern = re.compile(pattern)
            except re.error as error:
                raise ConfigError(f"pattern: {pattern!r} is no regular expression: {error}") from None
        if pattern is not None and not (isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str)):
            raise ConfigError(f"pattern: {shown(pattern)} is no regular expression; give a string")
        return cls(tuple(dict.fromkeys(names)), pattern, listener)

    def __bool__(self) -> bool:
        return bool(self.names) or self.by_pattern

    @property
    def by_pattern(self) -> bool:
        """Whether any topic of the cluster may be wanted."""
        return self.pattern is not None or self.by_broker is not None

    def topics(self, cluster: Cluster, *, internal: bool = False) -> tuple[str, ...]:
        """The names wanted at present: a pattern matches what the cluster has, internal topics only if `internal`.

        Those that the broker matches are known to it alone.
        """
        if self.pattern is None:
            return self.names
        return tuple(
            sorted(
                name
                for name, info in cluster.topics.items()
                if (internal or not info.is_internal) and self.pattern.fullmatch(name)
            )
        )

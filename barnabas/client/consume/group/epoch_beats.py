"""The heartbeats of the consumer protocol (KIP-848): they join, say what changed, bring the share, and leave.

A heartbeat says in full who the member is and what it wants when it joins, and after one that failed, for nobody knows
whether the coordinator had it; else only what is new since the last one. One is under way at a time; the coordinator
says how often.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.consume.group.coordinator import Coordinator
from barnabas.net.metadata import NEVER
from barnabas.net.network import PerVersion
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.requests.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

JOINS: Final = 0
LEAVES: Final = -1
STATIC_LEAVES: Final = -2
"""Epochs that are none: to join, to leave, and to leave for a while (a static member, whose place is kept)."""

Owned: TypeAlias = tuple[tuple[bytes, tuple[int, ...]], ...]
"""Partitions by the id of their topic, in order."""


class Told(NamedTuple):
    """What a member says of itself. `pattern`: what the coordinator matches with the names of topics (RE2)."""

    topics: tuple[str, ...]
    pattern: str | None
    owned: Owned | None


OnAnswer: TypeAlias = Callable[[ConsumerGroupHeartbeatResponse | None, BarnabasError | None, int], None]
"""`on_answer(response, error, now_ms)`: one of the first two is None."""


class EpochBeats:
    """Sends them while it is driven. Times are absolute ms."""

    def __init__(self, config: ConsumerConfig, coordinator: Coordinator, on_answer: OnAnswer) -> None:
        self.sent = 0
        self.heard_at_ms: int | None = None  # when the coordinator last took this member for one
        self._config = config
        self._coordinator = coordinator
        self._on_answer = on_answer
        self._under_way = False
        self._life = 0  # an answer to a heartbeat of an earlier one is nobody's
        self._next_ms = 0
        self._told: Told | None = None  # what the coordinator knows, None where that is not sure

    @property
    def under_way(self) -> bool:
        """Whether one is, which may make this a member."""
        return self._under_way

    def begin(self) -> None:
        """Another life: with the next one it joins."""
        self._life += 1
        self._under_way = False
        self._told = None
        self._next_ms = 0
        self.heard_at_ms = None

    def hurry(self) -> None:
        """There is something to say: the next one leaves as soon as nothing is under way."""
        self._next_ms = 0

    def acknowledge(self) -> None:
        """A share was taken: what is owned is said at once, though it be what was said before.

        The coordinator waits for that where it took back what this member never came to own.
        """
        if self._told is not None:
            self._told = self._told._replace(owned=None)
        self._next_ms = 0

    def later(self, at_ms: int) -> None:
        """The last one failed: the next one says everything, at that time."""
        self._told = None
        self._next_ms = at_ms

    def said(self, topics: tuple[str, ...], pattern: str | None) -> bool:
        """Whether the last one said that this is wanted."""
        return self._told is not None and (self._told.topics, self._told.pattern) == (topics, pattern)

    def drive(self, member_id: str, epoch: int, tell: Callable[[], Told], now_ms: int) -> int:
        """Sends one if it is time. Returns when to call again at the latest."""
        if self._under_way or not self._coordinator.known:
            return NEVER
        if self._next_ms > now_ms:
            return self._next_ms
        self._under_way = True
        self.sent += 1
        self._next_ms = NEVER
        told = tell()
        request = heartbeat(self._config, member_id, epoch, told, None if epoch == JOINS else self._told)
        self._told = told
        self._coordinator.send(request, now_ms, partial(self._on_done, self._life))
        return NEVER

    def _on_done(
        self, life: int, response: ConsumerGroupHeartbeatResponse | None, error: BarnabasError | None, now_ms: int
    ) -> None:
        if life != self._life:
            return
        self._under_way = False
        if response is not None and not response.error_code:
            self.heard_at_ms = now_ms
            self._next_ms = min(self._next_ms, now_ms + max(response.heartbeat_interval_ms, 1))
        self._on_answer(response, error, now_ms)


def heartbeat(config: ConsumerConfig, member_id: str, epoch: int, told: Told, known: Told | None) -> PerVersion:
    """A ConsumerGroupHeartbeat; without what the coordinator `known`s already, in full where that is None."""

    def make(version: int) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            config.group_id, member_id, epoch, config.group_instance_id or None, config.client_rack or None
        )
        if known is None:
            request.rebalance_timeout_ms = config.max_poll_interval_ms
            request.server_assignor = config.group_remote_assignor or None
        else:
            request.rack_id = None
        if known is None or known.topics != told.topics:
            request.subscribed_topic_names = list(told.topics)
        if told.pattern is not None if known is None else known.pattern != told.pattern:
            request.subscribed_topic_regex = told.pattern or ""
        if known is None or known.owned != told.owned:
            request.topic_partitions = [TopicPartitions(topic, list(numbers)) for topic, numbers in told.owned or ()]
        return request

    return PerVersion(ApiKey.CONSUMER_GROUP_HEARTBEAT, make)


def leave(config: ConsumerConfig, member_id: str) -> ConsumerGroupHeartbeatRequest:
    """The last one."""
    epoch = STATIC_LEAVES if config.group_instance_id else LEAVES
    return ConsumerGroupHeartbeatRequest(config.group_id, member_id, epoch, config.group_instance_id or None)

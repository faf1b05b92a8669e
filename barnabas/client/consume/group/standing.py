"""Where a member stands with its group, whatever the protocol: what the application's side asks and is told."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.consume.group.coordinator import Coordinator
from barnabas.client.consume.group.values import Identity
from barnabas.net.errors import ClientTimeout
from barnabas.net.metadata import Metadata
from barnabas.protocol.errors import BarnabasError, KafkaError
from barnabas.protocol.ids import TopicPartition

log = logging.getLogger(__name__)


class State(Enum):
    """Where a member is on its way. Only the classic protocol has LEADING and SYNCING."""

    OUT = "out"
    JOINING = "joining"
    LEADING = "leading"
    SYNCING = "syncing"
    TAKING = "taking"
    STABLE = "stable"
    FENCED = "fenced"


class Wishes(Protocol):
    """What a member says of itself when it joins."""

    def topics(self) -> Sequence[str]:
        """The topics wanted at present."""

    def pattern(self) -> str | None:
        """The pattern that the broker has to match, where it is its to match."""

    def owned(self) -> list[TopicPartition]:
        """The partitions it has, and would keep."""


class Beats(Protocol):
    """A member's heartbeats, as figures and health tell of them."""

    sent: int
    heard_at_ms: int | None


class Standing(ABC):
    """A member. `on_change` wakes whoever waits: a share is here, or it must join again, or there is an error."""

    heartbeats: Beats

    def __init__(
        self,
        config: ConsumerConfig,
        metadata: Metadata,
        coordinator: Coordinator,
        wishes: Wishes,
        on_change: Callable[[], None],
    ) -> None:
        self.config = config
        self.state = State.OUT
        self.rejoin: str | None = None  # why it must join again, or say anew what it wants
        self.lost = False  # what it owns may be somebody else's by now
        self.share: list[TopicPartition] = []
        self.error: BarnabasError | None = None  # the application must hear of it
        self.cooperative = True  # it keeps what stays its own while a rebalance goes on
        self.rebalances = 0
        self._metadata = metadata
        self._coordinator = coordinator
        self._wishes = wishes
        self._on_change = on_change
        self._instance = config.group_instance_id or None
        self._member_id = ""
        self._generation = -1
        self._attempt = 0  # an answer to an earlier one is nobody's
        self._retry_at_ms = 0
        self._failures = 0

    # ---- looking --------------------------------------------------------------------------------------------------

    @property
    def in_generation(self) -> bool:
        """Whether it is a member at present, as far as it knows."""
        return self._generation >= 0

    @property
    def identity(self) -> Identity:
        """As whom it commits."""
        if not self.in_generation:
            return Identity(self.config.group_id)
        return Identity(self.config.group_id, self._generation, self._member_id, self._instance)

    @property
    def member_id(self) -> str:
        """Its name in the group, empty while it has none."""
        return self._member_id

    # ---- what it is told to do ------------------------------------------------------------------------------------

    @abstractmethod
    def join(self, now_ms: int) -> None:
        """Take part, or take part anew: what had to be given up is given up."""

    @abstractmethod
    def leave(self, now_ms: int, why: str, on_done: Callable[[], None] | None = None) -> None:
        """Leave the group; a static member only goes away for a while."""

    @abstractmethod
    def drive(self, now_ms: int) -> int:
        """Sends what is due. Returns when to call again at the latest (absolute ms)."""

    @abstractmethod
    def on_metadata(self) -> None:
        """Partitions or topics came or went."""

    def taken(self) -> None:
        """The application knows its share."""
        if self.state is State.TAKING:
            self.state = State.STABLE

    def gave_up(self) -> None:  # noqa: B027 - what a classic member tells with a rejoin, the other one's heartbeats tell
        """Partitions were given up, which others are to have."""

    def want_rejoin(self, why: str) -> None:
        """It has to join again, as soon as the application is back."""
        if self.state is not State.FENCED and self.rejoin is None:
            log.debug("group %s: joins again: %s", self.config.group_id, why)
            self.rejoin = why

    def expire(self, now_ms: int) -> None:
        """The application was away for too long: leave, so that its partitions go to who reads them."""
        config = self.config
        told = f"nothing was asked for within max.poll.interval.ms={config.max_poll_interval_ms}"
        log.warning(
            "group %s: %s: this member left, and what it did not commit is read by another; handle fewer records at "
            "once (max.poll.records), or raise max.poll.interval.ms",
            config.group_id,
            told,
        )
        self.leave(now_ms, told)
        self.lost = True
        self.want_rejoin(told)
        # For whoever looks at `health()`; it goes well again with the next answer, as the member joins.
        self._coordinator.last_error = ClientTimeout(f"group {config.group_id}: {told}: this member left; poll to join")

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _miss(self, why: str) -> None:
        """The group took this member for dead: whatever it had may be another's. It joins again."""
        self.lost, self.state = True, State.OUT
        if self._wishes.owned():
            told = "this member had been given up, and what it did not commit is read by another; it joins again"
            log.warning("group %s: %s: %s", self.config.group_id, why, told)
        self.want_rejoin(why)

    def _fence(self, code: int) -> None:
        """Another member has its `group.instance.id`: this one is none any more."""
        self.state = State.FENCED
        told = f"another member with group.instance.id {self._instance} has taken this one's place"
        self.error = KafkaError(code, f"group {self.config.group_id}: {told}; give each member one of its own")

    def _wait_a_little(self, now_ms: int) -> None:
        self._retry_at_ms = now_ms + max(self._coordinator.backoff_ms(self._failures), 1)
        self._failures += 1

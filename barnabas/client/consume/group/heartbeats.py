"""A member's heartbeats: one under way at a time, every `heartbeat.interval.ms`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.consume.group.coordinator import Coordinator
from barnabas.client.consume.group.values import Identity
from barnabas.net.metadata import NEVER
from barnabas.protocol.errors import BarnabasError, ErrorCode
from barnabas.protocol.requests.heartbeat import HeartbeatRequest, HeartbeatResponse

OnBeat: TypeAlias = Callable[[Identity, int, BarnabasError | None, int], None]
"""`on_beat(who, code, error, now_ms)`: the answer to the heartbeat of that member."""


class Heartbeats:
    """Sends them while it is driven. Times are absolute ms."""

    def __init__(self, config: ConsumerConfig, coordinator: Coordinator, on_beat: OnBeat) -> None:
        self.sent = 0
        self.heard_at_ms: int | None = None  # when the coordinator last took this member for one
        self._config = config
        self._coordinator = coordinator
        self._on_beat = on_beat
        self._under_way = False
        self._next_ms = 0

    def heard(self, now_ms: int) -> None:
        """The coordinator answered a join, or what follows it, which counts as a heartbeat."""
        self.heard_at_ms = now_ms
        self._next_ms = now_ms + self._config.heartbeat_interval_ms

    def soon(self, now_ms: int) -> None:
        """The next one comes after a short while."""
        self._next_ms = now_ms + self._config.retry_backoff_ms

    def drive(self, who: Identity, now_ms: int) -> int:
        """Sends one if it is time. Returns when to call again at the latest."""
        if self._under_way or not self._coordinator.known:
            return NEVER
        if self._next_ms > now_ms:
            return self._next_ms
        self._under_way = True
        self.sent += 1
        self._next_ms = now_ms + self._config.heartbeat_interval_ms
        request = HeartbeatRequest(who.group_id, who.generation, who.member_id, who.instance_id)
        wait_ms = min(self._config.request_timeout_ms, self._config.session_timeout_ms)
        self._coordinator.send(request, now_ms, partial(self._on_answer, who), timeout_ms=wait_ms)
        return NEVER

    def _on_answer(
        self, who: Identity, response: HeartbeatResponse | None, error: BarnabasError | None, now_ms: int
    ) -> None:
        self._under_way = False
        code = 0 if response is None else response.error_code
        if response is not None and code in (0, ErrorCode.REBALANCE_IN_PROGRESS):
            self.heard_at_ms = now_ms
        self._on_beat(who, code, error, now_ms)

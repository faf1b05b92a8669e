"""How long brokers may be away before a query ends: told once, waited for, and then one sentence. Time is an argument.

    brokerTimeout=2m
    00:00  connection refused        "... gives no answer (...): waiting for up to 2m": said once
    00:01  connection refused        silence, and so on
    00:07  an answer                 "... answers again after 7s"
    later  connection refused        counted anew
    02:00  after two minutes of it   BrokersAway, which ends the query

Spark's own source waits in two ways: its planner asks `fetchOffset.numRetries` times, each for
`kafka.default.api.timeout.ms` (a minute), its tasks for `kafkaConsumer.pollTimeoutMs` (two minutes).
"""

from __future__ import annotations

import logging
from typing import Final

from barnabas.net.errors import ClientTimeout, Disconnected
from barnabas.protocol.errors import BarnabasError

log = logging.getLogger(__name__)

PAUSE_MS: Final = 200
"""So long after a vain question the next one is asked."""


class BrokersAway(ClientTimeout):
    """No broker answered for as long as the option brokerTimeout allows."""


class Patience:
    """Counts from the first question that was asked in vain; `servers` and `limit_ms` are what it tells of.

    `answer_ms` is how long the next question may take: twice as long as one that was asked in vain, for who is slow is
    not away; and as it was before, once answers come that soon.
    """

    def __init__(self, servers: str, limit_ms: int, answer_ms: int) -> None:
        self._servers, self._limit_ms = servers, limit_ms
        self._since_ms: int | None = None
        self.answer_ms = self._least_ms = answer_ms

    @property
    def away(self) -> bool:
        """Whether the last question was asked in vain."""
        return self._since_ms is not None

    def missed(self, error: BarnabasError, now_ms: int, doing: str = "") -> None:
        """A question was asked in vain: the same may be asked again after `PAUSE_MS`.

        Args:
            error: why.
            now_ms: when, on any clock that only goes forward.
            doing: what needs the answer, for the sentence.

        Raises:
            BrokersAway: it has been so for too long.
        """
        told = f"{doing}: " if doing else ""
        why = error.detail if isinstance(error, Disconnected) else error
        if self._since_ms is None:
            self._since_ms = now_ms
            log.warning(
                "%s%s gives no answer (%s): waiting for up to %s (option brokerTimeout)",
                told, self._servers, why, shown(self._limit_ms),
            )  # fmt: skip
        if now_ms - self._since_ms >= self._limit_ms:
            raise BrokersAway(
                f"{told}{self._servers} gave no answer for {shown(now_ms - self._since_ms)}: {why}. Start the broker "
                "and then the query again, mend kafka.bootstrap.servers, or raise the option brokerTimeout "
                f"({shown(self._limit_ms)}); for brokers that answer late raise kafka.default.api.timeout.ms"
            )
        self.answer_ms = min(2 * self.answer_ms, max(self._limit_ms, self._least_ms))

    def answered(self, now_ms: int, took_ms: int = 0) -> None:
        """A question was answered, which took so long: the next absence counts anew."""
        if self._since_ms is not None:
            log.warning("%s answers again after %s", self._servers, shown(now_ms - self._since_ms))
            self._since_ms = None
            self.answer_ms = max(self._least_ms, min(2 * took_ms, self.answer_ms))


def shown(duration_ms: int) -> str:
    """A time as the options spell it, in the largest unit that leaves nothing over, at most tenths of a second."""
    if duration_ms < 1000:
        return f"{duration_ms}ms"
    if duration_ms % 60_000 == 0:
        return f"{duration_ms // 60_000}m"
    return f"{round(duration_ms / 1000, 1):g}s"

"""The controller mutation quota as the APIs that change topics meet it (KIP-599).

From a version of its own on, an API refuses what is above the quota with THROTTLING_QUOTA_EXCEEDED, topic by topic;
older versions do what they are asked for, until so much is owed that they are refused too, with POLICY_VIOLATION, which
all of them know (Kafka lets them owe without end). Either way the answer says how long to wait, and the connection is
muted so long. `validate_only` mutates nothing and is not counted, nor is what is more than any request may ask for:
that is refused as such, whatever is left of the quota. What comes to nothing is given back: in Kafka the quota is asked
when all else about a topic is right.
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.config.topics import PARTITIONS_PER_OPERATION_MAX
from barnabas.broker.context import RequestContext, source_of
from barnabas.broker.handlers.services import Services
from barnabas.protocol.errors import ErrorCode, KafkaError

LOGGED_MS_MIN: Final = 1000
"""Who is served and has to wait for less than that afterwards does not notice."""


class Throttle:
    """The quota of one request: ask for each topic, give back what came to nothing, then `tell` in the answer."""

    __slots__ = ("_client", "_now_ms", "_quota", "_refused", "_strict", "_throttle_ms")

    def __init__(self, services: Services, context: RequestContext, strict_from: int, now_ms: int) -> None:
        connection = context.connection
        self._quota = services.mutations
        self._client = (connection.principal, source_of(connection.client_host))
        self._strict = context.api_version >= strict_from
        self._now_ms = now_ms
        self._throttle_ms = 0
        self._refused = False

    def refusal(self, partitions: int) -> KafkaError | None:
        """Take so many partitions from the quota, or say why not."""
        if partitions > PARTITIONS_PER_OPERATION_MAX:
            return None
        self._throttle_ms = self._quota.throttle_ms(self._client, self._now_ms)
        if self._throttle_ms and (self._strict or self._quota.overdrawn(self._client, partitions, self._now_ms)):
            self._refused = True
            return KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED if self._strict else ErrorCode.POLICY_VIOLATION,
                self._quota.refusal(self._throttle_ms),
            )
        self._quota.take(self._client, partitions, self._now_ms)
        self._throttle_ms = self._quota.throttle_ms(self._client, self._now_ms)
        return None

    def give_back(self, partitions: int) -> None:
        """So many partitions, which were asked for, came to nothing."""
        if partitions > PARTITIONS_PER_OPERATION_MAX:
            return  # nothing was taken for them
        self._quota.give_back(self._client, partitions)
        self._throttle_ms = self._quota.throttle_ms(self._client, self._now_ms)

    def tell(self) -> int:
        """How long (ms) the client has to wait, for the answer; 0 for not at all. The log says so of who notices."""
        if self._refused or self._throttle_ms >= LOGGED_MS_MIN:
            self._quota.log(self._client, self._throttle_ms, self._now_ms)
        return self._throttle_ms

"""The controller mutation quota as the APIs that change topics meet it (KIP-599).

From a version of its own on, an API refuses what is above the quota with THROTTLING_QUOTA_EXCEEDED, topic by topic;
older versions do what they are asked for, until so much is owed that they are refused too, with POLICY_VIOLATION, which
all of them know (Kafka lets them owe without end). Either way the answer says how long to wait, and the connection is
muted so long. `validate_only` mutates nothing and is not counted, nor is what is more than any request may ask for:
that is refused as such, whatever is left of the quota.
"""

from __future__ import annotations

from barnabas.broker.config.topics import PARTITIONS_PER_OPERATION_MAX
from barnabas.broker.context import RequestContext, source_of
from barnabas.broker.handlers.services import Services
from barnabas.protocol.errors import ErrorCode, KafkaError


class Throttle:
    """The quota of one request: ask for each topic, then tell `throttle_ms` in the answer."""

    __slots__ = ("_client", "_now_ms", "_quota", "_strict", "throttle_ms")

    def __init__(self, services: Services, context: RequestContext, strict_from: int, now_ms: int) -> None:
        connection = context.connection
        self._quota = services.mutations
        self._client = (connection.principal, source_of(connection.client_host))
        self._strict = context.api_version >= strict_from
        self._now_ms = now_ms
        self.throttle_ms = 0
        """How long the client has to wait; 0 for not at all."""

    def refusal(self, partitions: int) -> KafkaError | None:
        """Take so many partitions from the quota, or say why not."""
        if partitions > PARTITIONS_PER_OPERATION_MAX:
            return None
        self.throttle_ms = self._quota.throttle_ms(self._client, self._now_ms)
        if self.throttle_ms and (self._strict or self._quota.overdrawn(self._client, partitions, self._now_ms)):
            return KafkaError(
                ErrorCode.THROTTLING_QUOTA_EXCEEDED if self._strict else ErrorCode.POLICY_VIOLATION,
                self._quota.say(self._client, self.throttle_ms, self._now_ms),
            )
        self._quota.take(self._client, partitions, self._now_ms)
        self.throttle_ms = self._quota.throttle_ms(self._client, self._now_ms)
        return None

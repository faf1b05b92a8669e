"""How many partitions a client may have made and deleted: Kafka's controller mutation quota (KIP-599).

A bucket of tokens for each principal and address; a partition made or deleted takes one. Tokens come back at `rate` a
second, up to `burst`. As in Kafka a mutation is let through while a token is left, however many it takes: what is owed
delays the next one (`TokenBucket`, `StrictControllerMutationQuota`, `PermissiveControllerMutationQuota`).

A client that cannot be refused (its version knows no word for it) is let through and owes more; but who would owe more
than one operation's worth (10,000 partitions) is refused whatever it knows: a thousand connections that each ask once
would pass any rate.

Kafka has no quota unless somebody sets one by user and client id, which a stranger chooses. This one is on by default,
at what no start-up reaches, and goes by address.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from barnabas.broker.config import BrokerConfig
from barnabas.broker.config.topics import PARTITIONS_PER_OPERATION_MAX

BUCKETS_MAX: Final = 1000
"""Clients that are told apart; above it those that owe nothing are forgotten, and then all the rest share one."""

OWED_MAX: Final = PARTITIONS_PER_OPERATION_MAX
"""Tokens that a client may owe which cannot be told to wait: as many as one request may take from any bucket."""

TOLD_MS: Final = 60_000
"""So often the log says of a client that it has to wait, and sooner when it is for more than twice as long."""

logger = logging.getLogger(__name__)

Client = tuple[str, str]
"""Principal and address (`context.source_of`)."""
_OTHERS: Final[Client] = ("", "")


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at_ms: int
    told_ms: int | None = None
    told_throttle_ms: int = 0


class MutationQuota:
    """All buckets of one broker. Times are monotonic ms."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._buckets: dict[Client, _Bucket] = {}

    def throttle_ms(self, client: Client, now_ms: int) -> int:
        """How long the client has to wait until it may mutate again; 0 for not at all."""
        bucket = self._buckets.get(client) or self._buckets.get(_OTHERS)
        if bucket is None or self._refilled(bucket, now_ms) > 0:
            return 0
        return int(-bucket.tokens * 1000 / self._config.barnabas_controller_mutation_rate) + 1

    def overdrawn(self, client: Client, partitions: int, now_ms: int) -> bool:
        """Whether the client, had it so many partitions more, would owe more than `OWED_MAX`."""
        bucket = self._buckets.get(client) or self._buckets.get(_OTHERS)
        return bucket is not None and self._refilled(bucket, now_ms) - partitions < -OWED_MAX

    def give_back(self, client: Client, partitions: int) -> None:
        """Of what the client took, so many partitions came to nothing."""
        bucket = self._buckets.get(client) or self._buckets.get(_OTHERS)
        if bucket is not None:  # else it was forgotten, for it owed nothing
            bucket.tokens = min(bucket.tokens + partitions, float(self._config.barnabas_controller_mutation_burst))

    def log(self, client: Client, throttle_ms: int, now_ms: int) -> None:
        """Say that a client has to wait, and what would let it in, unless that was said a while ago."""
        bucket = self._buckets.get(client) or self._buckets[_OTHERS]
        told_ms = bucket.told_ms
        if told_ms is None or now_ms - told_ms >= TOLD_MS or throttle_ms > 2 * bucket.told_throttle_ms:
            bucket.told_ms, bucket.told_throttle_ms = now_ms, throttle_ms
            logger.warning(
                "%s is to wait %d ms until it may have more topics or partitions made or deleted: "
                "barnabas.controller.mutation.burst allows %d at once, barnabas.controller.mutation.rate %d a second",
                client[1],
                throttle_ms,
                self._config.barnabas_controller_mutation_burst,
                self._config.barnabas_controller_mutation_rate,
            )

    @staticmethod
    def refusal(throttle_ms: int) -> str:
        """Why a client is refused, and what would let it in, as it is told."""
        return (
            f"The controller mutation quota is exceeded; try again in {throttle_ms} ms, or raise "
            "barnabas.controller.mutation.burst or barnabas.controller.mutation.rate of the broker."
        )

    def take(self, client: Client, partitions: int, now_ms: int) -> None:
        """Note that the client has so many partitions made or deleted; whether it may is asked before."""
        bucket = self._buckets.get(client)
        if bucket is None:
            bucket = self._new(client, now_ms)
        self._refilled(bucket, now_ms)
        bucket.tokens -= partitions

    def _refilled(self, bucket: _Bucket, now_ms: int) -> float:
        config = self._config
        come = (now_ms - bucket.at_ms) * config.barnabas_controller_mutation_rate / 1000
        bucket.tokens = min(bucket.tokens + come, float(config.barnabas_controller_mutation_burst))
        bucket.at_ms = now_ms
        return bucket.tokens

    def _new(self, client: Client, now_ms: int) -> _Bucket:
        burst = float(self._config.barnabas_controller_mutation_burst)
        if len(self._buckets) >= BUCKETS_MAX:
            self._buckets = {
                one: bucket for one, bucket in self._buckets.items() if self._refilled(bucket, now_ms) < burst
            }
            if len(self._buckets) >= BUCKETS_MAX:
                client = _OTHERS
        return self._buckets.setdefault(client, _Bucket(burst, now_ms))

"""Who may connect: how many at once, of one address, and how fast new ones come.

- `max.connections`, `max.connections.per.ip` as in Kafka, and half of the files this process may open.
- `max.connection.creation.rate` (KIP-612), connections a second on average, `BURST_S` of them at once; of one address
  half of both, so that a flood from one leaves room for others (an address is all of 127.0.0.0/8, or a /64 of IPv6).
  Kafka delays the next accept, for everybody; here what is too much is refused, so that nobody waits behind a flood.

Connections over the local socket are the administrator's: none of this is asked of them, and none is refused. There are
`locals_max` of them, for files must be opened, too; for one more the one goes that has been silent for the longest.

Nor is any of it asked of connections on the listener between brokers, which must not be lost to a flood of clients
(Kafka ends another one for them), nor to one of strangers there: of those that have not introduced themselves yet there
are `STRANGERS_MAX`, and for one more the one goes that has been at it for the longest. A broker is through in a few ms.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from barnabas.broker.config import BrokerConfig
from barnabas.broker.context import source_of

BURST_S: Final = 10
_ADDRESSES_MAX: Final = 4096
LOCALS_MAX: Final = 1000
"""Or a quarter of the sockets, where that is fewer."""
STRANGERS_MAX: Final = 100
"""Each has ten seconds to introduce itself (`peer_channel`), and 1 KiB to say it in."""


class _Bucket:
    """Tokens that come back with time (thousandths of a connection)."""

    __slots__ = ("filled_ms", "tokens")

    def __init__(self, tokens: int, now_ms: int) -> None:
        self.tokens = tokens
        self.filled_ms = now_ms

    def refill(self, rate: int, now_ms: int) -> int:
        """What is there now; at most `BURST_S` seconds' worth."""
        self.tokens = min(self.tokens + (now_ms - self.filled_ms) * rate, rate * BURST_S * 1000)
        self.filled_ms = now_ms
        return self.tokens


class Admission:
    """Counts connections in and out. `sockets_max` leaves handles for files."""

    def __init__(self, config: BrokerConfig, sockets_max: int) -> None:
        self._config = config
        self.sockets_max = sockets_max
        self.refused = 0
        self.open = 0
        self._strangers: dict[int, None] = {}
        self._by_address: Counter[str] = Counter()
        self._rate = 0
        self._all = _Bucket(0, 0)
        self._buckets: dict[str, _Bucket] = {}

    def admit(self, address: str, now_ms: int) -> str | None:
        """Count a connection in; a sentence when it is one too many."""
        address = source_of(address)
        refusal = self._too_many(address) or self._too_fast(address, now_ms)
        if refusal is not None:
            self.refused += 1
            return refusal
        self.open += 1
        self._by_address[address] += 1
        return None

    @property
    def locals_max(self) -> int:
        """Connections over the local socket at once."""
        return min(LOCALS_MAX, max(self.sockets_max // 4, 1))

    @property
    def strangers(self) -> int:
        """How many on the listener between brokers have not introduced themselves yet."""
        return len(self._strangers)

    def admit_stranger(self, connection: int) -> int | None:
        """Count one in on the listener between brokers, until it is known who it is; who has to go for it."""
        self._strangers[connection] = None
        if len(self._strangers) <= min(STRANGERS_MAX, max(self.sockets_max // 2, 1)):
            return None
        longest = next(iter(self._strangers))
        del self._strangers[longest]
        return longest

    def leave_stranger(self, connection: int) -> None:
        """It is gone, or is known now to be a broker of the cluster."""
        self._strangers.pop(connection, None)

    def leave(self, address: str) -> None:
        """Count one out that was admitted."""
        address = source_of(address)
        self.open -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def _too_many(self, address: str) -> str | None:
        if self.open >= self.sockets_max:
            return f"{self.open} connections are open; files must be opened, too (raise the limit: ulimit -n)"
        if self.open >= self._config.max_connections:
            return f"{self.open} connections are open; max.connections allows no more"
        count = self._by_address.get(address, 0)
        if count >= self._config.max_connections_per_ip:
            return f"{count} of its connections are open; max.connections.per.ip allows no more"
        return None

    def _too_fast(self, address: str, now_ms: int) -> str | None:
        rate = self._config.max_connection_creation_rate
        if rate != self._rate:  # the first connection, or a changed setting: full buckets
            self._rate = rate
            self._all = _Bucket(rate * BURST_S * 1000, now_ms)
            self._buckets.clear()
        own_rate = max(rate // 2, 1)
        own = self._buckets.get(address)
        if own is None:
            if len(self._buckets) >= _ADDRESSES_MAX:
                self._forget_full(own_rate, now_ms)
            own = self._buckets[address] = _Bucket(own_rate * BURST_S * 1000, now_ms)
        if own.refill(own_rate, now_ms) < 1000:
            return f"it opened more than {own_rate} connections a second; max.connection.creation.rate allows no more"
        if self._all.refill(rate, now_ms) < 1000:
            return f"more than {rate} connections a second were opened; max.connection.creation.rate allows no more"
        own.tokens -= 1000
        self._all.tokens -= 1000
        return None

    def _forget_full(self, rate: int, now_ms: int) -> None:
        """Let go of addresses that would be let in as strangers are; of all when there is none."""
        full = [one for one, bucket in self._buckets.items() if bucket.refill(rate, now_ms) >= rate * BURST_S * 1000]
        for address in full or list(self._buckets):
            del self._buckets[address]

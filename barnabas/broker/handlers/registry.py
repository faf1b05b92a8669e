"""Which handler serves an API, and what ApiVersions tells of it. Versions stand in `protocol/api.py` alone.

A handler's module has the API's stem for a name and one function, `handle(services, request, context, now_ms)`. It is
imported when its API is first asked for, so that a broker is up before it has loaded what nobody uses yet. A handler
that returns True promises that it has left nothing for the end of the step: no action, nothing deferred or due at once.
What it has planned for later the core sees (`broker/planned.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, Final

from barnabas.protocol.api import BROKER_VERSIONS, SPOKEN, STEMS, VERSIONS, ApiKey, name_of

Handler = Callable[[Any, Any, Any, int], bool | None]

ADVERTISED_FIRST: Final = {ApiKey.PRODUCE: 0}
"""Where ApiVersions tells a first version other than the one that is served: older librdkafka sends uncompressed to a
broker without Produce v0 (KAFKA-18659), so Apache Kafka tells it, too."""


UNADVERTISED: Final = frozenset((ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY))
"""What is answered and not told: a client that finds these would send its metrics, which nobody wants (KIP-714)."""


class NotServed(Exception):
    """An API that the listener of this connection does not serve; the text says so."""


class Handlers(dict[int, Handler]):
    """API number to handler, loaded on first use: what clients may ask for."""

    def __missing__(self, api_key: int) -> Handler:
        if api_key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
            raise NotServed(
                "it wants SASL, which this listener does not serve; set security.protocol=PLAINTEXT (or, of a broker, "
                "lead it to the listener between brokers)"
            )
        if api_key in BROKER_VERSIONS:
            raise NotServed(f"it asks for {name_of(api_key)}, which brokers alone ask of each other")
        module = import_module(f"{__package__}.{STEMS[api_key]}")
        handler: Handler = module.handle
        self[api_key] = handler
        return handler


FORWARDED: Final = frozenset(
    (
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.UPDATE_FEATURES,
    )
)
"""What clients may ask of any broker, and the controller alone decides, or knows."""
_OF_PEERS: Final = FORWARDED | {
    ApiKey.API_VERSIONS,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.ALTER_PARTITION,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.ALLOCATE_PRODUCER_IDS,
}


class PeerHandlers(dict[int, Handler]):
    """As `Handlers`: what another broker of the cluster may ask for, on the listener between brokers."""

    def __missing__(self, api_key: int) -> Handler:
        if api_key not in _OF_PEERS:
            raise NotServed(f"it asks for {name_of(api_key)}, which brokers do not ask of each other")
        stem = "peer_fetch" if api_key == ApiKey.FETCH else STEMS[api_key]
        handler: Handler = import_module(f"{__package__}.{stem}").handle
        self[api_key] = handler
        return handler


def peer_versions() -> dict[int, tuple[int, int]]:
    """First and last version of each API that another broker of the cluster may ask for, by number."""
    return {int(key): SPOKEN[key] for key in sorted(_OF_PEERS)}


@cache
def advertised_versions() -> tuple[tuple[int, int, int], ...]:
    """(API number, first version, last version) as ApiVersions tells them, by number."""
    return tuple(
        (int(key), ADVERTISED_FIRST.get(ApiKey(key), first), last)
        for key, (first, last) in sorted(VERSIONS.items())
        if key not in UNADVERTISED
    )

"""What is served, at which versions, by which handler: the only truth about it.

A handler's module has the API's stem for a name and one function, `handle(services, request, context, now_ms)`. It is
imported when its API is first asked for, so that a broker is up before it has loaded what nobody uses yet. A handler
that returns True promises that it has left nothing to do: nothing was parked, scheduled or deferred.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, NamedTuple

from barnabas.protocol.api import ApiKey

Handler = Callable[[Any, Any, Any, int], bool | None]


class Served(NamedTuple):
    """One API: its handler's module, and the versions it serves (both inclusive)."""

    stem: str
    first: int
    last: int
    advertised_first: int | None = None


SERVED: Final = {
    ApiKey.PRODUCE: Served("produce", 3, 13, advertised_first=0),
    ApiKey.FETCH: Served("fetch", 4, 18),
    ApiKey.LIST_OFFSETS: Served("list_offsets", 1, 11),
    ApiKey.METADATA: Served("metadata", 0, 13),
    ApiKey.FIND_COORDINATOR: Served("find_coordinator", 0, 6),
    ApiKey.API_VERSIONS: Served("api_versions", 0, 4),
    ApiKey.CREATE_TOPICS: Served("create_topics", 2, 7),
    ApiKey.DELETE_TOPICS: Served("delete_topics", 1, 6),
    ApiKey.DELETE_RECORDS: Served("delete_records", 0, 2),
    ApiKey.INIT_PRODUCER_ID: Served("init_producer_id", 0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Served("offset_for_leader_epoch", 2, 4),
    ApiKey.DESCRIBE_CONFIGS: Served("describe_configs", 1, 4),
    ApiKey.CREATE_PARTITIONS: Served("create_partitions", 0, 3),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Served("incremental_alter_configs", 0, 1),
    ApiKey.DESCRIBE_CLUSTER: Served("describe_cluster", 0, 2),
}


class Handlers(dict[int, Handler]):
    """API number to handler, loaded on first use."""

    def __missing__(self, api_key: int) -> Handler:
        module = import_module(f"{__package__}.{SERVED[ApiKey(api_key)].stem}")
        handler: Handler = module.handle
        self[api_key] = handler
        return handler


def advertised_versions() -> list[tuple[int, int, int]]:
    """(API number, first version, last version) as ApiVersions tells them, by number."""
    return [
        (int(key), served.first if served.advertised_first is None else served.advertised_first, served.last)
        for key, served in sorted(SERVED.items())
    ]

"""The APIs by number, and the request and response class of each.

Classes load on first use: a broker that has answered ApiVersions alone has built no other message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from importlib import import_module
from typing import Final


class ApiKey(IntEnum):
    """API numbers of the Kafka protocol; both dialects use them."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CONFIGS = 32
    CREATE_PARTITIONS = 37
    INCREMENTAL_ALTER_CONFIGS = 44
    DESCRIBE_CLUSTER = 60


STEMS: Final[dict[int, str]] = {
    ApiKey.PRODUCE: "produce",
    ApiKey.FETCH: "fetch",
    ApiKey.LIST_OFFSETS: "list_offsets",
    ApiKey.METADATA: "metadata",
    ApiKey.API_VERSIONS: "api_versions",
    ApiKey.CREATE_TOPICS: "create_topics",
    ApiKey.DELETE_TOPICS: "delete_topics",
    ApiKey.DELETE_RECORDS: "delete_records",
    ApiKey.INIT_PRODUCER_ID: "init_producer_id",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "offset_for_leader_epoch",
    ApiKey.DESCRIBE_CONFIGS: "describe_configs",
    ApiKey.CREATE_PARTITIONS: "create_partitions",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
    ApiKey.DESCRIBE_CLUSTER: "describe_cluster",
}
"""The stem that names an API's file on every floor."""


class _Messages(Mapping[int, type]):
    """API number to message class; the module of an API is imported when it is first asked for."""

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix
        self._loaded: dict[int, type] = {}

    def __getitem__(self, key: int) -> type:
        found = self._loaded.get(key)
        if found is None:
            stem = STEMS[key]
            module = import_module(f"barnabas.protocol.requests.{stem}")
            found = self._loaded[key] = getattr(module, stem.title().replace("_", "") + self._suffix)
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(STEMS)

    def __len__(self) -> int:
        return len(STEMS)


REQUESTS: Final[Mapping[int, type]] = _Messages("Request")
RESPONSES: Final[Mapping[int, type]] = _Messages("Response")

_KEYS: Final = {f"barnabas.protocol.requests.{stem}": ApiKey(key) for key, stem in STEMS.items()}


def key_of(message_type: type) -> ApiKey:
    """The API that a request or response class belongs to.

    Raises:
        KeyError: the class is no message of the vocabulary.
    """
    return _KEYS[message_type.__module__]

"""The APIs by number: versions, request and response class of each; and the header that every request carries.

The tables of this file are the only place that names an API's number, stem or versions; all else is derived from them.
Classes load on first use: a broker that has answered ApiVersions alone has built no other message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from importlib import import_module
from typing import Final

from barnabas.protocol.errors import ProtocolError


class ApiKey(IntEnum):
    """API numbers of the Kafka protocol; both dialects use them."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_ACLS = 29
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75


STEMS: Final[dict[int, str]] = {key: key.name.lower() for key in ApiKey}
"""The stem that names an API's file on every floor."""

VERSIONS: Final[dict[int, tuple[int, int]]] = {
    ApiKey.PRODUCE: (3, 13),
    ApiKey.FETCH: (4, 18),
    ApiKey.LIST_OFFSETS: (1, 11),
    ApiKey.METADATA: (0, 13),
    ApiKey.OFFSET_COMMIT: (2, 10),
    ApiKey.OFFSET_FETCH: (1, 10),
    ApiKey.FIND_COORDINATOR: (0, 6),
    ApiKey.JOIN_GROUP: (0, 9),
    ApiKey.HEARTBEAT: (0, 4),
    ApiKey.LEAVE_GROUP: (0, 5),
    ApiKey.SYNC_GROUP: (0, 5),
    ApiKey.DESCRIBE_GROUPS: (0, 6),
    ApiKey.LIST_GROUPS: (0, 5),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.DELETE_RECORDS: (0, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.DESCRIBE_ACLS: (1, 3),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 5),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.DELETE_GROUPS: (0, 2),
    ApiKey.ELECT_LEADERS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ApiKey.OFFSET_DELETE: (0, 0),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.DESCRIBE_QUORUM: (0, 2),
    ApiKey.UPDATE_FEATURES: (0, 2),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    ApiKey.UNREGISTER_BROKER: (0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0),
    ApiKey.PUSH_TELEMETRY: (0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
}
"""First and last version of each API: what both dialects speak, the broker serves and the client asks for."""

BROKER_VERSIONS: Final[dict[int, tuple[int, int]]] = {
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
    ApiKey.VOTE: (0, 2),
    ApiKey.BEGIN_QUORUM_EPOCH: (0, 1),
    ApiKey.END_QUORUM_EPOCH: (0, 1),
    ApiKey.ALTER_PARTITION: (2, 3),
    ApiKey.FETCH_SNAPSHOT: (0, 1),
    ApiKey.BROKER_REGISTRATION: (0, 4),
    ApiKey.BROKER_HEARTBEAT: (0, 1),
    ApiKey.ALLOCATE_PRODUCER_IDS: (0, 0),
}
"""The same of what brokers alone ask of each other, in Kafka's protocol. No listener for clients serves it."""

SPOKEN: Final[dict[int, tuple[int, int]]] = {**VERSIONS, **BROKER_VERSIONS}
"""What the codec of Kafka's protocol speaks."""


def name_of(key: int) -> str:
    """An API's name as Kafka writes it: `FindCoordinator`.

    Raises:
        KeyError: no API has this number.
    """
    return STEMS[key].title().replace("_", "")


class RequestHeader:
    """Who asks what: API number and version, the number that pairs the answer, and the client's name for itself."""

    __slots__ = ("api_key", "api_version", "client_id", "correlation_id")

    def __init__(self, api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id

    def __repr__(self) -> str:
        return (
            f"RequestHeader(api_key={self.api_key}, api_version={self.api_version}, "
            f"correlation_id={self.correlation_id}, client_id={self.client_id!r})"
        )


class UnsupportedVersion(ProtocolError):
    """A known API at a version that is not served. `header` is what was asked, so that ApiVersions can be answered."""

    def __init__(self, header: RequestHeader) -> None:
        first, last = SPOKEN[header.api_key]
        name = ApiKey(header.api_key).name
        super().__init__(f"{name} v{header.api_version} is not served, only v{first} to v{last}")
        self.header = header


def check_version(header: RequestHeader, spoken: Mapping[int, tuple[int, int]] = VERSIONS) -> None:
    """Refuse what the dialect does not speak.

    Raises:
        UnsupportedVersion: a known API at another version.
        ProtocolError: an unknown API.
    """
    served = spoken.get(header.api_key)
    if served is None:
        raise ProtocolError(f"request header: API key {header.api_key} is unknown")
    if not served[0] <= header.api_version <= served[1]:
        raise UnsupportedVersion(header)


class _Messages(Mapping[int, type]):
    """API number to message class; the module of an API is imported when it is first asked for."""

    def __init__(self, suffix: str) -> None:
        self._suffix = suffix
        self._loaded: dict[int, type] = {}

    def __getitem__(self, key: int) -> type:
        found = self._loaded.get(key)
        if found is None:
            module = import_module(f"barnabas.protocol.requests.{STEMS[key]}")
            found = self._loaded[key] = getattr(module, name_of(key) + self._suffix)
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

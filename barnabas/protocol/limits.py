"""What one request may hold, by API. Both dialects refuse more while they decode, before anything is made of it.

An *element* is a member of an array, at any depth, or a tagged field: what is built, looked up and answered once each.
20,000 of the dearest take about 20 ms to decode, which is as long as anybody else may have to wait. Real clients stay
far below: 10,000 partitions of as many topics are 20,000 elements. Kafka has no such bounds.
"""

from __future__ import annotations

from typing import Final

from barnabas.protocol.api import ApiKey

MANY: Final = 20_000
FEW: Final = 64
"""Of an API without arrays: tagged fields that a later version may bring."""

REQUEST_ELEMENTS_MAX: Final[dict[int, int]] = {
    ApiKey.PRODUCE: MANY,
    ApiKey.FETCH: MANY,
    ApiKey.LIST_OFFSETS: MANY,
    ApiKey.METADATA: MANY,
    ApiKey.OFFSET_COMMIT: MANY,
    ApiKey.OFFSET_FETCH: MANY,
    ApiKey.FIND_COORDINATOR: 10_000,
    ApiKey.JOIN_GROUP: 1_000,
    ApiKey.HEARTBEAT: FEW,
    ApiKey.LEAVE_GROUP: 5_000,
    ApiKey.SYNC_GROUP: 10_000,
    ApiKey.DESCRIBE_GROUPS: 10_000,
    ApiKey.LIST_GROUPS: 1_000,
    ApiKey.API_VERSIONS: FEW,
    ApiKey.CREATE_TOPICS: MANY,
    ApiKey.DELETE_TOPICS: 10_000,
    ApiKey.DELETE_RECORDS: MANY,
    ApiKey.INIT_PRODUCER_ID: FEW,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: MANY,
    ApiKey.DESCRIBE_ACLS: FEW,
    ApiKey.DESCRIBE_CONFIGS: MANY,
    ApiKey.ALTER_CONFIGS: 10_000,
    ApiKey.DESCRIBE_LOG_DIRS: MANY,
    ApiKey.CREATE_PARTITIONS: MANY,
    ApiKey.DELETE_GROUPS: 10_000,
    ApiKey.ELECT_LEADERS: MANY,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 10_000,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: MANY,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: MANY,
    ApiKey.OFFSET_DELETE: MANY,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: 1_000,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: 10_000,
    ApiKey.DESCRIBE_QUORUM: 1_000,
    ApiKey.UPDATE_FEATURES: 1_000,
    ApiKey.DESCRIBE_CLUSTER: FEW,
    ApiKey.DESCRIBE_PRODUCERS: MANY,
    ApiKey.UNREGISTER_BROKER: FEW,
    ApiKey.LIST_TRANSACTIONS: 10_000,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: MANY,
    ApiKey.CONSUMER_GROUP_DESCRIBE: 10_000,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: FEW,
    ApiKey.PUSH_TELEMETRY: FEW,
    ApiKey.LIST_CONFIG_RESOURCES: 1_000,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: 10_000,
    ApiKey.SASL_HANDSHAKE: FEW,
    ApiKey.SASL_AUTHENTICATE: FEW,
    ApiKey.VOTE: FEW,
    ApiKey.BEGIN_QUORUM_EPOCH: FEW,
    ApiKey.END_QUORUM_EPOCH: FEW,
    ApiKey.ALTER_PARTITION: MANY,
    ApiKey.FETCH_SNAPSHOT: FEW,
    ApiKey.BROKER_REGISTRATION: 1_000,
    ApiKey.BROKER_HEARTBEAT: 1_000,
    ApiKey.ALLOCATE_PRODUCER_IDS: FEW,
}
NATIVE_SHARE: Final = 2
"""The native dialect's messages may have so many times fewer: they are read without compiled functions."""
RESPONSE_ELEMENTS_MAX: Final = 10_000_000
"""The same of a response, which comes from a broker one has chosen."""

REQUEST_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes of a request that carries no records: 20,000 names of 249 characters take five of them."""
TEXT_BYTES_PER_ELEMENT: Final = 256
"""In requests with records, which may be longer, so many bytes of a string count as one element more."""
HEADER_TAGS_MAX: Final = 64
"""Tagged fields of a header, of which none is known yet."""

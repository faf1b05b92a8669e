"""AllocateProducerIds, API key 67. Fields and defaults follow Apache Kafka's message definitions."""

from __future__ import annotations

from barnabas.protocol.requests import message


@message
class AllocateProducerIdsRequest:
    broker_id: int = 0
    broker_epoch: int = -1


@message
class AllocateProducerIdsResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id_start: int = 0
    producer_id_len: int = 0

"""`__consumer_offsets`, made when the first group asks for it.

Source: `AutoTopicCreationManager`, and `groupMetadataTopicConfigs` of `GroupCoordinatorService`.

It is compacted, has `offsets.topic.num.partitions`, and so many replicas as `offsets.topic.replication.factor` says.
A cluster waits for as many brokers as that, as Kafka does, or it would have fewer for good; a broker that stands alone
has one, which is said once. Both take any `offsets.topic.segment.bytes`, and no topic with less than 1 MiB: here it has
that, Kafka's groups have no coordinator.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.proposals import Proposals
from barnabas.broker.cluster.topic_rules import NewTopic, TopicResult
from barnabas.broker.config import BrokerConfig
from barnabas.broker.config.topics import OFFSETS_TOPIC
from barnabas.broker.jobs import Gate
from barnabas.protocol.errors import ErrorCode

SEGMENT_BYTES_MIN: Final = 1_048_576
"""Of any topic, `segment.bytes`."""

logger = logging.getLogger(__name__)


def is_offsets_topic(topics: Sequence[NewTopic], image: Image) -> bool:
    """Whether that one is to be made, and none beside it: no group is served before, so it waits for no client."""
    return len(topics) == 1 and topics[0].name == OFFSETS_TOPIC and OFFSETS_TOPIC not in image.topics


def lacks_brokers(image: Image, config: BrokerConfig) -> str:
    """Why a cluster cannot make it yet; "" if it can."""
    wanted, there = config.offsets_topic_replication_factor, len(image.alive_brokers())
    if there >= wanted:
        return ""
    return f"{OFFSETS_TOPIC} waits for {wanted} brokers (offsets.topic.replication.factor), of which {there} are there."


def create_offsets_topic(
    image: Image, config: BrokerConfig, controller: Proposals, creating: dict[str, Gate | None], *, alone: bool
) -> Gate | None:
    """Begin to make it, unless that is under way (`creating`); the gate opens when it is made, or cannot be.

    `alone`: there is one broker, and never another.
    """
    if OFFSETS_TOPIC in creating:
        return creating[OFFSETS_TOPIC]
    gate = creating[OFFSETS_TOPIC] = Gate()
    wanted = config.offsets_topic_replication_factor
    replicas = 1 if alone else wanted
    asked_bytes = config.offsets_topic_segment_bytes
    segment_bytes = max(asked_bytes, SEGMENT_BYTES_MIN)
    settings: dict[str, str | None] = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(segment_bytes),
    }

    def done(results: list[TopicResult]) -> None:
        creating.pop(OFFSETS_TOPIC, None)
        (result,) = results
        if result.error is None:
            told = f"{OFFSETS_TOPIC} is made, with replication factor {replicas}"
            if replicas < wanted:
                told += f" (offsets.topic.replication.factor={wanted} would need as many brokers)"
            if segment_bytes > asked_bytes:
                told += f" and segment.bytes={segment_bytes} (offsets.topic.segment.bytes={asked_bytes} is too small)"
            logger.info("the first group has asked: %s", told)
        elif result.error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            logger.error("%s cannot be made, so there are no groups: %s", OFFSETS_TOPIC, result.error)
        gate.open()

    topic = NewTopic(OFFSETS_TOPIC, config.offsets_topic_num_partitions, replicas, settings=settings)
    controller.create_topics([topic], False, done)
    return gate

"""What a producer tells of itself, by Kafka's names and by librdkafka's."""

from __future__ import annotations

from typing import Any

from barnabas.client.produce.accumulator import Accumulator
from barnabas.net.counts import Metrics


def metrics(accumulator: Accumulator) -> Metrics:
    """Kafka's `producer-metrics` besides those of the network, those of a topic in a group of its own."""
    pool = accumulator.pool
    topics = {
        f"producer-topic-metrics.{name}": {
            "record-send-total": float(topic.records_sent),
            "byte-total": float(topic.bytes_sent),
        }
        for name, topic in tuple(accumulator.topics.items())
    }
    return {
        "producer-metrics": {
            "record-send-total": float(accumulator.records_sent),
            "record-retry-total": float(accumulator.records_retried),
            "record-error-total": float(accumulator.records_failed),
            "batch-split-total": float(accumulator.batches_split),
            "buffer-total-bytes": float(pool.total_bytes),
            "buffer-available-bytes": float(pool.available_bytes),
            "waiting-threads": float(len(pool.waiters)),
        },
        **topics,
    }


def statistics(accumulator: Accumulator) -> dict[str, Any]:
    """Records without an outcome, and those sent, by librdkafka's names; queued batches by partition."""
    pool = accumulator.pool
    return {
        "type": "producer",
        "msg_cnt": accumulator.undelivered,
        "msg_size_max": pool.total_bytes,
        "txmsgs": accumulator.records_sent,
        "topics": {
            name: {
                "topic": name,
                "partitions": {
                    str(queue.where.partition): {
                        "partition": queue.where.partition,
                        "msgq_cnt": sum(batch.record_count for batch in tuple(queue.batches)),
                    }
                    for queue in tuple(topic.partitions)
                },
            }
            for name, topic in tuple(accumulator.topics.items())
        },
    }

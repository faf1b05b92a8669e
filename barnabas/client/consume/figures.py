"""What a consumer tells of itself, by Kafka's names and by librdkafka's."""

from __future__ import annotations

from typing import Any

from barnabas.client.consume.fetcher import Fetcher
from barnabas.client.consume.positions import Phase
from barnabas.net.counts import Metrics


def metrics(fetcher: Fetcher) -> Metrics:
    """Kafka's `consumer-fetch-manager-metrics`, those of a partition in a group of its own, as kafka-python does."""
    lags = {str(where): lag for where, each in fetcher.positions.items() if (lag := each.lag) is not None}
    name = "consumer-fetch-manager-metrics"
    return {
        name: {
            "fetch-total": float(fetcher.fetches),
            "bytes-consumed-total": float(fetcher.bytes_fetched),
            "records-consumed-total": float(fetcher.records_taken),
            "records-lag-max": float(max(lags.values(), default=0)),
        },
        "consumer-coordinator-metrics": {"assigned-partitions": float(len(fetcher.positions))},
        **{f"{name}.{where}": {"records-lag": float(lag)} for where, lag in lags.items()},
    }


def statistics(fetcher: Fetcher) -> dict[str, Any]:
    """Positions and lags of the assigned partitions, by librdkafka's names."""
    topics: dict[str, Any] = {}
    for where, position in fetcher.positions.items():
        topic = topics.setdefault(where.topic, {"topic": where.topic, "partitions": {}})
        topic["partitions"][str(where.partition)] = {
            "partition": where.partition,
            "fetch_state": "active" if position.phase is Phase.FETCHING else "offset-query",
            "app_offset": position.offset,
            "hi_offset": position.high_watermark,
            "consumer_lag": -1 if position.lag is None else position.lag,
        }
    return {"type": "consumer", "rxmsg_bytes": fetcher.bytes_fetched, "topics": topics}

"""What a consumer tells of itself, by Kafka's names and by librdkafka's."""

from __future__ import annotations

from typing import Any

from barnabas.client.consume.fetcher import Fetcher
from barnabas.client.consume.positions import Phase, Position
from barnabas.net.counts import Metrics


def metrics(fetcher: Fetcher) -> Metrics:
    """Kafka's `consumer-fetch-manager-metrics`, those of a partition in a group of its own, as kafka-python does."""
    lags = {str(where): lag for where, position in fetcher.positions.items() if (lag := _lag(position)) >= 0}
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
            "consumer_lag": _lag(position),
        }
    return {"type": "consumer", "rxmsg_bytes": fetcher.bytes_fetched, "topics": topics}


def _lag(position: Position) -> int:
    """Records not handed out yet; -1 while that is unknown."""
    known = position.offset >= 0 and position.high_watermark >= 0
    at = position.returned[0].offset if position.returned else position.offset
    return max(position.high_watermark - at, 0) if known else -1

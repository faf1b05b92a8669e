"""What a consumer tells of itself, by Kafka's names and by librdkafka's."""

from __future__ import annotations

from typing import Any

from barnabas.client.consume.core import ConsumerCore
from barnabas.client.consume.positions import Phase
from barnabas.net.counts import Metrics


def metrics(core: ConsumerCore) -> Metrics:
    """Kafka's `consumer-fetch-manager-metrics`, those of a partition in a group of its own, as kafka-python does."""
    fetcher = core.fetcher
    lags = {str(where): lag for where, each in fetcher.positions.items() if (lag := each.lag) is not None}
    name = "consumer-fetch-manager-metrics"
    return {
        name: {
            "fetch-total": float(fetcher.fetches),
            "bytes-consumed-total": float(fetcher.bytes_fetched),
            "records-consumed-total": float(fetcher.records_taken),
            "records-lag-max": float(max(lags.values(), default=0)),
        },
        "consumer-coordinator-metrics": {"assigned-partitions": float(len(fetcher.positions)), **_of_group(core)},
        **{f"{name}.{where}": {"records-lag": float(lag)} for where, lag in lags.items()},
    }


def _of_group(core: ConsumerCore) -> dict[str, float]:
    if core.group is None:
        return {}
    member = core.group.membership
    return {
        "heartbeat-total": float(member.heartbeats.sent),
        "rebalance-total": float(member.rebalances),
        "commit-total": float(core.group.offsets.commits),
    }


def statistics(core: ConsumerCore) -> dict[str, Any]:
    """Positions and lags of the assigned partitions, by librdkafka's names; of a group what its member does."""
    fetcher = core.fetcher
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
    told = {"type": "consumer", "rxmsg_bytes": fetcher.bytes_fetched, "topics": topics}
    if core.group is not None:
        member = core.group.membership
        told["cgrp"] = {
            "state": "up" if core.group.coordinator.known else "query-coord",
            "join_state": member.state.value,
            "rebalance_cnt": member.rebalances,
            "rebalance_reason": member.rejoin or "",
            "assignment_size": len(fetcher.positions),
        }
    return told

"""What an admin client is told of a cluster: plain values."""

from __future__ import annotations

from typing import Any, NamedTuple

from barnabas.protocol.ids import TopicPartition


class ClusterDescription(NamedTuple):
    """The cluster as one broker sees it."""

    cluster_id: str
    controller_id: int
    brokers: tuple[tuple[int, str, int], ...]
    """(id, host, port) of every broker."""
    racks: dict[int, str | None] = {}  # noqa: RUF012 - never changed
    """Where each stands, by id; None where it does not say."""


class ReplicaSize(NamedTuple):
    """What one partition takes in a log directory: bytes, and how many offsets it lags behind its high watermark."""

    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDir(NamedTuple):
    """A directory of logs. Bytes are -1 where the broker does not tell them."""

    path: str
    total_bytes: int
    usable_bytes: int
    replicas: dict[TopicPartition, ReplicaSize]


class ProducerState(NamedTuple):
    """An idempotent producer that a partition knows. Its last batch: sequence and time (ms since the epoch)."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    transaction_start_offset: int | None


class QuorumReplica(NamedTuple):
    """One replica of the metadata log. Times are ms since the epoch, None where it is not known."""

    replica_id: int
    log_end_offset: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


class QuorumDescription(NamedTuple):
    """Who keeps the metadata log."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


class Features(NamedTuple):
    """Features of the cluster: the levels in force, since which epoch; and (least, most) that the broker knows."""

    epoch: int
    finalized: dict[str, int]
    supported: dict[str, tuple[int, int]]


class TransactionListing(NamedTuple):
    """A transaction that a coordinator knows."""

    transactional_id: str
    producer_id: int
    state: str


class Reassignment(NamedTuple):
    """A partition whose replicas move."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


def replica(told: Any) -> QuorumReplica:
    """A replica as DescribeQuorum tells it."""
    fetched, caught_up = told.last_fetch_timestamp, told.last_caught_up_timestamp
    return QuorumReplica(
        told.replica_id, told.log_end_offset, fetched if fetched >= 0 else None, caught_up if caught_up >= 0 else None
    )

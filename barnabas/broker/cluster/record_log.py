"""Where the controller's records go: what it needs of the metadata log. The cluster's is a Raft log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from barnabas.broker.cluster.records import MetadataRecord
from barnabas.broker.jobs import Job
from barnabas.protocol.errors import KafkaError

Commit = Callable[[KafkaError | None], None]
"""Hears whether something is on stable storage, or why not."""


class RecordLog(Protocol):
    """Takes records, one operation after the other."""

    def append(self, records: Sequence[MetadataRecord], committed: Commit) -> None:
        """Append the records as one unit and call `committed` later, in the order of the appends.

        Raises:
            KafkaError: nothing was appended.
        """

    def append_in_steps(self, records: Sequence[MetadataRecord], committed: Commit) -> Job[None]:
        """As `append`, in bounded steps; nobody else may append meanwhile."""

    def keep_producer_ids(self, end: int, kept: Commit) -> None:
        """Note down in a second place that ids below `end` may be given out; `kept` hears of it later."""

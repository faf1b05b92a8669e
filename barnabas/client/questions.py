"""What a consumer can be asked besides records: offsets, partitions, figures, health. One base of the asyncio form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, SupportsIndex

from barnabas.client.arguments import checked_partitions, milliseconds, shown
from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.consume.core import ConsumerCore
from barnabas.client.consume.group.health import Health, health_of
from barnabas.client.consume.lookups import ISOLATION
from barnabas.client.epoch_ends import epoch_ends
from barnabas.client.handle import Handle
from barnabas.client.offsets import OffsetAndTimestamp, lookup, wait_for_data
from barnabas.client.sizes import BatchSize, batch_sizes
from barnabas.net.counts import Metrics
from barnabas.net.errors import ConfigError
from barnabas.net.host.connection import Client
from barnabas.net.topology import Cluster
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

UNKNOWN_MS: Final = 1000
"""So long a topic may be unknown that somebody asks about: it was made a moment ago, or is made by being asked for."""


class Questions(Handle):
    """The questions of `AsyncConsumer`, which has the client and the core."""

    config: ConsumerConfig
    _client: Client
    _core: ConsumerCore

    def health(self) -> Health:
        """How it is: its state, assignment and lag, its group's coordinator, when it was last asked, what is wrong."""
        return health_of(self._core, self._client.now_ms())

    def cluster(self) -> Cluster:
        """What is known of the cluster at present, a snapshot: brokers, and the topics in use with their ids."""
        return self._client.cluster

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each partition."""
        return await self._offsets_at(checked_partitions(partitions, "beginning_offsets"), EARLIEST_TIMESTAMP)

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset behind the last readable record of each partition (the last stable one with read_committed)."""
        return await self._offsets_at(checked_partitions(partitions, "end_offsets"), LATEST_TIMESTAMP)

    async def _offsets_at(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        found = await self._lookup(dict.fromkeys(partitions, timestamp))
        return {where: answer.offset for where, answer in found.items()}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each timestamp (ms since the epoch), None where there is none so young."""
        wanted = dict(zip(checked_partitions(timestamps, "offsets_for_times"), timestamps.values(), strict=True))
        for where, timestamp in wanted.items():
            if not isinstance(timestamp, SupportsIndex):
                told = (
                    f"offsets_for_times: {shown(timestamp)} of {where} is no time in whole milliseconds since the epoch"
                )
                raise ConfigError(f"{told}; give int(1000 * seconds)")
            if timestamp < 0:
                raise ConfigError(f"offsets_for_times: the timestamp {timestamp} of {where} is negative")
        found = await self._lookup(wanted)
        return {where: answer if answer.offset >= 0 else None for where, answer in found.items()}

    async def _lookup(self, targets: dict[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp]:
        return await lookup(self._client, targets, ISOLATION[self.config.isolation_level])

    def high_watermark(self, where: TopicPartition) -> int:
        """The high watermark the last answer told of an assigned partition, -1 before the first."""
        return self._core.fetcher.position_of(where).high_watermark

    async def partitions_for(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions. A topic that is unknown may be on its way: it is asked for for a second.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, or the topic is refused.
            ClientTimeout: no broker answered within `default.api.timeout.ms`.
        """
        limit_ms, passed_ms = self.config.default_api_timeout_ms, 0
        began_ms = self._client.now_ms()
        while passed_ms <= min(UNKNOWN_MS, limit_ms):
            cluster = await self._client.refresh_metadata([topic], limit_ms - passed_ms)
            if infos := cluster.partitions_for(topic):
                return [info.partition for info in infos]
            passed_ms = self._client.now_ms() - began_ms
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic)

    def metrics(self) -> Metrics:
        """Figures in groups, by Kafka's names: `metrics()["consumer-fetch-manager-metrics"]["records-lag-max"]`."""
        return self._client.metrics("consumer")

    async def wait_for_data(self, offsets: Mapping[TopicPartition, int], timeout: float) -> bool:
        """Whether a partition has a record at its offset or beyond; waits at the brokers up to `timeout` seconds."""
        self._client.check_started()
        wanted = dict(zip(checked_partitions(offsets, "wait_for_data"), offsets.values(), strict=True))
        return await wait_for_data(self._client, wanted, milliseconds(timeout) or 0)

    async def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offset behind the last record of a leader epoch or of those before it, of each partition that tells."""
        self._client.check_started()
        wanted = dict(zip(checked_partitions(epochs, "epoch_ends"), epochs.values(), strict=True))
        return await epoch_ends(self._client, wanted)

    async def batch_sizes(
        self, offsets: Mapping[TopicPartition, int], bytes_max: int
    ) -> dict[TopicPartition, list[BatchSize]]:
        """The next batches from an offset on, and how large they are: what `bytes_max` of each partition tell."""
        self._client.check_started()
        wanted = dict(zip(checked_partitions(offsets, "batch_sizes"), offsets.values(), strict=True))
        return await batch_sizes(self._client, wanted, bytes_max)

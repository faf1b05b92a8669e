"""What the member does that leads: it knows everybody's topics, and shares out their partitions."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.client.consume.group import messages
from barnabas.client.consume.group.assignors import Assignor, Shares
from barnabas.net.metadata import Metadata
from barnabas.protocol.requests.join_group import JoinGroupResponseMember


class Leading:
    """One generation, as its leader sees it."""

    def __init__(
        self, metadata: Metadata, assignor: Assignor, told: Iterable[JoinGroupResponseMember], now_ms: int
    ) -> None:
        """Topics that are not known are asked for once."""
        self._metadata = metadata
        self._assignor = assignor
        self._members = [messages.member_of(each, assignor.name) for each in told]
        self._counts = dict.fromkeys({topic for member in self._members for topic in member.topics}, 0)
        self._counts = self._count()
        missing = self._counts.keys() - metadata.cluster.topics.keys()
        self._version = metadata.add_topics(self._counts, now_ms) if missing else -1
        if missing and not metadata.update_requested:
            metadata.request_update()

    def shares(self) -> Shares | None:
        """Everybody's share; None until metadata came.

        Raises:
            ConfigError: a program's own way to share failed.
        """
        if self._metadata.version <= self._version:
            return None
        self._counts = self._count()
        partitions = {topic: count for topic, count in self._counts.items() if count}
        members, self._members = self._members, []
        return self._assignor.share(partitions, members)

    @property
    def outdated(self) -> bool:
        """Whether topics or partitions came or went since it shared out."""
        return self._count() != self._counts

    def _count(self) -> dict[str, int]:
        cluster = self._metadata.cluster
        return {topic: len(cluster.partitions_for(topic)) for topic in self._counts}

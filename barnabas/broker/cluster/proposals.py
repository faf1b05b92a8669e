"""What a broker may ask of the controller, wherever that is: here, or, in a cluster, on the broker that was elected.

An answer comes once, now or later, when what was decided is committed (or refused). Who asks reads the committed image,
never the controller. What only a controller does with its own log stays beside it (`controller.LocalController`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from barnabas.broker.cluster.config_rules import Alteration
from barnabas.broker.cluster.features import Update
from barnabas.broker.cluster.producer_ids import BlockSource
from barnabas.broker.cluster.reassignment import Move
from barnabas.broker.cluster.record_log import Commit
from barnabas.broker.cluster.topic_rules import NewTopic, TopicResult
from barnabas.broker.ports import Controller
from barnabas.protocol.errors import KafkaError


class Proposals(Controller, BlockSource, Protocol):
    """The controller as handlers see it (`ports.Controller` is how partitions see it)."""

    def create_topics(
        self,
        topics: Sequence[NewTopic],
        validate_only: bool,
        done: Callable[[list[TopicResult]], None],
        take_turn: Callable[[], bool] = ...,
    ) -> None:
        """Create topics; each on its own succeeds or fails. `done` gets one result per topic, in order.

        `take_turn` is asked when it begins; on False nothing is done, and `done` not called.
        """

    def delete_topics(self, topic_ids: Sequence[bytes], done: Callable[[list[TopicResult]], None]) -> None:
        """Delete topics by id, each at most once in a call."""

    def create_partitions(
        self,
        topics: Sequence[tuple[str, int, Sequence[Sequence[int]] | None]],
        validate_only: bool,
        done: Callable[[list[TopicResult]], None],
    ) -> None:
        """Bring topics, each named once, to a number of partitions: (name, count, replicas of the new ones)."""

    def alter_configs(
        self,
        resources: Sequence[tuple[int, str, Sequence[Alteration]]],
        validate_only: bool,
        done: Callable[[list[KafkaError | None]], None],
    ) -> None:
        """Change settings of resources, each named once: (type, name, changes). One error or None per resource."""

    def update_features(self, updates: Sequence[Update], validate_only: bool, done: Commit) -> None:
        """Bring features, each named once, to other levels: all of them, or, for a KafkaError, none."""

    def reassign(
        self, moves: Sequence[Move], may_resize: bool, done: Callable[[list[KafkaError | None]], None]
    ) -> None:
        """Move partitions, each named once, or give up what is under way; one error or None for each, in order."""

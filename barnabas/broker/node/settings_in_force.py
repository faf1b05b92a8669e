"""The settings in force: the broker's, as clients changed them, and of each topic, as it has them from both."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from barnabas.broker.cluster.dynamic import refresh
from barnabas.broker.cluster.image import Delta
from barnabas.broker.config import TopicConfig
from barnabas.broker.config.topic_config import stored_topic_config
from barnabas.broker.jobs import Job
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.node.core import Core

AT_ONCE_MAX: Final = 20
"""Topics whose settings are put in force in one step: about 100 µs each, and some for each partition."""

logger = logging.getLogger(__name__)


class SettingsInForce:
    """Follows the metadata. `stored`: whether the broker's settings that were stored while it ran are in force."""

    def __init__(self, core: Core, stored: bool) -> None:
        self._core = core
        self.stored = stored
        self._topics: dict[str, TopicConfig] = {}
        """Settings by topic, shared by its partitions; forgotten as soon as any topic's, or the broker's, change."""

    def of(self, partition: TopicPartition) -> TopicConfig:
        """What holds for a partition."""
        config = self._topics.get(partition.topic)
        if config is None:
            core = self._core
            config = stored_topic_config(core.config, core.image.topic_overrides(partition.topic))
            self._topics[partition.topic] = config
        return config

    def heard(self, delta: Delta) -> None:
        """Metadata has changed, and the image has it already."""
        if delta.topic_configs or delta.removed:
            self._topics.clear()
        if delta.broker_configs:
            self.refresh()

    def refresh(self) -> None:
        """Put the dynamic settings of the metadata in force."""
        core = self._core
        changed = refresh(core.config, core.static_config, core.image) if self.stored else []
        self._topics.clear()
        if changed:
            logger.info("dynamic settings changed: %s", ", ".join(changed))
            self.put_in_force(list(core.image.topics))

    def put_in_force(self, topics: Sequence[str]) -> None:
        """Have the logs of these topics go by what holds now."""
        if len(topics) > AT_ONCE_MAX:
            self._core.jobs.add("settings", self._in_steps(topics))
            return
        core = self._core
        for topic in topics:
            state = core.image.topics.get(topic)
            for key in () if state is None else state.keys.values():
                core.logs.set_config(key, self.of(key))

    def _in_steps(self, topics: Sequence[str]) -> Job[None]:
        for start in range(0, len(topics), AT_ONCE_MAX):
            self.put_in_force(topics[start : start + AT_ONCE_MAX])
            yield None

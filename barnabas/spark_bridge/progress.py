"""How far a query is, as a group's committed offsets: for tools that show lag. Nothing is ever read from them.

Spark itself commits no offsets, for its checkpoint holds them. The option `commitGroup` names a group to which the
planner commits when Spark next asks for the latest offsets: what lies below has been processed by then, and an idle
query shows no lag. A commit that fails is told of once and tried again; it never ends the query.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from barnabas.client.consumer import Consumer
from barnabas.protocol.errors import BarnabasError
from barnabas.spark_bridge.offsets import Offsets

log = logging.getLogger(__name__)

COMMIT_S: Final = 2.0
"""So long a commit may take: the next batch waits for it."""
AGAIN_MS: Final = 5_000
"""So long after a commit that failed the next one is tried."""


class Progress:
    """Commits to one group, without becoming a member of it. Connects on first use; `close` ends it."""

    def __init__(self, group: str, settings: Mapping[str, Any], consumer: Callable[..., Consumer] = Consumer) -> None:
        self._group = group
        self._settings = {**settings, "group.id": group, "enable.auto.commit": False}
        self._make = consumer
        self._consumer: Consumer | None = None
        self._committed: Offsets = {}
        self._not_before_ms: int | None = None

    def reached(self, offsets: Offsets, now_ms: int) -> None:
        """The query has processed what lies below these offsets."""
        if offsets == self._committed or (self._not_before_ms is not None and now_ms < self._not_before_ms):
            return
        try:
            if self._consumer is None:
                self._consumer = self._make(config=self._settings)
            self._consumer.commit(offsets, timeout=COMMIT_S)
        except BarnabasError as error:
            if self._not_before_ms is None:
                log.warning(
                    "commitGroup: progress is not seen in the group %s, the query goes on: %s", self._group, error
                )
            self._not_before_ms = now_ms + AGAIN_MS
        else:
            self._committed, self._not_before_ms = dict(offsets), None

    def close(self) -> None:
        """Closes the connection."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

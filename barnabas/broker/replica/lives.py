"""A broker was fenced, or is here again: what waited for one that is gone waits no more.

A leader's high watermark waits for whoever is in sync, and for whoever may be soon: has caught up of late, and is
alive. Of many partitions ISRs change in slices before the fence (`cluster/leadership`), so that one who has left them
counts as alive still. Apache Kafka's brokers see both in one change.
"""

from __future__ import annotations

import logging
from typing import Final

from barnabas.broker.jobs import Job
from barnabas.broker.replica.hosted import HostedPartitions
from barnabas.broker.replica.shared import Shared, run_to_its_end

LOOKED_AT_ONCE: Final = 1000
RISEN: Final = 20
"""One whose high watermark rises counts for so many: all who wait for it are asked."""

logger = logging.getLogger(__name__)


class Lives:
    """Looks at all partitions of one broker, however often others come and go meanwhile in one job."""

    def __init__(self, shared: Shared, hosted: HostedPartitions) -> None:
        self._shared = shared
        self._hosted = hosted
        self._changed = self._looking = False
        self._now_ms = 0

    def changed(self, now_ms: int) -> None:
        """The image has it already."""
        self._changed, self._now_ms = True, now_ms
        if not self._looking:
            self._looking = True
            run = self._shared.run if len(self._hosted.online) * RISEN > LOOKED_AT_ONCE else run_to_its_end
            run(self._look(), self._ended)

    def _look(self) -> Job[None]:
        while self._changed:
            self._changed = False
            looked_at = 0
            for partition in list(self._hosted.online.values()):
                looked_at += 1
                if partition.is_leader and partition.advance_high_watermark(self._now_ms):
                    partition.check_all(self._now_ms)
                    looked_at += RISEN
                if looked_at >= LOOKED_AT_ONCE:
                    looked_at = 0
                    yield None

    def _ended(self, fault: Exception | None) -> None:
        self._looking = False
        if fault is not None:
            logger.error("not all high watermarks were looked at", exc_info=fault)

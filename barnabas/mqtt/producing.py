"""The producer of a bridge, and the next one in its place when it cannot go on.

A producer whose id Kafka refuses or has fenced fails every record from then on, as Kafka's own does. Who handed records
over sends them again, later and later; with a new producer they go as soon as Kafka takes them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from barnabas.aio import Producer

RENEW_SECONDS: Final = 1.0
"""From a producer's end to the next one: Kafka is not asked for ids without a pause."""

log = logging.getLogger(__name__)


class Producing:
    """`now` is the producer of the moment; `make` makes them."""

    def __init__(self, make: Callable[[], Producer]) -> None:
        self.now = make()
        self._make = make
        self._renewing: asyncio.Task[None] | None = None

    def renew(self) -> None:
        """Some record failed: if none can go any more, put another producer in this one's place, soon."""
        if self.now.failed is not None and self._renewing is None:
            self._renewing = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        try:
            await asyncio.sleep(RENEW_SECONDS)
            old, self.now = self.now, await self._make().start()
            log.warning("the producer could not go on, and there is a new one: %s", old.failed)
            await old.close(0)
        finally:
            self._renewing = None

    async def close(self, seconds: float) -> None:
        """Send what is left, for a bounded time."""
        renewing = self._renewing
        if renewing is not None:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
        await self.now.close(seconds)

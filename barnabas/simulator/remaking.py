"""A topic that is deleted while it is written to, made anew under its name, and given more partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from barnabas.net.errors import ClientTimeout
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.brokers import Brokers
from barnabas.simulator.history import Acknowledged, Agreed, Event, KeptAnew, Remade
from barnabas.simulator.machine import Machine
from barnabas.simulator.operating import admin_of
from barnabas.simulator.workload import ClientProcess, Reading, Reviewing, Sending, Tell
from barnabas.simulator.world import MS, World

ANEW: Final = "anew"
LEAST_KEYS: Final = (TopicPartition(ANEW, 0), TopicPartition(ANEW, 1))
"""Partitions that it always has."""
SENDING: Final[Mapping[str, Any]] = {
    "max_in_flight_requests_per_connection": 1,  # what one producer sends stays in order
    "request_timeout_ms": 1000,
    "delivery_timeout_ms": 8000,
    "max_block_ms": 1000,
}
_FIRST_MS: Final = 2000
_PAUSE_MS_MAX: Final = 9000
_MOST: Final = 4
_AGAIN_S: Final = 1.0
_LOOK_MS: Final = 50


class Remaking(ClientProcess):
    """Deletes it, makes it or leaves that to whoever writes to it, gives it more partitions; in the end it is there."""

    def __init__(self, machine: Machine, server: str, tell: Tell, until_ns: int) -> None:
        super().__init__(machine, tell)
        self._server = server
        self._until_ns = until_ns
        self._chance = machine.world.chance(f"topics of {machine.name}")

    async def _run(self) -> None:
        chance, world = self._chance, self.machine.world
        await asyncio.sleep(_FIRST_MS / 1000)
        admin = await admin_of(self.machine, self._server)
        try:
            while world.now_ns < self._until_ns:
                with suppress(KafkaError, ClientTimeout):
                    if chance.randrange(3) == 0:
                        await admin.create_partitions(ANEW, chance.randrange(len(LEAST_KEYS) + 1, _MOST + 1))
                        world.count("topics given more partitions")
                    else:
                        await admin.delete_topic(ANEW)
                        world.count("topics deleted")
                        if chance.randrange(2):
                            await admin.create_topic(ANEW, partitions=chance.randrange(len(LEAST_KEYS), _MOST))
                await asyncio.sleep(chance.randrange(1, _PAUSE_MS_MAX) / 1000)
            while ANEW not in await self._topics(admin):
                with suppress(KafkaError, ClientTimeout):
                    await admin.create_topic(ANEW, partitions=len(LEAST_KEYS))
                await asyncio.sleep(_AGAIN_S)
        finally:
            await admin.close()

    async def _topics(self, admin: Any) -> list[str]:
        with suppress(KafkaError, ClientTimeout):
            return await admin.list_topics()  # type: ignore[no-any-return]
        return []


class SendingAnew(Sending):
    """Writes to it. At which offset is not told: it is one of this topic or of another one."""

    def __init__(self, machine: Machine, server: str, tell: Tell, until_ns: int) -> None:
        def without_offset(event: Event) -> None:
            tell(event._replace(offset=-1) if isinstance(event, Acknowledged) else event)

        super().__init__(machine, server, list(LEAST_KEYS), SENDING, without_offset, until_ns, 0, once=False)


class ReadingAnew(Reading):
    """Reads it, whichever it is; what comes of that is told to nobody."""

    def __init__(self, machine: Machine, server: str) -> None:
        super().__init__(machine, server, list(LEAST_KEYS), {}, lambda event: None)


class ReviewingAnew(Reviewing):
    """Reads at the end what is in it."""

    def tell(self) -> None:
        """Tell what was read."""
        for partition, records in self._kept.items():
            self._review(KeptAnew(partition, tuple(records)))


class AnewWatch:
    """Waits, once it is made anew, until all brokers that run know that one and no earlier one."""

    def __init__(self, world: World, brokers: Brokers, tell: Tell) -> None:
        self._world = world
        self._brokers = brokers
        self._tell = tell
        self._newest = b""

    def remade(self, event: Remade) -> None:
        """There is another one."""
        self._world.count("topics made anew")
        self._newest = event.topic_id
        self._look(event)

    def _look(self, event: Remade) -> None:
        if event.topic_id != self._newest:
            return
        images = [one.core.image for one in self._brokers.all if one.core is not None]
        if images and all(event.topic_id in image.topics_by_id for image in images):
            self._tell(Agreed(event.topic))
        else:
            self._world.after(_LOOK_MS * MS, lambda: self._look(event))

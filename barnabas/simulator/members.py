"""Members of a consumer group, which are paused and killed, and whoever keeps a number in a group's offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from barnabas.client.async_consumer import AsyncConsumer
from barnabas.net.errors import ClientTimeout
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.history import Handed
from barnabas.simulator.machine import Machine
from barnabas.simulator.workload import ClientProcess, Tell, started

GROUP: Final = "g"
COUNTERS: Final = "counters"
"""A group without members."""
_POLL_S: Final = 1.0
_COMMIT_S: Final = 3.0


class Member(ClientProcess):
    """Subscribes, polls, and commits in a way of its own: by itself, each poll, or without waiting for the answer."""

    def __init__(
        self, machine: Machine, server: str, topic: str, settings: Mapping[str, Any], tell: Tell, until_ns: int
    ) -> None:
        """It is slow at times until `until_ns`."""
        super().__init__(machine, tell)
        self.handed: dict[TopicPartition, int] = {}
        self._server = server
        self._topic = topic
        self._settings = dict(settings)
        self._until_ns = until_ns
        self._chance = machine.world.chance(f"member {machine.name}")

    def pause(self) -> None:
        """Stop it where it stands (SIGSTOP)."""
        self._loop.pause()

    def resume(self) -> None:
        """Let it go on."""
        self._loop.resume()

    def kill(self) -> None:
        """End the process (SIGKILL); nobody leaves the group."""
        self._loop.kill()
        self._loop.close_tasks([] if self._task is None else [self._task])
        self._task = None

    def restart(self) -> None:
        """Begin another process, which is another member."""
        if self._loop.is_closed():
            self._loop = self.machine.new_loop(self.machine.name)
            self.start()

    async def _run(self) -> None:
        auto = self._settings.get("enable_auto_commit", True)
        consumer = await started(
            self.machine, self._server, self._topic, auto_offset_reset="earliest", group_id=GROUP, **self._settings
        )
        try:
            while True:
                await self._poll(consumer, auto)
        except asyncio.CancelledError:
            await consumer.close(0)

    async def _poll(self, consumer: AsyncConsumer, auto: bool) -> None:
        records = await consumer.poll(_POLL_S)
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            self.handed[partition] = max(self.handed.get(partition, 0), record.offset + 1)
            self._tell(Handed(GROUP, self.machine.name, partition, record.offset))
        if records and not auto and self._chance.randrange(2):
            with suppress(KafkaError, ClientTimeout):  # somebody else goes on where the last commit was
                if self._chance.randrange(3):
                    await consumer.commit(timeout=_COMMIT_S)
                else:
                    consumer.commit_async(on_commit=lambda offsets, error: None)
        if self._chance.randrange(30) == 0 and self.machine.world.now_ns < self._until_ns:
            await asyncio.sleep(self._chance.randrange(1, 4000) / 1000)  # works on what it was given


class Keeping(ClientProcess):
    """Commits a number that rises, and asks for it, as a member of nothing; it alone commits in its group."""

    def __init__(
        self, machine: Machine, server: str, partition: TopicPartition, tell: Tell, group: str = COUNTERS
    ) -> None:
        super().__init__(machine, tell)
        self._server = server
        self._partition = partition
        self._group = group
        self._chance = machine.world.chance(f"keeper {machine.name}")

    async def _run(self) -> None:
        number = 0
        consumer = await started(self.machine, self._server, group_id=self._group)
        consumer.assign([self._partition])
        consumer.pause(self._partition)
        try:
            while True:
                with suppress(KafkaError, ClientTimeout):
                    if self._chance.randrange(2):
                        number += 1
                        await consumer.commit({self._partition: number}, timeout=_COMMIT_S)
                    else:
                        await consumer.committed([self._partition], timeout=_COMMIT_S)
                await asyncio.sleep(self._chance.randrange(1, 2500) / 1000)
        except asyncio.CancelledError:
            await consumer.close(0)

"""Somebody who moves partitions between brokers while everything goes wrong, and takes it back again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from barnabas.client.async_admin import AsyncAdmin
from barnabas.net.config import ClientConfig
from barnabas.net.errors import ClientTimeout
from barnabas.net.host.connection import Client
from barnabas.net.host.surroundings import Surroundings
from barnabas.net.metadata import Metadata
from barnabas.protocol.errors import KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.machine import Machine
from barnabas.simulator.workload import ClientProcess, Tell

_FIRST_MS: Final = 3000
"""The topic is made by then, if brokers are well."""
_PAUSE_MS_MAX: Final = 6000
_AGAIN_S: Final = 1.0
_CALL_MS: Final = 5000


class _Admin(AsyncAdmin):
    """The shipped client, on a machine of the world."""

    def __init__(self, server: str, surroundings: Surroundings) -> None:
        self.config = ClientConfig.of(
            None, bootstrap_servers=server, default_api_timeout_ms=_CALL_MS, request_timeout_ms=_CALL_MS // 2
        )
        metadata = Metadata(self.config, surroundings.uniform, allow_auto_create=False)
        self._client = Client(self.config, metadata, surroundings=surroundings)


async def admin_of(machine: Machine, server: str) -> AsyncAdmin:
    """A client that has started, however long no broker is there for it."""
    while True:
        admin = _Admin(server, machine.surroundings())
        with suppress(ClientTimeout):  # what did not start is closed
            await admin.start()
            return admin


class Moving(ClientProcess):
    """Has partitions moved to two brokers or to all, in any order, and gives some of it up; in the end all have all."""

    def __init__(
        self, machine: Machine, server: str, partitions: list[TopicPartition], brokers: int, tell: Tell, until_ns: int
    ) -> None:
        super().__init__(machine, tell)
        self._server = server
        self._partitions = partitions
        self._brokers = list(range(1, brokers + 1))
        self._until_ns = until_ns
        self._chance = machine.world.chance(f"moves of {machine.name}")

    async def _run(self) -> None:
        chance, world = self._chance, self.machine.world
        await asyncio.sleep(_FIRST_MS / 1000)
        admin = await admin_of(self.machine, self._server)
        try:
            while world.now_ns < self._until_ns:
                some = [one for one in self._partitions if chance.randrange(2)] or self._partitions
                if chance.randrange(4) == 0:
                    await self._ask(admin, dict.fromkeys(some), "moves given up")
                else:
                    await self._ask(admin, {one: self._target() for one in some}, "moves begun")
                await asyncio.sleep(chance.randrange(1, _PAUSE_MS_MAX) / 1000)
            back = False
            while not back:
                back = await self._ask(admin, dict.fromkeys(self._partitions, self._brokers), "moves back")
                await asyncio.sleep(_AGAIN_S)
        finally:
            await admin.close()

    def _target(self) -> list[int]:
        return self._chance.sample(self._brokers, self._chance.choice((len(self._brokers), len(self._brokers) - 1)))

    async def _ask(self, admin: AsyncAdmin, moves: dict[TopicPartition, list[int] | None], count: str) -> bool:
        """Whether all of it was taken."""
        try:
            outcomes = await admin.alter_partition_reassignments(moves)
        except (KafkaError, ClientTimeout):
            return False
        taken = sum(1 for error in outcomes.values() if error is None)
        self.machine.world.count(count, taken)
        return taken == len(moves)

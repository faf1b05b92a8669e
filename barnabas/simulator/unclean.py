"""A topic that lets a replica lead that was not in sync: what is lost with that is lost, and everything else holds."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from barnabas.broker.log import Log
from barnabas.net.errors import ClientTimeout
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.brokers import Brokers
from barnabas.simulator.device import Device
from barnabas.simulator.history import Acknowledged, Certain, Decided, Event, KeptUncertain, Uncertain
from barnabas.simulator.machine import Machine
from barnabas.simulator.operating import admin_of
from barnabas.simulator.plan import LOOSE, LOOSE_HOMES
from barnabas.simulator.remaking import SENDING
from barnabas.simulator.sight import Sight
from barnabas.simulator.workload import Reviewing, Sending, Tell
from barnabas.simulator.world import MS, World

LOOSE_KEY: Final = TopicPartition(LOOSE, 0)
_SETTINGS: Final = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
_OFTENER: Final = 4
"""Than others it sends, for the moments that count are short."""
_AGAIN_S: Final = 0.5
_LOOK_MS: Final = 50


class SendingLoose(Sending):
    """Makes the topic, has it on the two brokers that its story is about, and writes to it.

    At which offset is not told: another record may be there one day.
    """

    def __init__(self, machine: Machine, server: str, tell: Tell, until_ns: int) -> None:
        def without_offset(event: Event) -> None:
            if isinstance(event, Acknowledged):
                self.promised.add(event.value)
                event = event._replace(offset=-1)
            tell(event)

        super().__init__(machine, server, [LOOSE_KEY], SENDING, without_offset, until_ns, 0, once=False)
        self.promised: set[bytes] = set()
        self._pace_ms = max(self._pace_ms // _OFTENER, 1)

    async def _run(self) -> None:
        admin = await admin_of(self.machine, self._server)
        try:
            made = False
            while not made:
                made = await self._is_made(admin)
                await asyncio.sleep(_AGAIN_S)
        finally:
            await admin.close()
        await super()._run()

    async def _is_made(self, admin: Any) -> bool:
        try:
            await admin.create_topic(LOOSE, partitions=1, replication_factor=2, config=_SETTINGS, if_absent=True)
            outcomes = await admin.alter_partition_reassignments({LOOSE_KEY: list(LOOSE_HOMES)})
        except (KafkaError, ClientTimeout):
            return False
        error = outcomes[LOOSE_KEY]
        return error is None or error.code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


class ReviewingLoose(Reviewing):
    """Reads at the end what is in it."""

    def tell(self) -> None:
        """Tell what was read."""
        for partition, records in self._kept.items():
            self._review(KeptUncertain(partition, tuple(records)))

    def lost(self, promised: set[bytes]) -> int:
        """How many of these are not there."""
        return len(promised.difference(value for records in self._kept.values() for _, value in records))


class UncleanWatch:
    """Hears of a topic's elections; waits after an unclean one until all brokers that run know of it."""

    def __init__(self, world: World, brokers: Brokers, tell: Tell) -> None:
        self._world = world
        self._brokers = brokers
        self._tell = tell
        self._last: dict[TopicPartition, Decided] = {}
        self._newest: dict[TopicPartition, int] = {}

    def decided(self, event: Decided) -> None:
        """The controller has decided something of a partition of a topic that lets anyone lead."""
        before = self._last.get(event.partition)
        self._last[event.partition] = event
        if before is None or event.leader in ("", before.leader, *before.isr, *before.elr):
            return
        if event.leader not in before.replicas:  # a move that ends took the leader away
            return
        self._world.count("elections of an unclean leader", event.leader not in before.last_known)
        self._newest[event.partition] = event.leader_epoch
        self._tell(Uncertain(event.partition))
        self._look(event)

    def _look(self, event: Decided) -> None:
        key = event.partition
        if self._newest[key] != event.leader_epoch:
            return
        states = [one.core.image.partition(*key) for one in self._brokers.all if one.core is not None]
        if states and all(one is not None and one.leader_epoch >= event.leader_epoch for one in states):
            self._tell(Certain(key))
        else:
            self._world.after(_LOOK_MS * MS, lambda: self._look(event))


def batches_of(device: Device, log: Log) -> tuple[tuple[int, int, int, int], ...]:
    """All batches of a log: first and last offset, leader epoch, sum."""
    found = Sight().up_to(device, log, log.log_end_offset)
    return tuple((one.base_offset, one.last_offset, one.leader_epoch, one.crc) for one, _ in found)

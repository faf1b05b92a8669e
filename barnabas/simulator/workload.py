"""Clients of a run: the shipped producer and consumer, each on a machine of its own, and what they are asked to do."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from barnabas.client.async_consumer import AsyncConsumer
from barnabas.client.async_producer import AsyncProducer
from barnabas.client.futures import RecordFuture
from barnabas.net.errors import ClientTimeout
from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.history import Acknowledged, Event, Failed, Kept, Polled, Sent
from barnabas.simulator.machine import Machine
from barnabas.simulator.world import MS

Tell = Callable[[Event], None]

_BURSTS: Final = (15, 25, 40)
"""In so many bursts of some records a producer sends until the faults are over, however long that is."""
_PENDING_MAX: Final = 200
"""A producer that has so many records without an outcome waits before it sends more."""
_HURRY_MS: Final = 100
"""How often it sends what is missing, once the faults are over."""
_LARGE_BYTES: Final = 20_000
_HEAVY_BYTES: Final = 150_000
"""More than a broker packs anew on its loop; sent, it is next to nothing."""
_POLL_S: Final = 5.0


class ClientProcess(ABC):
    """A client on a machine of its own, which does one thing from its start to its end."""

    def __init__(self, machine: Machine, tell: Tell) -> None:
        self.machine = machine
        self._tell = tell
        self._loop = machine.new_loop(machine.name)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._run())
        self._task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.machine.world.fail(f"an error that nobody caught: {self.machine.name}: {error!r}")

    @abstractmethod
    async def _run(self) -> None:
        """What it does."""

    @property
    def ended(self) -> bool:
        """Whether all is done."""
        return self._task is not None and self._task.done()

    @property
    def runs(self) -> bool:
        """Whether it has begun and is not done."""
        return self._task is not None and not self._task.done()

    def cancel(self) -> None:
        """Have it come to its end."""
        if self._task is not None:
            self._loop.call_soon(self._task.cancel)

    def end_process(self) -> None:
        """Nothing of it runs from now on, nor when Python lets go of it."""
        self._loop.kill()
        self._loop.close_tasks([] if self._task is None else [self._task])


class Sending(ClientProcess):
    """A producer that sends records, each with a value of its own, and tells what became of them."""

    def __init__(
        self,
        machine: Machine,
        server: str,
        partitions: list[TopicPartition],
        settings: Mapping[str, Any],
        tell: Tell,
        until_ns: int,
        least: int,
        *,
        once: bool,
        heavy: bool = False,
    ) -> None:
        """It sends until that time, and on until at least so many records are acknowledged.

        `once`: they are to be there once and in order (`Plan.promises_once`). `heavy`: some are (`Plan`).
        """
        super().__init__(machine, tell)
        self.acknowledged = 0
        self._until_ns = until_ns
        self._least = least
        self._server = server
        self._settings = settings
        self._once = once
        self._heavy = heavy
        self._partitions = partitions
        self._chance = machine.world.chance(f"records of {machine.name}")
        self._pace_ms = max(until_ns // MS // self._chance.choice(_BURSTS), 1)
        self._pending = 0
        self._told = asyncio.Event()
        self._sent = 0

    async def _run(self) -> None:
        world = self.machine.world
        surroundings = self.machine.surroundings()
        producer = AsyncProducer(bootstrap_servers=self._server, surroundings=surroundings, **self._settings)
        await producer.start()
        try:
            while world.now_ns < self._until_ns or self.acknowledged < self._least:
                for _ in range(self._chance.choice((1, 2, 5, 16))):
                    await self._send(producer, self._chance.choice(self._partitions))
                if self._heavy and self._chance.randrange(2):
                    await self._send(producer, self._chance.choice(self._partitions), _HEAVY_BYTES)
                    for partition in self._partitions:
                        await self._send(producer, partition)
                pace_ms = self._pace_ms if world.now_ns < self._until_ns else _HURRY_MS
                await asyncio.sleep(self._chance.randrange(1, 2 * pace_ms) / 1000)
                while self._pending > _PENDING_MAX:
                    self._told.clear()
                    await self._told.wait()
            await producer.close()
        finally:
            await producer.close(0)  # where it was cancelled

    async def _send(self, producer: AsyncProducer, partition: TopicPartition, heavy_bytes: int = 0) -> None:
        self._sent += 1
        value = b"%s/%d/" % (self.machine.name.encode(), self._sent)
        value += bytes(_LARGE_BYTES if self._chance.randrange(50) == 0 else self._chance.randrange(100) + heavy_bytes)
        try:
            future = await producer.send(partition.topic, value, partition=partition.partition)
        except ClientTimeout:  # it was not taken
            self.machine.world.count("records not taken")
            return
        self._pending += 1
        self._tell(Sent(self.machine.name, partition, value, self._once))
        future.add_done_callback(lambda done: self._outcome(partition, value, done))

    def _outcome(self, partition: TopicPartition, value: bytes, done: RecordFuture) -> None:
        self._pending -= 1
        self._told.set()
        metadata, error = done.outcome()
        if metadata is not None:
            self.acknowledged += 1
            self._tell(Acknowledged(self.machine.name, partition, value, metadata.offset))
        else:
            self.machine.world.count("records failed")
            self._tell(Failed(self.machine.name, partition, value, str(error)))


async def started(machine: Machine, server: str, *topics: str, **settings: Any) -> AsyncConsumer:
    """A consumer, however long no broker is there for it."""
    while True:
        consumer = AsyncConsumer(*topics, bootstrap_servers=server, surroundings=machine.surroundings(), **settings)
        with suppress(ClientTimeout):  # what did not start is closed
            return await consumer.start()


class Reading(ClientProcess):
    """A consumer that reads all partitions from the beginning, and on."""

    def __init__(
        self, machine: Machine, server: str, partitions: list[TopicPartition], settings: Mapping[str, Any], tell: Tell
    ) -> None:
        super().__init__(machine, tell)
        self.positions = dict.fromkeys(partitions, 0)
        self._server = server
        self._settings = settings

    async def _run(self) -> None:
        consumer = await started(self.machine, self._server, auto_offset_reset="earliest", **self._settings)
        consumer.assign(self.positions)
        try:
            while True:
                for record in await consumer.poll(_POLL_S):
                    partition = TopicPartition(record.topic, record.partition)
                    self.positions[partition] = record.offset + 1
                    self._tell(Polled(self.machine.name, partition, record.offset, bytes(record.value or b"")))
        finally:  # it reads until it is cancelled
            await consumer.close(0)


class Reviewing(Reading):
    """Reads what there is at the end, from the beginning, and tells it as a whole."""

    def __init__(self, machine: Machine, server: str, partitions: list[TopicPartition], tell: Tell) -> None:
        super().__init__(machine, server, partitions, {}, self._keep)
        self._kept: dict[TopicPartition, list[tuple[int, bytes]]] = {each: [] for each in partitions}
        self._review = tell

    def take_on(self, partitions: list[TopicPartition]) -> None:
        """Read these, too; it has not begun."""
        self.positions |= dict.fromkeys(partitions, 0)
        self._kept |= {each: [] for each in partitions}

    def _keep(self, event: Event) -> None:
        assert isinstance(event, Polled)
        self._kept[event.partition].append((event.offset, event.value))

    def tell(self) -> None:
        """Tell what was read."""
        for partition, records in self._kept.items():
            self._review(Kept(partition, tuple(records)))

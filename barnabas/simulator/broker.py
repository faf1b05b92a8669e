"""The shipped broker as a process of a world: core, host and channels over a loop, a disk and clocks that are not real.

What `host/assemble.py` puts together of sockets, threads and the system's clocks is put together here of the world's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from barnabas.broker.config import BrokerConfig, load
from barnabas.broker.config.listeners import Endpoint
from barnabas.broker.host.admission import Admission
from barnabas.broker.host.directory import guard
from barnabas.broker.host.host import Host
from barnabas.broker.host.memory import account_for
from barnabas.broker.host.peering import Peering
from barnabas.broker.host.sockets import Listening
from barnabas.broker.metrics import MetricsRegistry
from barnabas.broker.node.core import Core
from barnabas.protocol.errors import BarnabasError
from barnabas.simulator.device import Device
from barnabas.simulator.loop import ProcessLoop
from barnabas.simulator.machine import Machine
from barnabas.simulator.network import socket_of
from barnabas.simulator.surroundings import SeededEntropy

PORT: Final = 9092
PEERS_PORT: Final = 9093
BETWEEN: Final = "BROKERS"
"""The listener that brokers have for each other, where there are several."""
_SECRET: Final = b"what the brokers of a world share"
_OPEN_FILES: Final = 500
"""So many connections at most, whatever the machine allows that the run is on."""
Look = Callable[["BrokerProcess"], None]


class BrokerProcess:
    """A broker on a machine of its own, which may end in several ways and be started again.

    Attributes:
        incarnation: how often it was started.
        host: the shipped host of this incarnation, None while none runs.
        stops: whether it was told to end cleanly.
        flipped: whether a bit of its disk was turned since it served last.
    """

    def __init__(
        self, machine: Machine, node_id: int, settings: Mapping[str, str], look: Look, *, alone: bool = True
    ) -> None:
        """`look` is called after each of its turns; one that is not `alone` has a listener for other brokers."""
        self.machine = machine
        self.node_id = node_id
        self.settings = dict(settings)
        self.name = machine.name
        self.device = Device(machine.world, machine.name)
        self.incarnation = 0
        self.host: Host | None = None
        self.stops = False
        self.flipped = False
        self._alone = alone
        self._failed_in = -1
        self._loop: ProcessLoop | None = None
        self._look = look
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def runs(self) -> bool:
        """Whether there is a process."""
        return self._loop is not None

    @property
    def serves(self) -> bool:
        """Whether it has recovered and answers."""
        return self.core is not None and self.core.ready

    @property
    def core(self) -> Core | None:
        """The core of the present incarnation."""
        return None if self.host is None else self.host.core

    def _endpoints(self) -> list[Endpoint]:
        clients = Endpoint("PLAINTEXT", self.machine.host, PORT)
        return [clients] if self._alone else [clients, Endpoint(BETWEEN, self.machine.host, PEERS_PORT)]

    def config(self) -> BrokerConfig:
        """The settings of a start.

        Raises:
            ConfigError: the run's settings hold one that is none.
        """
        listeners = ",".join(f"{one.listener}://{one.host}:{one.port}" for one in self._endpoints())
        given = {"node.id": str(self.node_id), "listeners": listeners, **self.settings}
        if not self._alone:
            given |= {
                "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{BETWEEN}:PLAINTEXT",
                "inter.broker.listener.name": BETWEEN,
                "barnabas.cluster.secret.file": "given",
            }
        return load(overrides=given, overrides_from="the run").config

    # -- how it begins and ends

    def start(self) -> None:
        """Begin a process, on a machine that has power again; it recovers its logs and serves."""
        assert self._loop is None, "it runs"
        self.machine.boot()
        self.incarnation += 1
        self.stops = False
        machine, config = self.machine, self.config()
        machine.world.note(f"{self.name} starts, incarnation {self.incarnation}")
        loop = self._loop = machine.new_loop(f"{self.name}.{self.incarnation}")
        registry, entropy, secret = MetricsRegistry(), SeededEntropy(machine.chance), b"" if self._alone else _SECRET
        peering = None if self._alone else Peering(config, BETWEEN, secret, entropy)
        core = Core(
            config,
            disk=self.device,
            clock=machine.clock,
            entropy=entropy,
            registry=registry,
            peers=peering,
            account=account_for(config),
        )
        core.boot_id = f"{machine.name}, boot {machine.boots}"
        endpoints = self._endpoints()
        core.set_endpoints(endpoints)
        host = self.host = Host(core, config, registry, secret)
        guard(host)
        if peering is not None:
            peering.host = host
        host.now_ms = machine.clock.mono_ms
        host.admission = Admission(config, _OPEN_FILES)
        self.device.post = host.post
        listening = [Listening(one, (socket_of((one.host, one.port)),)) for one in endpoints]

        async def serve() -> None:
            try:
                await host.start(listening)
                await host.ready()
                await host.failed.wait()
            except (BarnabasError, OSError):
                if self._failed_in != self.incarnation:
                    raise
            machine.world.note(f"{self.name} ends: {host.failure or 'it cannot start'}")
            machine.world.count("ends of brokers whose directory failed")
            self._gone_later(loop)

        def begin() -> None:
            self._tasks.append(loop.create_task(serve()))
            loop.looks.append(lambda: self._look(self))

        loop.call_soon(begin)

    def kill(self) -> None:
        """End the process alone (SIGKILL): what it handed to the system stays."""
        self.machine.world.note(f"{self.name} is killed")
        self._end()
        self.device.kill()

    def lose_power(self) -> None:
        """End the machine: unsynced bytes and names go, and no connection is told."""
        self.machine.world.note(f"{self.name} loses power")
        self.machine.lose_power()
        self._end()
        self.device.lose_power()

    def stop(self, ended: Callable[[], None]) -> None:
        """End cleanly (SIGTERM), then call `ended`; a process that ends otherwise meanwhile calls nothing."""
        loop, host = self._loop, self.host
        assert loop is not None
        assert host is not None
        self.machine.world.note(f"{self.name} stops")
        self.stops = True

        async def stop() -> None:
            await host.stop()
            self._gone_later(loop, ended)

        loop.call_soon(lambda: self._tasks.append(loop.create_task(stop())))

    def _gone_later(self, loop: ProcessLoop, ended: Callable[[], None] = lambda: None) -> None:
        """The process of that loop comes to its end, unless it did already."""

        def gone() -> None:
            if self._loop is loop:
                self._end()
                self.device.kill()
                ended()

        loop.world.after(0, gone)

    def fail_directory(self) -> None:
        """From now on its disk refuses everything: it ends once it has found out."""
        self._failed_in = self.incarnation
        self.device.faults.broken = True

    def mend_directory(self) -> None:
        """The disk is well again, and the process ends that has not: a log whose sync failed takes nothing any more."""
        if self.device.faults.broken:
            self.device.faults.broken = False
            if self.runs:
                self.kill()

    def pause(self) -> None:
        """Stop it where it stands (SIGSTOP)."""
        if self._loop is not None:
            self._loop.pause()

    def resume(self) -> None:
        """Let it go on."""
        if self._loop is not None:
            self._loop.resume()

    def end_process(self) -> None:
        """Nothing of it runs from now on; at the end of a run."""
        if self._loop is not None:
            self._end()

    def _end(self) -> None:
        assert self._loop is not None
        self._loop.kill()
        self._loop.close_tasks(self._tasks)
        self._tasks.clear()
        self._loop = self.host = None
        self.device.post = None

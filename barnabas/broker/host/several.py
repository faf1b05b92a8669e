"""Several brokers of one cluster inside a program, on one loop; of three or more three are controllers, else the first.

Each keeps its ports, and what it has stored, over its own stops, starts and kills. Between themselves they talk over
TCP as processes do, at 127.0.0.1, with a secret that nobody else has.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any, Final

from barnabas.broker.config import ConfigError, load
from barnabas.broker.config.properties import parse_properties
from barnabas.broker.config.quorum import controllers, replication
from barnabas.broker.host.assemble import Assembly
from barnabas.broker.host.entropy import SystemEntropy
from barnabas.broker.memory_disk import MemoryDisk
from barnabas.broker.node.identity import FILE
from barnabas.broker.raft.kept import FILE as STATE_FILE
from barnabas.broker.raft.kept import parse
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import format_uuid

CONTROLLER: Final = 1
BROKERS_MAX: Final = 16
_HERE: Final = "127.0.0.1"
_CLIENTS, _BETWEEN = "PLAINTEXT", "BROKERS"
_TAKEN: Final = ("node.id", "listeners", "controller.quorum.voters", "inter.broker.listener.name")
"""Settings in which brokers differ, or that are decided here."""
_SESSION: Final = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
"""All brokers hear of each other within this program: one that is killed and started at once is let in after 3 s."""


class Node:
    """One of them, by its id. Belongs to the loop's thread."""

    def __init__(
        self, node_id: int, settings: Mapping[str, str], data_dir: str | None, secret: bytes, host: str, port: int
    ) -> None:
        self.node_id = node_id
        self._settings = {**settings, "node.id": str(node_id), "listeners": _listeners(host, port, 0)}
        self._data_dir = data_dir
        self._secret = secret
        self._memory = None if data_dir is not None else MemoryDisk()
        self._closed = False
        self._turn = asyncio.Lock()
        self._starting: asyncio.Task[None] | None = None
        self._controllers: list[Node] = [self]
        self._assembly: Assembly | None = self._put_together()
        self._serves = False
        self.bootstrap_servers = self._assembly.bootstrap_servers
        self.port = self._assembly.port
        self.between = self._assembly.port_of(_BETWEEN)
        self._settings["listeners"] = _listeners(host, self.port, self.between)

    def name_controllers(self, voters: str, nodes: list[Node]) -> None:
        """Say who the controllers are, and where they listen: their ports are known by now; before the first start."""
        self._controllers = nodes
        self._settings["controller.quorum.voters"] = voters
        if self._assembly is not None:
            self._assembly.config.controller_quorum_voters = tuple(voters.split(","))

    def _put_together(self) -> Assembly:
        loaded = load(overrides=self._settings, overrides_from="config")
        return Assembly(loaded.config, self._data_dir, secret=self._secret, memory=self._memory)

    @property
    def is_running(self) -> bool:
        """Whether it serves."""
        return self._serves

    @property
    def is_active(self) -> bool:
        """Whether it serves, and is the controller that decides."""
        return self._serves and self._assembly is not None and self._assembly.host.core.is_active

    @property
    def is_up(self) -> bool:
        """Whether it serves, or is on its way there."""
        return self._serves or self._starting is not None

    async def start(self) -> None:
        """Serve, again or for the first time; returns once it does. Nothing is done where it does already.

        Where most controllers are away nobody can serve: it returns at once, and serves once enough of them are
        started, whose start waits for it, too.

        Raises:
            BarnabasError: the cluster is closed, the broker cannot serve, or it was ended before it did.
        """
        async with self._turn:
            self.begin()
        started = self._starting
        if started is None or 2 * sum(one.is_up for one in self._controllers) <= len(self._controllers):
            return
        await asyncio.wait([started])
        if started.cancelled():
            raise BarnabasError(f"broker {self.node_id} was ended before it served")
        started.result()
        others = [one._starting for one in self._controllers if one._starting is not None]
        if others:
            await asyncio.wait(others)

    def begin(self) -> None:
        """Be on the way to serve; `start` waits for that.

        Raises:
            BarnabasError: the cluster is closed, or its address is in use.
        """
        if self.is_up:
            return
        if self._closed:
            raise BarnabasError(f"broker {self.node_id} belongs to a cluster that is closed; make a new one")
        assembly = self._assembly or self._put_together()
        self._assembly = None  # what fails to start has given back what it held
        self._starting = asyncio.ensure_future(self._start(assembly))

    async def _start(self, assembly: Assembly) -> None:
        try:
            await assembly.start()
            self._assembly, self._serves = assembly, True
        finally:
            self._starting = None

    async def stop(self) -> None:
        """Stop in good order: others lead what it led. Nothing is done where it does not serve."""
        async with self._turn:
            assembly = await self._ended()
            if assembly is not None:
                await assembly.stop()

    async def kill(self) -> None:
        """End as a process does that is killed. Nothing is done where it does not serve."""
        async with self._turn:
            assembly = await self._ended()
            if assembly is not None:
                await assembly.kill()

    async def _ended(self) -> Assembly | None:
        starting = self._starting
        if starting is not None:  # it may wait for others who never come
            await asyncio.sleep(0)  # a task that never took a step gives nothing back
            starting.cancel()
            await asyncio.wait([starting])
        if not self._serves:
            return None
        assembly, self._assembly, self._serves = self._assembly, None, False
        return assembly

    def snapshot(self) -> dict[str, Any]:
        """What its `/state` shows.

        Raises:
            BarnabasError: it does not serve.
        """
        if self._assembly is None or not self._serves:
            raise BarnabasError(f"broker {self.node_id} does not serve")
        return self._assembly.snapshot()

    async def close(self) -> None:
        """Stop for good."""
        self._closed = True
        await self.stop()
        self.release()

    def release(self) -> None:
        """Give back what one that was never started holds."""
        self._closed = True
        if self._assembly is not None and not self._serves:
            self._assembly.release()
            self._assembly = None

    def forked(self) -> None:
        """In the child of a fork."""
        if self._assembly is not None:
            self._assembly.forked()


class Several:
    """The cluster: what `Assembly` is for one broker.

    `settings` are those of all, `data_dir` has a directory for each. The first listens at `port`, if one is given, and
    each other one at the next.

    Raises:
        ConfigError: settings that are decided here, or a data directory of another cluster.
        BarnabasError: what `Assembly` raises.
    """

    def __init__(
        self, brokers: int, settings: Mapping[str, str], data_dir: str | None, host: str | None, port: int | None
    ) -> None:
        if isinstance(brokers, bool) or not isinstance(brokers, int) or not 1 <= brokers <= BROKERS_MAX:
            raise ConfigError(f"brokers={brokers!r}: write a number from 1 to {BROKERS_MAX}")
        odd = [name for name in _TAKEN if name in settings]
        if odd:
            raise ConfigError(f"{odd[0]} is set for each broker by brokers={brokers}; drop one of them")
        racks = _racks(settings.get("broker.rack"), brokers)
        if data_dir is not None:
            _check_directory(data_dir, brokers)
        shared = replication(brokers) | _SESSION | dict(settings)
        shared |= {
            "listener.security.protocol.map": f"{_CLIENTS}:PLAINTEXT,{_BETWEEN}:PLAINTEXT",
            "inter.broker.listener.name": _BETWEEN,
            "barnabas.cluster.secret.file": "(none: its brokers are one process)",
        }
        shared.setdefault("barnabas.cluster.id", _cluster_id(data_dir))
        secret = os.urandom(32)
        voters = _voters(data_dir, brokers)
        shared["controller.quorum.voters"] = ",".join(f"{one}@{_HERE}:1" for one in voters)
        self.nodes: dict[int, Node] = {}
        try:
            for node_id in range(1, brokers + 1):
                where = None if data_dir is None else os.path.join(data_dir, f"broker-{node_id}")
                own_port = port + node_id - 1 if port else 0
                own = shared | racks[node_id - 1]
                self.nodes[node_id] = Node(node_id, own, where, secret, host or _HERE, own_port)
            found = ",".join(f"{one}@{_HERE}:{self.nodes[one].between}" for one in voters)
            for node in self.nodes.values():
                node.name_controllers(found, [self.nodes[one] for one in voters])
        except BaseException:
            self.release()
            raise

    async def start(self) -> None:
        """Serve with all of them."""
        try:
            for node in self.nodes.values():
                node.begin()
            await asyncio.gather(*(node.start() for node in self.nodes.values()))
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop all of them, the active controller last: it hears the others go."""
        last = next((node for node in self.nodes.values() if node.is_active), self.nodes[CONTROLLER])
        await asyncio.gather(*(node.close() for node in self.nodes.values() if node is not last))
        await last.close()

    def release(self) -> None:
        """Give back what was never started."""
        for node in self.nodes.values():
            node.release()

    def forked(self) -> None:
        """In the child of a fork."""
        for node in self.nodes.values():
            node.forked()

    @property
    def port(self) -> int:
        """The first broker's."""
        return self.nodes[CONTROLLER].port

    @property
    def bootstrap_servers(self) -> str:
        """Of all, those that do not serve now, too."""
        return ",".join(node.bootstrap_servers for node in self.nodes.values())

    def snapshot(self) -> dict[str, Any]:
        """What `/state` shows of those that serve, by node id."""
        return {"brokers": {node_id: node.snapshot() for node_id, node in self.nodes.items() if node.is_running}}


def _listeners(host: str, port: int, between: int) -> str:
    return f"{_CLIENTS}://{f'[{host}]' if ':' in host else host}:{port},{_BETWEEN}://{_HERE}:{between}"


def _racks(told: str | None, brokers: int) -> list[dict[str, str]]:
    """`broker.rack` of each: all stand in one, or each in its own."""
    if told is None:
        return [{}] * brokers
    racks = [one.strip() for one in told.split(",")]
    if len(racks) not in (1, brokers) or not all(racks):
        raise ConfigError(f"broker.rack={told}: write one rack for all, or one for each of brokers={brokers}: a,b,c")
    return [{"broker.rack": one} for one in (racks if len(racks) == brokers else racks * brokers)]


def _check_directory(data_dir: str, brokers: int) -> None:
    if os.path.exists(os.path.join(data_dir, FILE)):
        raise ConfigError(
            f"data_dir={data_dir} is one broker's; name another directory, or make it without brokers={brokers}"
        )
    count = 0
    while os.path.exists(os.path.join(data_dir, f"broker-{count + 1}", FILE)):
        count += 1
    if count > brokers:
        raise ConfigError(
            f"data_dir={data_dir} is of {count} brokers; write brokers={count}, or name another directory"
        )


def _voters(data_dir: str | None, brokers: int) -> list[int]:
    """The controllers: those that the first one's directory has, where it is one of a cluster already."""
    if data_dir is not None:
        try:
            with open(os.path.join(data_dir, f"broker-{CONTROLLER}", STATE_FILE), "rb") as file:
                return parse(file.read())[1]
        except OSError:
            pass
    return list(range(1, controllers(brokers) + 1))


def _cluster_id(data_dir: str | None) -> str:
    """The one that the controller's directory has, else a new one."""
    if data_dir is not None:
        try:
            with open(os.path.join(data_dir, f"broker-{CONTROLLER}", FILE), encoding="utf-8") as file:
                known = parse_properties(file.read()).get("cluster.id", "")
        except OSError:
            known = ""
        if known:
            return known
    return format_uuid(SystemEntropy().uuid())

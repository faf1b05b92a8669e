"""One broker put together: sockets bound, data directory held, disk, core and host."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.broker.cluster.judgement import MetadataUnreadable
from barnabas.broker.config import BrokerConfig, advertised_endpoints, listening_endpoints
from barnabas.broker.config.listeners import HTTP, LOCAL, between_brokers, http_endpoint
from barnabas.broker.config.quorum import asks_for_voters
from barnabas.broker.host.clock import SystemWallClock, boot_id
from barnabas.broker.host.data_dir import DataDirLock
from barnabas.broker.host.directory import guard
from barnabas.broker.host.disk_threads import Lane
from barnabas.broker.host.entropy import SystemEntropy
from barnabas.broker.host.host import Host
from barnabas.broker.host.local import forget_socket, listen_locally
from barnabas.broker.host.memory import account_for, container_bytes, fitted
from barnabas.broker.host.sockets import Listening, listen
from barnabas.broker.metrics import MetricsRegistry
from barnabas.broker.node.core import Core
from barnabas.broker.node.identity import DataDirError
from barnabas.broker.ports import Disk
from barnabas.net.host.forks import let_go
from barnabas.protocol.errors import ConfigError

if TYPE_CHECKING:
    from barnabas.broker.host.peering import Peering
    from barnabas.broker.memory_disk import MemoryDisk


class Assembly:
    """A broker that can be started. `data_dir` None means in memory, on `memory` if it is given.

    `secret` is what the brokers of its cluster share, where the settings do not name its file.

    Binding comes first: a port in use is found before anything is written.

    Raises:
        BarnabasError: an address or a data directory that cannot be used; nothing was changed then.
    """

    def __init__(
        self,
        config: BrokerConfig,
        data_dir: str | None,
        *,
        stored_settings: bool = True,
        secret: bytes = b"",
        memory: MemoryDisk | None = None,
    ) -> None:
        self.config = config = fitted(config, container_bytes())
        self.data_dir = data_dir
        self.lock: DataDirLock | None = None
        self._memory = memory
        self._disk: Disk | None = None
        self._lane: Lane | None = None
        self._peering: Peering | None = None
        self._between = between_brokers(config)
        if self._between is not None and asks_for_voters(config):
            raise ConfigError(
                "controller.quorum.bootstrap.servers: a broker inside a program asks nobody who the controllers are; "
                "write controller.quorum.voters=ID@HOST:PORT"
            )
        if self._between is not None and not secret:
            from barnabas.broker.host.cluster_secret import read_secret  # of a cluster's brokers alone

            secret = read_secret(config.barnabas_cluster_secret_file)
        self.release_pages: Callable[[], bool] = lambda: False
        """Has the system take back the pages of mapped files; whether it does (`RealDisk.release_pages`)."""
        own_http = http_endpoint(config)
        of_kafka = sorted(listening_endpoints(config), key=lambda one: one.listener == self._between)
        endpoints = [*of_kafka, *([] if own_http is None else [own_http])]
        self.listening: list[Listening] = listen(endpoints, config.socket_listen_backlog_size)
        try:
            _size_buffers(self.listening, config)
            kafka = [one.endpoint for one in self.listening if one.endpoint.listener != HTTP]
            self.advertised = advertised_endpoints(config, kafka)
            self.lock = None if data_dir is None else DataDirLock(data_dir)
            local = None if data_dir is None else listen_locally(data_dir, self.port, config.socket_listen_backlog_size)
            if local is not None:
                self.listening.append(local)
            registry = MetricsRegistry()
            entropy = SystemEntropy()
            self._peering = self._peering_for(secret, entropy)
            self._disk = self._open_disk()
            core = Core(
                config,
                disk=self._disk,
                clock=SystemWallClock(),
                entropy=entropy,
                registry=registry,
                peers=self._peering,
                account=account_for(config),
                stored_settings=stored_settings,
            )
            if self._between is not None:
                core.boot_id = boot_id()
            core.set_endpoints([*self.advertised, *([] if local is None else [local.endpoint])])
            self.host = Host(core, config, registry, secret)
            guard(self.host)
            if self._peering is not None:
                self._peering.host = self.host
        except BaseException:
            self.release()
            raise

    def _peering_for(self, secret: bytes, entropy: SystemEntropy) -> Peering | None:
        """The way to the other brokers, where this one is of a cluster."""
        if self._between is None:
            return None
        from barnabas.broker.host.peering import Peering

        return Peering(self.config, self._between, secret, entropy)

    def _open_disk(self) -> Disk:
        def post(completion: Callable[[], None]) -> None:
            self.host.post(completion)

        if self.data_dir is None:
            from barnabas.broker.memory_disk import MemoryDisk

            self._lane = lane = Lane("codec", 1)

            def aside(work: Callable[[], None]) -> None:
                def step() -> None:
                    work()
                    post(lane.ended)

                lane.submit(step)

            if self._memory is None:
                return MemoryDisk(post, threads=aside)
            self._memory.attach(post, aside)
            return self._memory
        from barnabas.broker.host.disk import RealDisk

        disk = RealDisk(self.data_dir, post)
        self.release_pages = disk.release_pages
        disk.on_maps_short = lambda: self.host.relief.maps_are_short()
        return disk

    async def start(self) -> None:
        """Serve on the running loop; returns once all logs are recovered.

        Raises:
            BarnabasError: the core cannot use the data directory.
        """
        try:
            await self.host.start(self.listening)
            await self.host.ready()
        except (DataDirError, MetadataUnreadable) as error:
            await self.host.abandon()
            self.release()
            raise DataDirError(f"{self.data_dir}: {error}") from error
        except BaseException:
            await self.host.abandon()
            self.release()
            raise

    async def stop(self) -> None:
        """Stop serving; everything is on disk then."""
        await self.host.stop()
        self.release()
        if self._peering is not None:
            await asyncio.sleep(0)  # what was being opened ends in the loop's next turn

    async def kill(self) -> None:
        """End as a process does that is killed: nothing is flushed, nobody is told, connections break."""
        await self.host.kill()
        self.release()
        await asyncio.sleep(0)

    def snapshot(self) -> dict[str, Any]:
        """What `/state` shows."""
        return self.host.snapshot()

    def release(self) -> None:
        """Give back sockets, threads and the data directory."""
        for one in self.listening:
            one.close()
            if one.endpoint.listener == LOCAL:
                forget_socket(one.endpoint.host)
        if self._peering is not None:
            self._peering.close()
        close = getattr(self._disk, "close", None)
        if close is not None:
            close()
        if self._lane is not None:
            self._lane.close()
        if self.lock is not None:
            self.lock.release()

    def forked(self) -> None:
        """In the child of a fork: sockets and lock are the parent's, who alone shall hold them."""
        let_go(sock for one in self.listening for sock in one.handles)
        let_go(channel.transport.get_extra_info("socket") for channel in self.host.channels.values())
        if self.lock is not None:
            self.lock.release()

    @property
    def addresses(self) -> list[str]:
        """Where it listens for Kafka's clients, as `host:port`."""
        others = (HTTP, LOCAL, self._between)
        listeners = [one for one in self.listening if one.endpoint.listener not in others]
        return [_address(*sock.getsockname()[:2]) for one in listeners for sock in one.sockets]

    @property
    def port(self) -> int:
        """The port of the first listener for clients."""
        return self.listening[0].endpoint.port

    def port_of(self, listener: str) -> int:
        """The port that a listener was bound to."""
        return next(one.endpoint.port for one in self.listening if one.endpoint.listener == listener)

    @property
    def bootstrap_servers(self) -> str:
        """What clients connect to first."""
        return ",".join(_address(one.host, one.port) for one in self.advertised if one.listener != self._between)


def _size_buffers(listening: Sequence[Listening], config: BrokerConfig) -> None:
    """Give accepted sockets the kernel buffers that were asked for; they inherit them from the listening one.

    Kafka's defaults (100 KiB) are left to the system, which sizes buffers by the connection and does better.
    """
    defaults = BrokerConfig()
    wanted = [
        (socket.SO_SNDBUF, config.socket_send_buffer_bytes, defaults.socket_send_buffer_bytes),
        (socket.SO_RCVBUF, config.socket_receive_buffer_bytes, defaults.socket_receive_buffer_bytes),
    ]
    for option, size, default in wanted:
        if size not in (default, -1):
            for sock in (sock for one in listening for sock in one.sockets):
                sock.setsockopt(socket.SOL_SOCKET, option, size)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop where it is installed (twice as fast), else of asyncio. No policy is touched."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop

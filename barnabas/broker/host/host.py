"""The host: runs one core on one asyncio loop, with real sockets, a real clock and whatever disk it is given.

    host = Host(core, config, registry)
    host.start(listening)          # on the running loop
    await host.ready()             # all logs are recovered
    await host.stop()

Everything the core is told, it is told on the loop's thread: requests by `Channel`, time by one loop timer armed for
`core.next_deadline_ms()`, job steps in turns of `JOB_TURN_MS` between events, completions of threads through `post`.
After each of these `settle` sends what the core answered and arms the timer anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final

from barnabas.broker.config import BrokerConfig
from barnabas.broker.config.listeners import LOCAL, between_brokers
from barnabas.broker.context import Connection
from barnabas.broker.host import looking
from barnabas.broker.host.admission import Admission
from barnabas.broker.host.channel import Channel
from barnabas.broker.host.clock import mono_ms
from barnabas.broker.host.directory import DirectoryFailed
from barnabas.broker.host.disk_calls import open_files_max
from barnabas.broker.host.http import names
from barnabas.broker.host.in_flight import Orphans
from barnabas.broker.host.progress import Progress
from barnabas.broker.host.receive import SHARED_BYTES, SHARED_BYTES_RECOVERING, ReceiveBuffers
from barnabas.broker.host.refusals import Refusals
from barnabas.broker.host.relief import Relief
from barnabas.broker.host.sockets import Listening
from barnabas.broker.host.ticks import Ticks
from barnabas.broker.host.turns import Turns
from barnabas.broker.host.unsent import copies
from barnabas.broker.host.vigil import Vigil
from barnabas.broker.host.web import Web
from barnabas.broker.metrics import MetricsRegistry
from barnabas.broker.node.core import Core

JOB_TURN_MS: Final = 3
STOP_MS_MAX: Final = 1700
"""A clean stop is over within two seconds, the process' own end included."""
GOODBYE_MS_MAX: Final = 100

logger = logging.getLogger(__name__)


class Host:
    """Sockets, time and threads for one core. All methods but `post` belong to the loop's thread.

    `secret` is what the brokers of its cluster share; without one no listener is theirs alone.
    """

    def __init__(self, core: Core, config: BrokerConfig, registry: MetricsRegistry, secret: bytes = b"") -> None:
        self.core = core
        self.config = config
        self.registry = registry
        self.secret = secret
        self.loop: asyncio.AbstractEventLoop
        self.now_ms: Callable[[], int] = mono_ms
        self.account = core.account
        self.buffers = ReceiveBuffers(self.account)
        self.refusals = Refusals()
        self.progress = Progress(self)
        self.relief = Relief(self)
        self.orphans = Orphans(self)
        self.admission = Admission(config, open_files_max() // 2)  # log files need handles, too
        self.dirty: deque[Channel] = deque()  # channels with something to send
        self.channels: dict[int, Channel] = {}
        self._locals: dict[int, Channel] = {}
        self.muted: dict[Channel, asyncio.TimerHandle] = {}
        """What ends a channel's throttle time, which is not to keep one that is gone: 100 s, thousands a second."""
        self.turns = Turns(self)
        self.vigil = Vigil(self)
        self.rests = False
        """Whether `vigil` is to be told of an event's end."""
        self.listening: Sequence[Listening] = ()
        self.received_bytes = 0
        self.accepted = 0
        self.copies_unsent = False
        """Of this loop (`unsent.copies`)."""
        self._requests_closed = 0
        self._servers: list[asyncio.Server] = []
        self.ticks = Ticks(self)
        self._sweep: asyncio.TimerHandle | None = None
        self._jobs_due = False
        self._stopping = False
        self._gone = False
        self.failed = asyncio.Event()
        """Set once the data directory has failed as a whole, and all connections are broken; `failure` says how."""
        self.failure: DirectoryFailed | None = None
        self._ending: asyncio.Task[None] | None = None
        self._ready = asyncio.Event()
        self._empty = asyncio.Event()
        self.web = Web(self)

    # -- life

    async def start(self, listening: Sequence[Listening]) -> None:
        """Start the core and accept connections on sockets that are already bound.

        Raises:
            BarnabasError: the core cannot use its data directory.
        """
        self.loop = asyncio.get_running_loop()
        self.copies_unsent = copies(self.loop)
        self.listening = listening
        named = [*self.core.endpoints, *(one.endpoint for one in listening)]
        self.web.hosts = names([*self.config.barnabas_http_hosts, *(one.host for one in named)])
        self.core.on_jobs = self._jobs_wait
        looking.register(self)
        self.buffers.share(SHARED_BYTES_RECOVERING)
        self.core.start(self.now_ms())
        self._look_ready()
        self.settle()
        for one in listening:
            for sock in one.handles:
                create = self.loop.create_unix_server if one.endpoint.listener == LOCAL else self.loop.create_server
                backlog = self.config.socket_listen_backlog_size
                server = await create(self._factory(one.endpoint.listener), sock=sock, backlog=backlog)
                self._servers.append(server)
        self._sweep_later()

    async def ready(self) -> None:
        """Wait until the core has recovered its logs and leads its partitions.

        Raises:
            BarnabasError, OSError: what kept it from that.
        """
        await self._ready.wait()
        if self.core.fault is not None:
            raise self.core.fault

    def _look_ready(self) -> None:
        if not self._ready.is_set() and (self.core.ready or self.core.fault is not None):
            self._ready.set()
            self.buffers.share(SHARED_BYTES)
            self.relief.recovered()

    def directory_failed(self, error: OSError) -> None:
        """Nothing can be written any more: end as a process does that is killed, so that others lead."""
        self.failure = DirectoryFailed(
            f"the data directory takes nothing any more ({error.strerror or error}), and the broker has ended; mend "
            "the disk and start it anew: as one of a cluster it fetches what it lacks"
        )
        logger.critical("%s", self.failure)

        async def end() -> None:
            await self.kill()
            self.failed.set()
            self.core.fault = self.core.fault or self.failure
            self._ready.set()  # whoever waits for the start hears of it, too

        if self._ending is None:
            self._ending = self.loop.create_task(end())

    async def stop(self) -> None:
        """Stop accepting, let the core flush and write its checkpoints, answer what it answers, close."""
        if self._stopping:
            return
        self._stopping = True
        for server in self._servers:
            server.close()
        finished = asyncio.Event()
        self.core.stop(self.now_ms(), finished.set)
        self.settle()
        if not await _within(STOP_MS_MAX, finished):
            logger.warning("the disk took too long; the next start checks the last segments again")
        self.settle()
        await self.abandon()

    async def kill(self) -> None:
        """Break all connections, and `abandon`: what was not sent by now is not."""
        self._stopping = True
        for channel in list(self.channels.values()):
            channel.abort()
        await self.abandon()

    async def abandon(self) -> None:
        """Close all sockets and timers; the core is not asked to flush, and what it still does ends where it stands."""
        self._stopping = True
        for server in self._servers:
            server.close()
        for channel in list(self.channels.values()):
            channel.close()
        if self.channels:
            await _within(GOODBYE_MS_MAX, self._empty)
        for channel in list(self.channels.values()):
            channel.abort()
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        self.ticks.close()
        self.refusals.close()
        self.progress.close()
        self.relief.close()
        self._gone = True

    @property
    def serving(self) -> bool:
        """Whether requests are answered: recovered and not stopping."""
        return not self._stopping and self.core.ready

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return self.listening[0].endpoint.port

    # -- what drives the core

    def settle(self) -> None:
        """At the end of every event: send the answers it produced, and arm the timer for what is due next."""
        dirty = self.dirty
        while dirty:
            dirty.popleft().flush()
        if self.core.rescheduled:
            self.ticks.arm()

    def tick(self) -> None:
        """Time has passed (`Ticks`)."""
        self.core.tick(self.now_ms())
        self._look_ready()
        self.settle()

    def post(self, completion: Callable[[], None]) -> None:
        """Run a completion on the loop's thread and let the core go on with it. Any thread may call this."""
        try:
            self.loop.call_soon_threadsafe(self.complete, completion)
        except RuntimeError:
            logger.debug("a completion came after the loop was closed")

    def complete(self, completion: Callable[[], None]) -> None:
        """Run a completion, on the loop's thread, and let the core go on with it."""
        if self._gone:
            return
        completion()
        self.core.wake(self.now_ms())
        self._look_ready()
        self.settle()

    def _jobs_wait(self) -> None:
        """The core has a job to go on with."""
        if not self._jobs_due:
            self._jobs_due = True
            self.loop.call_soon(self._run_jobs)

    @property
    def has_jobs(self) -> bool:
        """Whether a job is to be gone on with in this round or the next."""
        return self._jobs_due

    def _run_jobs(self) -> None:
        """One turn of job steps; events come in between turns."""
        self._jobs_due = False
        if self._gone:
            return
        now_ms = self.now_ms()
        until_ms = now_ms + JOB_TURN_MS
        while self.core.run_job_step(now_ms):
            now_ms = self.now_ms()
            if now_ms >= until_ms:
                self._jobs_wait()
                break
        self._look_ready()
        self.settle()

    # -- connections

    def _factory(self, listener: str) -> Callable[[], Channel]:
        if self.secret and listener == between_brokers(self.config):
            from barnabas.broker.host.peer_channel import PeerChannel  # of a cluster's brokers alone

            return lambda: PeerChannel(self, listener)
        return lambda: Channel(self, listener)

    def admit(self, channel: Channel) -> bool:
        """Count a connection in; False when it is one too many, or is told of after its accept, while we stop.

        Nor does one come in that its peer has reset by now: the system knows no address any more that its connection,
        and what it sent, would count for.
        """
        connection = channel.connection
        self.accepted += 1
        self.turns.came(channel.active_ms)
        connection.id = self.accepted
        if self._stopping:  # `abandon` may have closed its last by now
            return False
        host = connection.client_host
        if not host:
            self.admission.refused += 1
            return False
        refusal = None
        if channel.of_brokers:
            longest = self.admission.admit_stranger(connection.id)
            if longest is not None:
                self.channels[longest].end("others come to introduce themselves, and it has not for the longest")
        elif connection.listener == LOCAL:
            self._admit_locally(channel)
        else:
            refusal = self.admission.admit(host, channel.active_ms)
        if refusal is not None:
            self.refusals.tell(host, f"refused a connection from {host}: {refusal}")
            return False
        self.channels[connection.id] = channel
        return True

    def _admit_locally(self, channel: Channel) -> None:
        """One more of the administrator's, in place of the one that has been silent for the longest if need be."""
        if len(self._locals) >= self.admission.locals_max:
            silent = min(self._locals.values(), key=lambda one: one.active_ms)
            del self._locals[silent.connection.id]
            silent.end("others come over the local socket, and it has been silent for the longest")
        self._locals[channel.connection.id] = channel

    def forget(self, channel: Channel) -> None:
        """Count a connection out."""
        connection: Connection = channel.connection
        if self.channels.pop(connection.id, None) is not None:
            self._requests_closed += channel.requests
            if channel.of_brokers:
                self.admission.leave_stranger(connection.id)
            elif connection.listener == LOCAL:
                self._locals.pop(connection.id, None)
            else:
                self.admission.leave(connection.client_host)
            muted = self.muted.pop(channel, None)
            if muted is not None:
                muted.cancel()
            self.progress.forget(channel)
            self.relief.forget(channel)
            self.web.forget(channel)
            if channel.introduced:
                self.core.disconnected(connection)
            if self._stopping and not self.channels:
                self._empty.set()

    def _sweep_later(self) -> None:
        period_ms = min(max(self.config.connections_max_idle_ms // 4, 10), 30_000)
        self._sweep = self.loop.call_later(period_ms / 1000, self._sweep_idle)

    def _sweep_idle(self) -> None:
        """Let go of connections that have said nothing (or read nothing) for `connections.max.idle.ms`."""
        limit_ms = self.config.connections_max_idle_ms
        if limit_ms >= 0:
            now_ms = self.now_ms()
            for channel in list(self.channels.values()):
                if channel.idle and now_ms - channel.active_ms > limit_ms:
                    logger.info("closing the connection of %s: idle for %d ms", channel.name, limit_ms)
                    channel.abort()
        self._sweep_later()

    # -- looking in

    @property
    def requests(self) -> int:
        """Requests received so far."""
        return self._requests_closed + sum(channel.requests for channel in self.channels.values())

    def snapshot(self, first: int = 0, end: int | None = None) -> dict[str, Any]:
        """The core's snapshot, with the host's connections and memory; of lists those from `first` to before `end`."""
        now_ms = self.now_ms()
        state = self.core.snapshot(now_ms, first, end)
        state.setdefault("counts", {})["connections"] = len(self.channels)
        state["now_ms"] = now_ms
        state["memory"] = looking.memory(self)
        state["connections"] = [
            looking.connection(channel, now_ms) for channel in islice(self.channels.values(), first, end)
        ]
        for purgatory in state.get("purgatories", ()):
            for operation in purgatory["operations"]:
                operation["age_ms"] = now_ms - (operation["deadline_ms"] - operation["timeout_ms"])
                operation["due_in_ms"] = operation["deadline_ms"] - now_ms
        return state


async def _within(limit_ms: int, event: asyncio.Event) -> bool:
    try:
        async with asyncio.timeout(limit_ms / 1000):  # `wait_for` takes more turns of the loop before Python 3.12
            await event.wait()
    except TimeoutError:
        return False
    return True

"""The async shell of the network core: sockets, name look-ups, one timer. Producer, consumer and admin share it.

    client = Client(ClientConfig.of(bootstrap_servers="localhost:9092"))
    await client.start()                                  # connects, learns the brokers
    cluster = await client.refresh_metadata(["flights"])  # newer than now, with these topics in it
    answer = await client.send(node_id, ListOffsetsRequest(...))
    await client.close()

Every event (a frame, a timer, a call) enters the core, then `pump` does what the core decided. All on one loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from barnabas.net.config import ClientConfig
from barnabas.net.counts import Metrics, Rates, Statistics
from barnabas.net.errors import NOT_STARTED, ClientClosed, ClientTimeout, raise_it
from barnabas.net.host.addresses import resolve, words_of
from barnabas.net.host.forks import belongs_to_parent, let_go, tell_child
from barnabas.net.host.surroundings import REAL, Surroundings
from barnabas.net.host.transport import Transport
from barnabas.net.metadata import NEVER, Metadata
from barnabas.net.network import Action, Connect, Disconnect, NetworkClient
from barnabas.net.step import Step
from barnabas.net.topology import Cluster, Node, place_of
from barnabas.protocol.errors import BarnabasError

log = logging.getLogger(__name__)

_NETWORK: Final = "network"
"""What is told of the network, until it is known of whose kind it is."""


def leave_loop(error: BaseException) -> None:
    """Raise it out of the running loop, once the present step is done."""
    asyncio.get_running_loop().call_soon(raise_it, error)


class Client:
    """Connections to a cluster on the running loop.

    `drivers` are called after every event, before the core's actions are carried out.
    """

    def __init__(
        self,
        config: ClientConfig,
        metadata: Metadata | None = None,
        *,
        surroundings: Surroundings = REAL,
    ) -> None:
        self.config = config
        self.now_ms = surroundings.now_ms
        self.metadata = metadata or Metadata(config, surroundings.uniform)
        self.network = NetworkClient(config, self.metadata, surroundings.uniform)
        self._step = Step(self.network, self._perform, self.now_ms)
        self.drivers = self._step.drivers
        self._transports: dict[int, Transport] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = NEVER
        self._closed = False
        self._why_closed = "the client was closed"
        self._waiters: list[asyncio.Future[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self.metadata.listeners.append(self._wake_waiters)
        self._surroundings, self._opened_ms = surroundings, self.now_ms()
        window_ms, samples = config.metrics_sample_window_ms, config.metrics_num_samples
        self._rates = Rates(window_ms, samples, self._figures, self._opened_ms)
        self.drivers.append(self._rates.drive)
        self.leave: Callable[[BaseException], None] = leave_loop
        """What becomes of what a callback raised to leave (`sys.exit`), on the loop."""
        self.figures: Callable[[], Metrics] = dict
        """What the shell adds to `metrics`."""
        self.statistics_of: Callable[[], dict[str, Any]] = dict
        """What the shell adds to the statistics."""
        if config.error_cb is not None:
            self.metadata.troubles.listeners.append(config.error_cb)
        if config.statistics_interval_ms:
            statistics = Statistics(config.statistics_interval_ms, config.stats_cb, self.statistics, self._leave)
            self.drivers.append(statistics.drive)
        self.metadata.troubles.leave = self._leave
        tell_child(self)

    @property
    def cluster(self) -> Cluster:
        """The newest snapshot of the cluster."""
        return self.metadata.cluster

    # ---- life -----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Bind to the running loop and begin to connect, without waiting for anything."""
        self._loop = asyncio.get_running_loop()
        self.pump()

    def check_started(self) -> None:
        """Refuse what would wait for ever.

        Raises:
            ClientClosed: nobody awaited `start`.
        """
        if self._loop is None and not self._closed:
            raise ClientClosed(NOT_STARTED)

    async def start(self, timeout_ms: int | None = None) -> None:
        """Connect and learn the cluster. What is wrong is said at once: somebody waits who has seen nothing work yet.

        Raises:
            ClientClosed: it was closed before.
            ClientTimeout: no broker answered within `timeout_ms` (`default.api.timeout.ms` by default).
        """
        if self._closed:
            raise ClientClosed("the client is closed; make a new one")
        wait_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        self.metadata.troubles.first = partial(log.warning, "no answer yet, trying for %d ms: %s", wait_ms)
        self.open()
        try:
            await self.wait_for_metadata(lambda: not self.cluster.is_bootstrap, wait_ms)
        finally:
            self.metadata.troubles.first = None

    async def close(self) -> None:
        """Close all connections; whatever is under way fails with `ClientClosed`."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self.network.close(self.now_ms())
        self._step.perform()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._wake_waiters(self.metadata)
        await asyncio.sleep(0)  # aborted transports report their end on the loop's next turn

    def forked(self) -> None:
        """In the child of a fork: the sockets are the parent's, and so is the loop."""
        self._closed = True
        self._why_closed = belongs_to_parent("client")
        let_go(transport for transport in self._transports.values())

    def _leave(self, error: BaseException) -> None:
        if not self._closed:
            self.leave(error)

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed(self._why_closed)

    # ---- looking --------------------------------------------------------------------------------------------------

    def metrics(self, kind: str) -> Metrics:
        """The figures of a client of this kind (`producer`), in groups, by Kafka's names."""
        figures = self._rates.figures(self.now_ms())
        network, group = figures.pop(_NETWORK), f"{kind}-metrics"
        return {**figures, group: {**network, **figures.get(group, {})}}

    def _figures(self) -> Metrics:
        return {**self.figures(), _NETWORK: self.network.metrics()}

    def statistics(self, now_ms: int) -> dict[str, Any]:
        """What `stats_cb` is told: plain values under librdkafka's names; `ts` and `age` in microseconds."""
        client_id, more = self.config.client_id, self.statistics_of()
        return {
            "name": f"{client_id}#{more.get('type', 'client')}",
            "client_id": client_id,
            "ts": now_ms * 1000,
            "time": self._surroundings.wall_ms() // 1000,
            "age": (now_ms - self._opened_ms) * 1000,
            **self.network.statistics(),
            **more,
        }

    # ---- requests -------------------------------------------------------------------------------------------------

    async def send(
        self, node_id: int, request: Any, *, timeout_ms: int | None = None, max_version: int | None = None
    ) -> Any:
        """Send to a node, connecting if need be, and await its response (of the request's API).

        Raises:
            Disconnected: the connection failed, or the answer did not come within `timeout_ms`
                (by default `request.timeout.ms`, or `default.api.timeout.ms` where that is less). The request may have
                been carried out.
            FeatureMissing: the broker serves no version of the request that we speak.
            ClientClosed: the client was closed.
        """
        self.check_started()
        self._check_open()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def on_done(response: Any, error: BarnabasError | None, now_ms: int) -> None:
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(response)

        if timeout_ms is None:
            timeout_ms = min(self.config.request_timeout_ms, self.config.default_api_timeout_ms)
        self.network.enqueue(node_id, request, self.now_ms(), on_done, timeout_ms=timeout_ms, max_version=max_version)
        self.pump()
        return await answer

    async def any_node(self, timeout_ms: int | None = None) -> Node:
        """The least loaded node, waiting out reconnect back-offs.

        Raises:
            ClientTimeout: no node can be tried within `timeout_ms`.
        """
        self.check_started()
        wait_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = self.now_ms() + wait_ms
        while True:
            self._check_open()
            node = self.network.least_loaded_node(self.now_ms())
            if node is not None:
                return node
            now_ms = self.now_ms()
            if now_ms >= deadline_ms:
                raise ClientTimeout(f"no broker can be reached within {wait_ms} ms{self._why()}")
            delays = [self.network.poll_delay_ms(each, now_ms) for each in self.cluster.nodes]
            await asyncio.sleep(min(max(min(delays, default=1), 1), deadline_ms - now_ms, 1000) / 1000)

    # ---- metadata -------------------------------------------------------------------------------------------------

    async def refresh_metadata(self, topics: Iterable[str] = (), timeout_ms: int | None = None) -> Cluster:
        """Ask for metadata newer than now, these topics added to the interest, and return the snapshot.

        A topic the cluster does not know (yet) is absent from it.

        Raises:
            KafkaError: one of the topics is refused for good (invalid name, no authorisation).
            ClientTimeout: nothing newer came within `timeout_ms` (`default.api.timeout.ms` by default).
        """
        names = tuple(topics)
        self.metadata.add_topics(names, self.now_ms())
        version = self.metadata.request_update()
        await self.wait_for_metadata(lambda: self.metadata.version > version, timeout_ms)
        for name in names:
            error = self.metadata.topic_errors.get(name)
            if error is not None:
                raise error
        return self.cluster

    async def wait_for_metadata(self, condition: Callable[[], bool], timeout_ms: int | None = None) -> None:
        """Wait until `condition()` holds, tested after every change of the metadata.

        Raises:
            ClientTimeout: it did not within `timeout_ms` (`default.api.timeout.ms` by default).
            BarnabasError: the metadata can never be had.
        """
        self.check_started()
        wait_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = self.now_ms() + wait_ms
        self.pump()
        while not condition():
            self._check_open()
            if self.metadata.fatal is not None:
                raise self.metadata.fatal
            left_ms = deadline_ms - self.now_ms()
            if left_ms <= 0:
                servers = ", ".join(self.config.bootstrap_servers)
                raise ClientTimeout(f"no metadata from {servers} within {wait_ms} ms{self._why()}")
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await asyncio.wait([waiter], timeout=left_ms / 1000)

    def _why(self) -> str:
        """What somebody waited for in vain, as the end of a sentence: of the network, or what is wrong besides."""
        troubles = self.metadata.troubles
        return (
            troubles.why()
            if troubles.last_is_of_another("node")
            else self.network.tried(self.now_ms()) or troubles.why()
        )

    def _wake_waiters(self, metadata: Metadata) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # ---- the step -------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Let the core act on the present time, carry out its decisions, arm the timer. Safe to call at any time."""
        if self._loop is None or self._closed:
            return
        due_ms = self._step.run()
        if due_ms is not None:
            self._arm(due_ms)

    def _arm(self, due_ms: int) -> None:
        if self._timer is not None:
            if self._timer_ms <= due_ms and due_ms - self._timer_ms < 50:
                return  # fires early enough; a spare step is cheaper than a new timer each time
            self._timer.cancel()
            self._timer = None
        if due_ms < NEVER and self._loop is not None:
            self._timer_ms = due_ms
            delay_ms = max(due_ms - self.now_ms(), 0)
            self._timer = self._loop.call_later((delay_ms + 0.5) / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.pump()

    def _perform(self, action: Action) -> None:
        if isinstance(action, Connect):
            self._open(action)
        elif isinstance(action, Disconnect):
            self._close_transport(action.node_id)
        else:
            transport = self._transports.get(action.node_id)
            if transport is not None:
                transport.write(action.buffers)

    def _close_transport(self, node_id: int) -> None:
        transport = self._transports.pop(node_id, None)
        if transport is not None:
            transport.abort()
        task = self._tasks.pop(node_id, None)
        if task is not None:
            task.cancel()

    # ---- opening ----------------------------------------------------------------------------------------------------

    def _open(self, action: Connect) -> None:
        self._close_transport(action.node_id)
        assert self._loop is not None
        task = self._loop.create_task(self._connect(action))
        self._tasks[action.node_id] = task
        task.add_done_callback(partial(self._connect_ended, action.node_id))

    def _connect_ended(self, node_id: int, task: asyncio.Task[None]) -> None:
        if self._tasks.get(node_id) is task:
            del self._tasks[node_id]

    async def _connect(self, action: Connect) -> None:
        assert self._loop is not None
        node_id = action.node_id
        transport = Transport(node_id, self, self.config.send_buffer_bytes, self.config.receive_buffer_bytes)
        try:
            address = action.address
            if address is None:
                address = self.network.resolved(node_id, await resolve(self._loop, action.host, action.port))
            if address is None:
                raise OSError(f"{action.host} has no address")
            if address.startswith("/"):
                await self._loop.create_unix_connection(lambda: transport, address)
            else:
                await self._loop.create_connection(lambda: transport, address, action.port)
        except (OSError, OverflowError, ValueError) as error:  # the latter two: no such port, no such host name
            reason = f"cannot connect to {place_of(action.host, action.port)}: {words_of(error)}"
            self.network.on_disconnected(node_id, reason, self.now_ms())
            self.pump()

    # ---- the transport's calls --------------------------------------------------------------------------------------

    def transport_open(self, transport: Transport) -> None:
        """The socket to a node is connected."""
        self._transports[transport.node_id] = transport
        self.network.on_connected(transport.node_id, self.now_ms())
        self.pump()

    def transport_frame(self, transport: Transport, frame: memoryview) -> None:
        """A frame came."""
        if self._transports.get(transport.node_id) is transport:
            self.network.on_received(transport.node_id, frame, self.now_ms())
            self.pump()

    def transport_written(self, transport: Transport) -> None:
        """All bytes left: the core may have more for this node."""
        if self._transports.get(transport.node_id) is transport:
            self.network.on_written(transport.node_id, self.now_ms())
            self.pump()

    def transport_lost(self, transport: Transport, reason: str) -> None:
        """The socket is gone."""
        if self._transports.get(transport.node_id) is transport:
            del self._transports[transport.node_id]
            self.network.on_disconnected(transport.node_id, reason, self.now_ms())
            self.pump()

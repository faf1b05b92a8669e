"""The network client without a network: who may be sent what, what is in flight (Kafka's `NetworkClient`).

The shell tells it what happened (`on_connected`, `on_received`, `on_written`, `on_disconnected`, `tick`) and then does
what `take_actions` says: open, close and write. Every method takes the time; `next_deadline_ms` says when to call
`tick` at the latest. Nothing here waits.

Long because the state of a node's connection, its queue, and the metadata request that shares it are one machine: an
answer frees a place for what waits, a lost connection fails its queue and asks for metadata, metadata opens and closes
connections. Each of them alone has its room (`connections.py`, `dialect.py`, `metadata.py`); what one does to the other
stands here.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from barnabas.net import versions
from barnabas.net.backoff import Random
from barnabas.net.config import ClientConfig
from barnabas.net.connections import NEVER_TRIED, Connections, NodeConnection, State
from barnabas.net.counts import Counts
from barnabas.net.dialect import Dialect
from barnabas.net.errors import ClientClosed, Disconnected, FeatureMissing, MalformedAnswer
from barnabas.net.metadata import NEVER, Metadata
from barnabas.net.topology import Cluster, Node
from barnabas.net.troubles import unreached
from barnabas.protocol.api import ApiKey, key_of
from barnabas.protocol.errors import BarnabasError, EncodeError, ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.ids import Buffer
from barnabas.protocol.requests.api_versions import ApiVersionsResponse
from barnabas.protocol.requests.metadata import MetadataResponse

log = logging.getLogger(__name__)

APART: Final = 2**31 - 1
"""A second connection to a node goes by this minus the node's id, as in Kafka's client."""

_TOLD_NODES_MAX: Final = 5

SLOW_MS: Final = 1000
"""A connection that is not set up after so long is a trouble."""

_STATES: Final = {
    State.DISCONNECTED: "DOWN",
    State.CONNECTING: "CONNECT",
    State.CHECKING: "APIVERSION_QUERY",
    State.READY: "UP",
}
"""The states of a connection as librdkafka calls them."""

OnDone: TypeAlias = Callable[[Any, BarnabasError | None, int], None]
"""`on_done(response, error, now_ms)`: exactly once per request; one of the first two is None (both for acks=0)."""


class Connect(NamedTuple):
    """Open a connection. `address` None: look up the host first and tell `resolved`."""

    node_id: int
    host: str
    port: int
    address: str | None


class Disconnect(NamedTuple):
    """Close the node's connection at once."""

    node_id: int
    reason: str


class Write(NamedTuple):
    """Write these buffers, in order, and call `on_written` once the last byte left."""

    node_id: int
    buffers: list[Buffer]


Action: TypeAlias = Connect | Disconnect | Write


@dataclass(slots=True, frozen=True)
class PerVersion:
    """A request whose form depends on the version both sides speak: one key in the old form, a list in the new."""

    key: ApiKey
    make: Callable[[int], Any]


@dataclass(slots=True)
class InFlight:
    """One request under way. Deadlines are absolute ms."""

    correlation_id: int
    key: int
    version: int
    request: Any
    on_done: OnDone
    deadline_ms: int
    expects_answer: bool = True
    written: bool = False


@dataclass(slots=True)
class Unsent:
    """A request that waits for its node's connection or for a place among its requests in flight."""

    request: Any
    on_done: OnDone
    timeout_ms: int
    deadline_ms: int
    max_version: int | None


class NetworkClient:
    """Connections, requests in flight, version negotiation, metadata refresh: all decisions, no I/O."""

    def __init__(
        self, config: ClientConfig, metadata: Metadata, random: Random, dialect: Dialect | None = None
    ) -> None:
        self.config = config
        self.metadata = metadata
        self.connections = Connections(config, random)
        self.dialect = dialect or Dialect(config.dialect)
        self.throttle_listeners: list[Callable[[int, int], None]] = []
        self._apart: dict[int, Node] = {}
        self._random = random
        self._in_flight: dict[int, deque[InFlight]] = {}
        self._unsent: dict[int, deque[Unsent]] = {}
        self._actions: list[Action] = []
        self._correlation_id = 0
        self._metadata_in_flight = False
        self._closed = False
        self.counts = Counts()
        self._told_by = ""  # the address of who told the cluster's

    # ---- what the shell does and tells ------------------------------------------------------------------------------

    @property
    def cluster(self) -> Cluster:
        """The newest snapshot."""
        return self.metadata.cluster

    def take_actions(self) -> list[Action]:
        """What is to be done now, in this order; each is handed out once."""
        actions, self._actions = self._actions, []
        return actions

    def resolved(self, node_id: int, addresses: Sequence[str]) -> str | None:
        """The addresses behind a node's name were found; returns the one to open."""
        return self.connections.resolved(node_id, addresses)

    def on_connected(self, node_id: int, now_ms: int) -> None:
        """The socket is open: ask for the broker's versions."""
        connection = self.connections.of(node_id)
        if connection.state is not State.CONNECTING:
            return
        connection.move(State.CHECKING)
        self.counts.connections_made += 1
        connection.last_active_ms = now_ms
        if self.dialect.preamble:
            self._actions.append(Write(node_id, [self.dialect.preamble]))
        self._ask_versions(node_id, versions.ASKED_FIRST, now_ms)

    def on_written(self, node_id: int, now_ms: int) -> None:
        """Everything handed out for the node has left: the next request may go; acks=0 requests are done."""
        queue = self._in_flight.get(node_id)
        if not queue:
            return
        for request in queue:
            request.written = True
        while queue and not queue[0].expects_answer:
            queue.popleft().on_done(None, None, now_ms)
        self._send_unsent(node_id, now_ms)

    def on_received(self, node_id: int, frame: memoryview, now_ms: int) -> None:
        """One whole frame came. A frame that is no answer to the oldest request ends the connection."""
        connection = self.connections.of(node_id)
        connection.last_active_ms = now_ms
        self.counts.responses += 1
        self.counts.bytes_in += len(frame) + 4
        queue = self._in_flight.get(node_id)
        while queue and not queue[0].expects_answer:
            queue.popleft().on_done(None, None, now_ms)
        if not queue:
            self.disconnect(node_id, "answer without a request", now_ms)
            return
        request = queue[0]
        try:
            correlation_id, response = self._decode(request, frame)
            if correlation_id != request.correlation_id:
                raise ProtocolError(f"answer {correlation_id} came where {request.correlation_id} was due")
        except ProtocolError as error:
            self._refuse(node_id, request, error, now_ms)
            return
        queue.popleft()
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms > 0:
            connection.throttled_until_ms = now_ms + throttle_ms
            for listener in self.throttle_listeners:
                listener(node_id, throttle_ms)
        request.on_done(response, None, now_ms)
        self._send_unsent(node_id, now_ms)

    def on_disconnected(self, node_id: int, reason: str, now_ms: int) -> None:
        """The connection closed or never opened: fail all that was in flight on it, and refresh metadata."""
        self._note(node_id, reason, now_ms)
        self.metadata.request_update()
        self._gone(node_id, Disconnected(f"node {node_id}: {reason}"), now_ms)

    def tick(self, now_ms: int) -> None:
        """Time passed: time out requests and connection attempts, refresh metadata, send what may go now."""
        self._time_out_requests(now_ms)
        self._time_out_connects(now_ms)
        self._close_idle(now_ms)
        self._note_slow(now_ms)
        self.metadata.troubles.tick(now_ms)
        self.maybe_refresh(now_ms)
        for node_id in list(self._unsent):
            self._send_unsent(node_id, now_ms)

    def next_deadline_ms(self, now_ms: int) -> int:
        """When `tick` must be called next at the latest (absolute ms, `NEVER` when nothing is under way)."""
        due = NEVER if self._closed else self.metadata.troubles.next_ms()
        for queue in self._in_flight.values():
            for request in queue:
                due = min(due, request.deadline_ms)
        for connection in self.connections.nodes.values():
            if connection.state in (State.CONNECTING, State.CHECKING):
                due = min(due, connection.setup_deadline_ms)
                if connection.last_attempt_ms + SLOW_MS > now_ms:
                    due = min(due, connection.last_attempt_ms + SLOW_MS)
            elif connection.state is State.READY and self.config.connections_max_idle_ms >= 0:
                due = min(due, connection.last_active_ms + self.config.connections_max_idle_ms)
        for node_id, waiting in self._unsent.items():
            due = min(due, *(each.deadline_ms for each in waiting))
            due = min(due, self._may_proceed_ms(node_id, now_ms))
        if not self._metadata_in_flight and not self._closed:
            due = min(due, self._metadata_due_ms(now_ms))
        return due

    # ---- sending ----------------------------------------------------------------------------------------------------

    def keep_apart(self, node: Node, now_ms: int) -> int:
        """A second connection to a broker, for what must not wait behind a fetch; returns the id it goes by.

        A group's coordinator has one, as in Kafka's client: a broker answers what comes on one connection in order.
        """
        node_id = APART - node.id
        known = self._apart.get(node_id)
        if known is not None and known != node:
            self._let_go(node_id, "the broker moved", now_ms)
            self.connections.forget(node_id)
        self._apart[node_id] = node
        return node_id

    def ready(self, node_id: int, now_ms: int) -> bool:
        """Whether a request may be sent to the node now; if not, begins to connect where that is allowed."""
        if self.is_ready(node_id, now_ms):
            return True
        if self.connections.can_connect(node_id, now_ms):
            self._connect(node_id, now_ms)
        return False

    def is_ready(self, node_id: int, now_ms: int) -> bool:
        """Connection ready, not throttled, below the in-flight limit, the previous request fully written.

        A metadata refresh that is due goes first: nothing else is ready until it has left.
        """
        if not self._metadata_in_flight and self.metadata.next_update_ms() <= now_ms:
            return False
        return self._sendable(node_id, now_ms)

    def has_failed(self, node_id: int) -> bool:
        """Whether the node was lost, or could not be reached, twice or more since it last was ready."""
        found = self.connections.nodes.get(node_id)
        return found is not None and found.failures > 1

    def poll_delay_ms(self, node_id: int, now_ms: int) -> int:
        """How long until it is worth asking `ready` again without an event of the shell (ms)."""
        return max(0, self._may_proceed_ms(node_id, now_ms) - now_ms)

    def send(
        self,
        node_id: int,
        request: Any,
        now_ms: int,
        on_done: OnDone,
        *,
        timeout_ms: int | None = None,
        max_version: int | None = None,
        expects_answer: bool = True,
    ) -> None:
        """Send to a node that is ready. `timeout_ms` is the whole round trip's (`request.timeout.ms` by default)."""
        assert self._sendable(node_id, now_ms), f"node {node_id} takes no request now"
        wait = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        self._dispatch(node_id, request, now_ms, on_done, wait, max_version, expects_answer)

    def enqueue(
        self,
        node_id: int,
        request: Any,
        now_ms: int,
        on_done: OnDone,
        *,
        timeout_ms: int | None = None,
        max_version: int | None = None,
    ) -> None:
        """Send as soon as the node's connection allows, connecting if need be.

        The request fails with `Disconnected` when the connection attempt fails, or at `timeout_ms` if it never left.
        """
        if self._closed:
            on_done(None, ClientClosed("the client is closed"), now_ms)
            return
        wait = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        waiting = self._unsent.setdefault(node_id, deque())
        waiting.append(Unsent(request, on_done, wait, now_ms + wait, max_version))
        self._send_unsent(node_id, now_ms)

    def api_version(self, node_id: int, key: int, max_version: int | None = None) -> int | None:
        """The version both sides speak, None when there is none (or the connection is not ready)."""
        return versions.common(self.connections.of(node_id).versions, key, max_version)

    def in_flight_count(self, node_id: int | None = None) -> int:
        """Requests under way on one node, or on all."""
        if node_id is not None:
            return len(self._in_flight.get(node_id, ()))
        return sum(map(len, tuple(self._in_flight.values())))

    def tried(self, now_ms: int) -> str:
        """What was tried of the nodes, for who waited in vain, as the end of a sentence (empty: all are well)."""
        told = list(filter(None, (self._tried(node, now_ms) for node in self.cluster.nodes.values())))
        more = f"; and {len(told) - _TOLD_NODES_MAX} more" if len(told) > _TOLD_NODES_MAX else ""
        return f": {'; '.join(told[:_TOLD_NODES_MAX])}{more}" if told else ""

    def _tried(self, node: Node, now_ms: int) -> str:
        connection = self.connections.of(node.id)
        queue = self._in_flight.get(node.id)
        if queue and connection.state is State.READY:
            return f"{node.at} has not answered {ApiKey(queue[0].key).name}"
        tries = f" (tried {connection.attempts} time{'' if connection.attempts == 1 else 's'})"
        error = self.metadata.troubles.of(("node", node.id))
        if error is not None:
            return (error.detail if isinstance(error, Disconnected) else str(error)) + tries
        if connection.state in (State.CONNECTING, State.CHECKING):
            what = "no answer" if connection.state is State.CHECKING else "no connection"
            return f"{node.at}: {what} for {now_ms - connection.last_attempt_ms} ms{tries}"
        return ""

    def metrics(self) -> dict[str, float]:
        """What Kafka's clients tell of their network, by its names."""
        counts = self.counts
        return {
            "connection-count": float(counts.connections_made - counts.connections_closed),
            "connection-creation-total": float(counts.connections_made),
            "connection-close-total": float(counts.connections_closed),
            "request-total": float(counts.requests),
            "response-total": float(counts.responses),
            "outgoing-byte-total": float(counts.bytes_out),
            "incoming-byte-total": float(counts.bytes_in),
            "requests-in-flight": float(self.in_flight_count()),
        }

    def statistics(self) -> dict[str, Any]:
        """The same as librdkafka's statistics call it, with the brokers."""
        counts = self.counts
        return {
            "tx": counts.requests,
            "tx_bytes": counts.bytes_out,
            "rx": counts.responses,
            "rx_bytes": counts.bytes_in,
            "brokers": {
                f"{node.host}:{node.port}/{node.id}": {
                    "name": f"{node.host}:{node.port}/{node.id}",
                    "nodeid": node.id,
                    "nodename": f"{node.host}:{node.port}",
                    "state": _STATES[self.connections.of(node.id).state],
                    "waitresp_cnt": self.in_flight_count(node.id),
                }
                for node in tuple(self.cluster.nodes.values())
            },
        }

    def least_loaded_node(self, now_ms: int) -> Node | None:
        """The node to ask when any will do.

        From a random start, one pass over all: (1) a sendable connection with nothing in flight is taken at once;
        (2) else the sendable one with the fewest in flight; (3) else the one being opened (the last such scanned);
        (4) else one that may be connected now, longest since its last attempt first; (5) else one that has been opening
        for a second; else None.

        (1) to (4) are `NetworkClient.leastLoadedNode` of Apache Kafka. It knows no (5): there one broker that lets in
        and does not answer holds up whoever happens to ask it for as long as a set-up may take, 10 s.
        """
        nodes = list(self.cluster.nodes.values())
        if not nodes:
            return None
        start = int(self._random() * len(nodes))
        ready = connecting = disconnected = slow = None
        fewest, oldest = NEVER, NEVER
        for node in nodes[start:] + nodes[:start]:
            connection = self.connections.nodes.get(node.id)
            if connection is None or connection.state is State.DISCONNECTED:
                tried = NEVER_TRIED if connection is None else connection.last_attempt_ms
                if self.connections.can_connect(node.id, now_ms) and tried < oldest:
                    oldest, disconnected = tried, node
            elif connection.state is not State.READY:
                if self._is_slow(connection, now_ms):
                    slow = node
                else:
                    connecting = node
            elif self._sendable(node.id, now_ms):
                count = self.in_flight_count(node.id)
                if count == 0:
                    return node
                if count < fewest:
                    fewest, ready = count, node
        return ready or connecting or disconnected or slow

    def disconnect(self, node_id: int, reason: str, now_ms: int, *, timed_out: bool = False) -> None:
        """Close the connection from this side and fail what was in flight on it."""
        if self.connections.of(node_id).state is State.DISCONNECTED:
            return
        self._note(node_id, reason, now_ms, ended=not timed_out)
        self._actions.append(Disconnect(node_id, reason))
        self.metadata.request_update()
        self._gone(node_id, Disconnected(f"node {node_id}: {reason}", timed_out=timed_out), now_ms)

    def close(self, now_ms: int) -> None:
        """Close every connection; requests under way and waiting fail with `ClientClosed`."""
        self._closed = True
        error = ClientClosed("the client was closed")
        for node_id, connection in list(self.connections.nodes.items()):
            if connection.state is not State.DISCONNECTED:
                self._actions.append(Disconnect(node_id, "client closed"))
                self._gone(node_id, error, now_ms)
        for node_id in list(self._unsent):
            self._fail_unsent(node_id, error, now_ms)

    # ---- inside: requests -------------------------------------------------------------------------------------------

    def _sendable(self, node_id: int, now_ms: int) -> bool:
        connection = self.connections.nodes.get(node_id)
        if connection is None or connection.state is not State.READY or now_ms < connection.throttled_until_ms:
            return False
        queue = self._in_flight.get(node_id)
        return not queue or (queue[-1].written and len(queue) < self.config.max_in_flight_requests_per_connection)

    def _dispatch(
        self,
        node_id: int,
        request: Any,
        now_ms: int,
        on_done: OnDone,
        timeout_ms: int,
        max_version: int | None,
        expects_answer: bool = True,
    ) -> None:
        per_version = type(request) is PerVersion
        key = request.key if per_version else key_of(type(request))
        version = self.api_version(node_id, key, max_version)
        if version is None:
            on_done(None, self._missing(node_id, key), now_ms)
            return
        if per_version:
            request = request.make(version)
        self._write(node_id, key, version, request, now_ms, on_done, timeout_ms, expects_answer)

    def _write(
        self,
        node_id: int,
        key: int,
        version: int,
        request: Any,
        now_ms: int,
        on_done: OnDone,
        timeout_ms: int,
        expects_answer: bool = True,
    ) -> None:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        correlation_id = self._correlation_id
        try:
            buffers = self.dialect.encode(key, version, correlation_id, self.config.client_id, request)
        except BarnabasError as error:
            on_done(None, error, now_ms)
            return
        if log.isEnabledFor(logging.DEBUG):
            log.debug("node %d: %s v%d, request %d", node_id, ApiKey(key).name, version, correlation_id)
        self.counts.requests += 1
        self.counts.bytes_out += sum(map(len, buffers))
        queue = self._in_flight.setdefault(node_id, deque())
        queue.append(InFlight(correlation_id, key, version, request, on_done, now_ms + timeout_ms, expects_answer))
        self.connections.of(node_id).last_active_ms = now_ms
        self._actions.append(Write(node_id, buffers))

    def _refuse(self, node_id: int, request: InFlight, error: ProtocolError, now_ms: int) -> None:
        """Close the connection that a bad answer came on. The request it was to answer is told that apart."""
        told = request.on_done

        def on_done(response: Any, _: BarnabasError | None, now_ms: int) -> None:
            told(None, MalformedAnswer(f"node {node_id}: {error}"), now_ms)

        request.on_done = on_done
        self.disconnect(node_id, str(error), now_ms)

    def _decode(self, request: InFlight, frame: memoryview) -> tuple[int, Any]:
        if request.key == ApiKey.API_VERSIONS and self.dialect.name == "kafka":
            return self.dialect.decode(request.key, versions.answered_in(frame, request.version), frame)
        return self.dialect.decode(request.key, request.version, frame)

    def _send_unsent(self, node_id: int, now_ms: int) -> None:
        waiting = self._unsent.get(node_id)
        while waiting:
            if waiting[0].deadline_ms <= now_ms:
                late = waiting.popleft()
                why = self.metadata.troubles.why(("node", node_id))
                late.on_done(None, Disconnected(f"node {node_id}: not sent in time{why}", timed_out=True), now_ms)
                continue
            if not self._sendable(node_id, now_ms):
                if self.connections.can_connect(node_id, now_ms):
                    self._connect(node_id, now_ms)
                break
            each = waiting.popleft()
            left_ms = max(each.deadline_ms - now_ms, 1)
            self._dispatch(node_id, each.request, now_ms, each.on_done, left_ms, each.max_version)
        if waiting is not None and not waiting and self._unsent.get(node_id) is waiting:
            del self._unsent[node_id]

    def _fail_unsent(self, node_id: int, error: BarnabasError, now_ms: int) -> None:
        for each in self._unsent.pop(node_id, ()):
            each.on_done(None, error, now_ms)

    def _time_out_requests(self, now_ms: int) -> None:
        for node_id, queue in list(self._in_flight.items()):
            for each in queue:
                if each.deadline_ms <= now_ms:
                    name = ApiKey(each.key).name
                    self.disconnect(node_id, f"{name} was not answered in time", now_ms, timed_out=True)
                    break

    def _missing(self, node_id: int, key: ApiKey) -> FeatureMissing:
        node = self._node(node_id)
        who = f"node {node_id}" if node is None else node.at
        return FeatureMissing(versions.missing(who, self.connections.of(node_id).versions, key))

    # ---- inside: troubles -------------------------------------------------------------------------------------------

    def _note(self, node_id: int, reason: str, now_ms: int, since_ms: int | None = None, *, ended: bool = True) -> None:
        node = self._node(node_id)
        if node is not None and not self._closed:
            connection = self.connections.of(node_id)
            reached, handshake = connection.state is not State.CONNECTING, connection.state is State.CHECKING
            # An address that was given, or where it was: it is not there at present, and no other is to be looked for.
            right = connection.was_ready or node.at in self.config.bootstrap_servers
            told_by = "" if right else self._told_by
            error = unreached(node, told_by, reason, reached=reached, handshake=handshake, ended=ended)
            self.metadata.troubles.note(("node", node_id), error, now_ms, since_ms)

    def _note_slow(self, now_ms: int) -> None:
        """A connection that neither opens nor fails."""
        for node_id, connection in self.connections.nodes.items():
            if self._is_slow(connection, now_ms) and not self._closed:
                seconds = (now_ms - connection.last_attempt_ms) // 1000
                what = "no answer" if connection.state is State.CHECKING else "no connection"
                self._note(node_id, f"{what} for {seconds} s", now_ms, connection.last_attempt_ms, ended=False)

    # ---- inside: connections ----------------------------------------------------------------------------------------

    def _node(self, node_id: int) -> Node | None:
        return self.cluster.nodes.get(node_id) or self._apart.get(node_id)

    def _connect(self, node_id: int, now_ms: int) -> None:
        node = self._node(node_id)
        if node is None:
            self._fail_unsent(node_id, Disconnected(f"node {node_id} is unknown"), now_ms)
            return
        log.debug("node %d: connecting to %s:%d", node_id, node.host, node.port)
        self.connections.connecting(node_id, now_ms)
        self._actions.append(Connect(node_id, node.host, node.port, self.connections.address(node_id)))

    def _ask_versions(self, node_id: int, version: int, now_ms: int) -> None:
        def on_done(response: ApiVersionsResponse | None, error: BarnabasError | None, now_ms: int) -> None:
            if response is not None:
                self._on_versions(node_id, version, response, now_ms)

        timeout_ms = self.config.request_timeout_ms
        self._write(node_id, ApiKey.API_VERSIONS, version, versions.question(), now_ms, on_done, timeout_ms)

    def _on_versions(self, node_id: int, asked: int, response: ApiVersionsResponse, now_ms: int) -> None:
        try:
            served = versions.told(response, asked)
        except KafkaError as refusal:
            self.disconnect(node_id, str(refusal), now_ms)
            return
        if isinstance(served, int):
            self._ask_versions(node_id, served, now_ms)
            return
        log.debug("node %d: ready, it serves %d APIs", node_id, len(served))
        self.connections.ready(node_id, served)
        self.metadata.troubles.clear(("node", node_id))
        self.maybe_refresh(now_ms)
        self._send_unsent(node_id, now_ms)

    def _gone(self, node_id: int, error: BarnabasError, now_ms: int) -> None:
        connection = self.connections.of(node_id)
        if connection.state is State.DISCONNECTED:
            return
        log.debug("node %d: no longer connected: %s", node_id, error)
        if connection.state is not State.CONNECTING:
            self.counts.connections_closed += 1
        self.connections.disconnected(node_id, now_ms)
        lost = self._in_flight.pop(node_id, None) or ()
        for request in lost:
            request.on_done(None, error, now_ms)
        self._fail_unsent(node_id, error, now_ms)

    def _let_go(self, node_id: int, reason: str, now_ms: int) -> None:
        """Close a connection that nobody needs: no reason to doubt the metadata."""
        if self.connections.of(node_id).state is not State.DISCONNECTED:
            self._actions.append(Disconnect(node_id, reason))
            self._gone(node_id, Disconnected(f"node {node_id}: {reason}"), now_ms)

    def _time_out_connects(self, now_ms: int) -> None:
        for node_id, connection in list(self.connections.nodes.items()):
            opening = connection.state in (State.CONNECTING, State.CHECKING)
            if opening and connection.setup_deadline_ms <= now_ms:
                self.disconnect(node_id, "the connection was not set up in time", now_ms, timed_out=True)

    def _close_idle(self, now_ms: int) -> None:
        limit = self.config.connections_max_idle_ms
        for node_id, connection in list(self.connections.nodes.items()):
            idle = connection.state is State.READY and not self._in_flight.get(node_id)
            if idle and 0 <= limit <= now_ms - connection.last_active_ms:
                self._let_go(node_id, "idle", now_ms)

    def _may_proceed_ms(self, node_id: int, now_ms: int) -> int:
        connection: NodeConnection | None = self.connections.nodes.get(node_id)
        if connection is None:
            return now_ms
        if connection.state is State.DISCONNECTED:
            return max(connection.retry_at_ms, now_ms)
        if connection.throttled_until_ms > now_ms:
            return connection.throttled_until_ms
        return NEVER  # an event of the shell will say

    # ---- inside: metadata -------------------------------------------------------------------------------------------

    def _metadata_due_ms(self, now_ms: int) -> int:
        due = self.metadata.next_update_ms()
        if due > now_ms:
            return due
        if any(self._sendable(node_id, now_ms) for node_id in self.cluster.nodes):
            return now_ms
        waits = []
        for node_id in self.cluster.nodes:
            connection = self.connections.of(node_id)
            if connection.state is State.DISCONNECTED:
                waits.append(connection.retry_at_ms)
            elif connection.throttled_until_ms > now_ms:
                waits.append(connection.throttled_until_ms)
            elif not self._is_slow(connection, now_ms):
                return NEVER  # wait for the connection that opens, or for a place on the one that is busy
        if self.cluster.nodes and not waits:
            return NEVER  # all are slow to open
        return max(min(waits, default=now_ms), now_ms + 1)

    def maybe_refresh(self, now_ms: int) -> None:
        """Ask for metadata if that is due and a node can be asked (or connected); drivers may have wished for it."""
        if self._metadata_in_flight or self._closed or self.metadata.next_update_ms() > now_ms:
            return
        self._maybe_rebootstrap(now_ms)
        node = self.least_loaded_node(now_ms)
        if node is None:
            return
        if self._sendable(node.id, now_ms):
            self._ask_metadata(node.id, now_ms)
        elif not self._any_connecting(now_ms) and self.connections.can_connect(node.id, now_ms):
            self._connect(node.id, now_ms)  # while one is opening we wait rather than open another

    def _any_connecting(self, now_ms: int) -> bool:
        states = (self.connections.nodes.get(node_id) for node_id in self.cluster.nodes)
        opening = (State.CONNECTING, State.CHECKING)
        return any(each and each.state in opening and not self._is_slow(each, now_ms) for each in states)

    def is_slow(self, node_id: int, now_ms: int) -> bool:
        """Whether a node has kept its connection opening for so long that another is better asked."""
        connection = self.connections.nodes.get(node_id)
        return connection is not None and self._is_slow(connection, now_ms)

    @staticmethod
    def _is_slow(connection: NodeConnection, now_ms: int) -> bool:
        """Whether it has been opening for so long that others are asked meanwhile."""
        opening = connection.state in (State.CONNECTING, State.CHECKING)
        return opening and connection.last_attempt_ms + SLOW_MS <= now_ms

    def _ask_metadata(self, node_id: int, now_ms: int) -> None:
        request, wish, partial = self.metadata.next_request(now_ms)
        self._metadata_in_flight = True
        node = self.cluster.nodes[node_id]

        def on_done(response: MetadataResponse | None, error: BarnabasError | None, now_ms: int) -> None:
            self._metadata_in_flight = False
            if response is not None:
                self._told_by = node.at
                self._on_metadata(wish, response, partial, now_ms)
            elif isinstance(error, FeatureMissing):
                self.metadata.fail_fatally(error)
                self.metadata.failed(now_ms)
            else:
                if isinstance(error, EncodeError):
                    told = FeatureMissing(f"{node.at} is older than what this client needs: {error}")
                    self.metadata.troubles.note(("node", node_id), told, now_ms)
                self.metadata.failed(now_ms)
            if not self._closed:
                self.maybe_refresh(now_ms)

        self._dispatch(node_id, request, now_ms, on_done, self.config.request_timeout_ms, None)

    def _on_metadata(self, wish: int, response: MetadataResponse, partial: bool, now_ms: int) -> None:
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and self._rebootstraps:
            self._rebootstrap("a broker asked for it", now_ms)
            return
        self.metadata.update(wish, response, partial, now_ms)
        known = self.cluster.nodes.keys() | self._apart.keys()
        if log.isEnabledFor(logging.DEBUG):
            log.debug(
                "metadata %d: nodes %s, topics %s", self.metadata.version, sorted(known), list(self.cluster.topics)
            )
        self.metadata.troubles.clear_all(
            lambda key: isinstance(key, tuple) and key[0] == "node" and key[1] not in known
        )
        for node_id in [each for each in self.connections.nodes if each not in known]:
            if not self._in_flight.get(node_id) and node_id not in self._unsent:
                self._let_go(node_id, "no longer part of the cluster", now_ms)
                self.connections.forget(node_id)

    @property
    def _rebootstraps(self) -> bool:
        return self.config.metadata_recovery_strategy == "rebootstrap"

    def _maybe_rebootstrap(self, now_ms: int) -> None:
        """KIP-899: no node is usable; KIP-1102: none answered for `metadata.recovery.rebootstrap.trigger.ms`."""
        if not self._rebootstraps or self.cluster.is_bootstrap:
            return
        started = self.metadata.attempt_started_ms
        trigger_ms = self.config.metadata_recovery_rebootstrap_trigger_ms
        if started is not None and now_ms - started >= trigger_ms:
            self._rebootstrap("no broker told metadata for too long", now_ms)
            return
        states = [self.connections.of(node_id) for node_id in self.cluster.nodes]
        if all(each.state is State.DISCONNECTED and now_ms < each.retry_at_ms for each in states):
            self._rebootstrap("no broker can be reached", now_ms)

    def _rebootstrap(self, reason: str, now_ms: int) -> None:
        for node_id in list(self.connections.nodes):
            self.disconnect(node_id, f"starting again from bootstrap.servers: {reason}", now_ms)
        self.metadata.rebootstrap(now_ms)

"""The state of the connection to each node, and when the next one may be tried (Kafka's `ClusterConnectionStates`).

state          event                              next
DISCONNECTED   connect (back-off over)            CONNECTING
CONNECTING     connected                          CHECKING
CONNECTING     refused, set-up timeout            DISCONNECTED
CHECKING       versions answered                  READY
CHECKING       closed, unusable answer            DISCONNECTED
READY          closed, request timeout, idle      DISCONNECTED
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from barnabas.net.backoff import Backoff, Random
from barnabas.net.config import ClientConfig

NEVER_TRIED = -1


class State(Enum):
    """Where the connection to a node stands."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    CHECKING = "checking"
    READY = "ready"


_MOVES = {
    State.DISCONNECTED: (State.CONNECTING,),
    State.CONNECTING: (State.CHECKING, State.DISCONNECTED),
    State.CHECKING: (State.READY, State.DISCONNECTED),
    State.READY: (State.DISCONNECTED,),
}


@dataclass(slots=True)
class NodeConnection:
    """One node's connection. Times are absolute ms; `versions` are the ranges the broker advertised.

    `attempts` counts the connections that were begun; `was_ready`: one of them was, in its time.
    """

    node_id: int
    state: State = State.DISCONNECTED
    last_attempt_ms: int = NEVER_TRIED
    retry_at_ms: int = 0
    attempts: int = 0
    failures: int = 0
    setup_failures: int = 0
    setup_deadline_ms: int = 0
    throttled_until_ms: int = 0
    last_active_ms: int = 0
    versions: dict[int, tuple[int, int]] = field(default_factory=dict)
    addresses: list[str] = field(default_factory=list)
    address_index: int = 0
    was_ready: bool = False

    def move(self, to: State) -> None:
        """Change state along the table; anything else is a bug of ours."""
        assert to in _MOVES[self.state], f"connection to node {self.node_id}: {self.state.value} to {to.value}"
        self.state = to


class Connections:
    """All nodes' connections, with reconnect back-off and set-up timeouts that grow with failures."""

    def __init__(self, config: ClientConfig, random: Random) -> None:
        self.nodes: dict[int, NodeConnection] = {}
        self._reconnect = Backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms, random)
        self._setup = Backoff(
            config.socket_connection_setup_timeout_ms, config.socket_connection_setup_timeout_max_ms, random
        )

    def of(self, node_id: int) -> NodeConnection:
        """The node's connection, made on first mention."""
        found = self.nodes.get(node_id)
        if found is None:
            found = self.nodes[node_id] = NodeConnection(node_id)
        return found

    def can_connect(self, node_id: int, now_ms: int) -> bool:
        """Whether a new attempt is allowed now: disconnected, and the back-off is over."""
        found = self.nodes.get(node_id)
        return found is None or (found.state is State.DISCONNECTED and now_ms >= found.retry_at_ms)

    def connecting(self, node_id: int, now_ms: int) -> NodeConnection:
        """An attempt begins."""
        node = self.of(node_id)
        node.move(State.CONNECTING)
        node.last_attempt_ms = now_ms
        node.attempts += 1
        node.setup_deadline_ms = now_ms + self._setup.wait_ms(node.setup_failures)
        return node

    def resolved(self, node_id: int, addresses: Sequence[str]) -> str | None:
        """Take the addresses behind the node's name; returns the one to try (KIP-302: all of them, in turn)."""
        node = self.of(node_id)
        node.addresses = list(addresses)
        node.address_index = 0
        return node.addresses[0] if node.addresses else None

    def address(self, node_id: int) -> str | None:
        """The address to try next, None when the name must be looked up (again)."""
        node = self.of(node_id)
        return node.addresses[node.address_index] if node.address_index < len(node.addresses) else None

    def ready(self, node_id: int, versions: dict[int, tuple[int, int]]) -> None:
        """The broker told its versions: requests may go. Failures are forgotten."""
        node = self.of(node_id)
        node.move(State.READY)
        node.versions = versions
        node.was_ready = True
        node.failures = node.setup_failures = 0

    def disconnected(self, node_id: int, now_ms: int) -> None:
        """The connection is gone: back off, and try the next address of the node first if there is one."""
        node = self.of(node_id)
        if node.state is State.DISCONNECTED:
            return
        if node.state is State.CONNECTING:
            node.setup_failures += 1
            node.address_index += 1
        elif node.state is State.READY:
            node.addresses = []  # look the name up again: the broker may have moved
        node.move(State.DISCONNECTED)
        node.retry_at_ms = now_ms + self._reconnect.wait_ms(node.failures)
        node.failures += 1
        node.versions = {}

    def forget(self, node_id: int) -> None:
        """The cluster has no such node any more."""
        self.nodes.pop(node_id, None)

"""Brokers behind a client's network core: real cores, and frames that travel when the walk says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from barnabas.broker.context import Connection, RequestContext
from barnabas.explain.stage import Stage
from barnabas.net.network import Action, Connect, Disconnect, NetworkClient
from barnabas.net.step import Step
from barnabas.protocol.api import ApiKey, name_of
from barnabas.protocol.kafka import codec


class _Context(RequestContext):
    """Puts the answer, as it goes over the wire, on the way back."""

    __slots__ = ("_correlation_id", "_way")

    def __init__(self, connection: Connection, header: Any, way: Callable[[bytes], None]) -> None:
        super().__init__(connection, header.api_key, header.api_version, header.client_id)
        self._correlation_id = header.correlation_id
        self._way = way

    def respond(self, response: Any) -> None:
        buffers = codec.encode_response(self.api_key, self.api_version, self._correlation_id, response)
        self._way(b"".join(buffers)[4:])

    def close(self, reason: str) -> None:
        raise AssertionError(reason)


class Wire:
    """What is asked of each broker is answered at once; the answer stays on its way until `deliver`.

    Attributes:
        asked: what went out, as `Metadata to broker 1`, since the walk last looked.
    """

    def __init__(self, network: NetworkClient, brokers: dict[int, Stage]) -> None:
        self.asked: list[str] = []
        self.now_ms = 0
        self._network = network
        self._brokers = brokers
        self._under_way: deque[tuple[int, int, bytes]] = deque()
        self._connected: deque[int] = deque()
        self.step = Step(network, self._perform, lambda: self.now_ms)

    def broker_of(self, node_id: int) -> int:
        """Bootstrap servers are negative numbers, in the order of the setting."""
        return node_id if node_id >= 0 else sorted(self._brokers)[-node_id - 1]

    def run(self, *, deliver: bool = True) -> None:
        """Let the client act until it waits for time, or with `deliver` false for an answer to a Produce."""
        while True:
            self.step.run()
            if self._connected:
                self._network.on_connected(self._connected.popleft(), self.now_ms)
                continue
            at = next((at for at, (_, key, _) in enumerate(self._under_way) if deliver or key != ApiKey.PRODUCE), None)
            if at is None:
                return
            node_id, _, frame = self._under_way[at]
            del self._under_way[at]
            self._network.on_received(node_id, memoryview(frame), self.now_ms)

    def deliver(self, broker: int) -> None:
        """Bring the oldest answer of a broker."""
        at = next(at for at, (node_id, _, _) in enumerate(self._under_way) if self.broker_of(node_id) == broker)
        node_id, _, frame = self._under_way[at]
        del self._under_way[at]
        self._network.on_received(node_id, memoryview(frame), self.now_ms)
        self.step.run()

    def advance(self, ms: int) -> None:
        """Let time pass."""
        self.now_ms += ms

    def _perform(self, action: Action) -> None:
        if isinstance(action, Connect):
            if action.address is None:
                self._network.resolved(action.node_id, ["127.0.0.1"])
            self._connected.append(action.node_id)
        elif isinstance(action, Disconnect):
            self._under_way = deque(one for one in self._under_way if one[0] != action.node_id)
        else:
            self._network.on_written(action.node_id, self.now_ms)
            self._take(action.node_id, b"".join(action.buffers))

    def _take(self, node_id: int, data: bytes) -> None:
        broker = self.broker_of(node_id)
        stage = self._brokers[broker]
        view = memoryview(data)
        while view:
            end = 4 + int.from_bytes(view[:4], "big")
            header, request = codec.decode_request(view[4:end])
            view = view[end:]
            self.asked.append(f"{name_of(header.api_key)} to broker {broker}")

            def way(frame: bytes, key: int = header.api_key) -> None:
                self._under_way.append((node_id, key, frame))

            connection = Connection(1000 + node_id, "PLAINTEXT", "127.0.0.1", "kafka", stage.now_ms)
            stage.handle(request, _Context(connection, header, way))

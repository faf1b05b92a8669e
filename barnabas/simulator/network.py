"""The network of a world: who listens where, which ways are open, and how long bytes take."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from barnabas.net.host.keepalive import AGAIN_S, IDLE_S, UNANSWERED_MAX
from barnabas.simulator.loop import ProcessLoop
from barnabas.simulator.pipe import End, Pipe
from barnabas.simulator.wire import Tap, Wire, server_side
from barnabas.simulator.world import MS, SECOND, World

Address = tuple[str, int]

_PIECE_BYTES_MAX: Final = 1400
"""Where bytes trickle, so many come at once at most."""
_FIRST_AGAIN_NS: Final = 200 * MS
_AGAIN_NS_MAX: Final = 4 * SECOND
"""Bounds of TCP's retransmission timeout; the system's real upper one is 120 s."""
_ASKED_NS: Final = tuple((IDLE_S + AGAIN_S * times) * SECOND for times in range(UNANSWERED_MAX + 1))
"""When TCP asks a peer that is silent whether it is there, and when it takes it for gone."""


class Listener(NamedTuple):
    """A listening socket, with asyncio's `Server` over it."""

    network: Network
    address: Address
    loop: ProcessLoop
    factory: Callable[[], asyncio.BaseProtocol]

    def close(self) -> None:
        """Accept no more."""
        if self.network.listeners.get(self.address) is self:
            del self.network.listeners[self.address]


class Network:
    """Everything between processes.

    Attributes:
        trickles: of a thousand writes so many arrive in small pieces.
        slow: delays are so many times as long.
        slow_ways: ways that take up to so long (ns), from host to host.
        patience_ns: an end gives up when nothing was heard for so long.
        cuts: ways that are cut, from host to host.
        off: hosts without power.
        tap: is told what the accepting sides read and write.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.listeners: dict[Address, Listener] = {}
        self.cuts: dict[tuple[str, str], None] = {}
        self.off: dict[str, None] = {}
        self.tap: Tap | None = None
        self.slow = 1
        self.slow_ways: dict[tuple[str, str], int] = {}
        self._chance = world.chance("network")
        self._bits = self._chance.getrandbits
        self.trickles = self._chance.choice((0, 0, 50, 300))
        self.window = self._chance.choice((16_384, 65_536, 1 << 20))
        self.patience_ns = self._chance.randrange(3, 30) * SECOND
        self._delay_ns_max = self._chance.choice((MS // 5, 2 * MS, 20 * MS))
        self._wires: dict[Wire, None] = {}
        self._made = 0

    # -- chance

    def delay_ns(self, source: str = "", target: str = "") -> int:
        """How long something takes from host to host; one in a hundred much longer."""
        longest = self._delay_ns_max * self.slow
        if self.slow_ways:
            longest = max(longest, self.slow_ways.get((source, target), 0))
        if self._below(100) == 0:
            longest *= 10
        shortest = longest // 10
        return shortest + self._below(longest - shortest)

    def _below(self, count: int) -> int:
        """What `randrange(count)` draws, in a third of the time: it is drawn three times for each piece."""
        bits = count.bit_length()
        drawn = self._bits(bits)
        while drawn >= count:
            drawn = self._bits(bits)
        return drawn

    def piece(self, size: int) -> int:
        """How many of so many bytes come at once."""
        if self._below(1000) >= self.trickles:
            return size
        self.world.count("trickled pieces")
        return min(size, self._chance.randrange(1, _PIECE_BYTES_MAX))

    def again_ns(self, waited_ns: int) -> int:
        """When to try again what did not pass."""
        longest = min(max(waited_ns, _FIRST_AGAIN_NS), _AGAIN_NS_MAX)
        return self._chance.randrange(longest // 2, longest)

    # -- ways

    def reaches(self, source: str, target: str) -> bool:
        """Whether bytes that have left one host come to the other."""
        return (source, target) not in self.cuts and target not in self.off

    def passes(self, one: str, other: str) -> bool:
        """Whether two hosts can talk."""
        return self.reaches(one, other) and self.reaches(other, one)

    def cut(self, source: str, target: str) -> None:
        """Let nothing pass from one host to the other."""
        self.cuts[source, target] = None

    def heal(self) -> None:
        """Open every way."""
        self.cuts.clear()
        self.slow_ways.clear()
        self.slow = 1

    def reset(self, host: str) -> int:
        """Break all connections of a host, with what is on its way; how many."""
        wires = [wire for wire in self._wires if wire.host == host]
        for wire in wires:
            wire.pipe.lose()
            wire.pipe.put(End.RESET)
            wire.failed(ConnectionResetError("connection reset by peer"))
        return len(wires)

    def power(self, host: str, *, on: bool) -> None:
        """A machine loses its power, or has it again. Its peers are told nothing before they send or TCP asks."""
        if on:
            self.off.pop(host, None)
            return
        self.off[host] = None
        for address in [address for address in self.listeners if address[0] == host]:
            del self.listeners[address]
        for wire in [wire for wire in self._wires if wire.host == host]:
            self.world.count("half-open connections")
            for after_ns in _ASKED_NS:
                self.world.after(after_ns, partial(self._ask, wire.peer, host, last=after_ns == _ASKED_NS[-1]))
            wire.machine_ended()

    def _ask(self, wire: Wire, host: str, *, last: bool) -> None:
        """TCP asks a host that had no power for a connection; a host that is back knows nothing of it."""
        if wire.gone:
            return
        if self.passes(wire.host, host):
            wire.failed(ConnectionResetError("connection reset by peer"))
        elif last:
            wire.failed(TimeoutError("nothing was heard of the peer"))

    def process_ended(self, loop: ProcessLoop) -> None:
        """The system closes what a process had open."""
        for listener in [each for each in self.listeners.values() if each.loop is loop]:
            listener.close()
        for wire in [wire for wire in self._wires if wire.loop is loop]:
            wire.process_ended()

    def forget(self, wire: Wire) -> None:
        """Nobody has it open any more."""
        self._wires.pop(wire, None)

    # -- connections

    def listen(self, loop: ProcessLoop, address: Address, factory: Callable[[], asyncio.BaseProtocol]) -> Listener:
        """Listen.

        Raises:
            OSError: somebody does already.
        """
        if address in self.listeners:
            raise OSError(errno.EADDRINUSE, "address in use")
        listener = self.listeners[address] = Listener(self, address, loop, factory)
        return listener

    async def connect(self, loop: ProcessLoop, address: Address) -> Wire:
        """Connect; waits for as long as nobody answers.

        Raises:
            ConnectionRefusedError: nobody listens there.
        """
        answer: asyncio.Future[Wire] = loop.create_future()
        self.world.after(self.delay_ns(), partial(self._knock, loop, address, answer, self.world.now_ns))
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                answer.result().abort()
            raise

    def _knock(self, loop: ProcessLoop, address: Address, answer: asyncio.Future[Wire], since_ns: int) -> None:
        if answer.done() or loop.is_closed():
            return
        if not self.passes(loop.host, address[0]):
            again_ns = self.again_ns(self.world.now_ns - since_ns)
            self.world.after(again_ns, partial(self._knock, loop, address, answer, since_ns))
            return
        listener = self.listeners.get(address)
        if listener is None:
            self.world.count("connections refused")
            self._tell(answer, ConnectionRefusedError(errno.ECONNREFUSED, "connection refused"))
            return
        self._made += 1
        number = self._made
        client = Wire(self, loop, f"{loop.name}#{number}", address)
        server = Wire(self, listener.loop, f"{listener.loop.name}#{number}", (loop.host, 40_000 + number))
        client.pipe, client.peer = Pipe(self, client, server, self.window), server
        server.pipe, server.peer = Pipe(self, server, client, self.window), client
        server.tap = self.tap
        self._wires[client] = self._wires[server] = None
        listener.loop.call_soon(server_side, server, listener.factory)
        self._tell(answer, client)

    def _tell(self, answer: asyncio.Future[Wire], outcome: Wire | OSError) -> None:
        """The answer to a connection attempt travels back."""

        def arrive() -> None:
            if answer.done() or answer.get_loop().is_closed():
                if isinstance(outcome, Wire):
                    outcome.process_ended()
            elif isinstance(outcome, Wire):
                answer.set_result(outcome)
            else:
                answer.set_exception(outcome)

        self.world.after(self.delay_ns(), arrive)


def socket_of(address: Address) -> Any:
    """What stands for a bound socket in a `Listening`."""
    return _Bound(address)


class _Bound(NamedTuple):
    address: Address

    def close(self) -> None:
        """It listens as long as its server."""

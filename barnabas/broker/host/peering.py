"""The ways to the other brokers on the loop: sockets and timers for `peers/way.py`, one connection a broker and lane.

What a socket or a timer tells goes to the way, then its actions are carried out, then whoever has an answer is told in
one step of the core. Nothing is opened before something is asked, and each attempt asks the metadata for the address.
Of a name with several addresses each attempt tries the next (KIP-302). A connection to where a broker does not listen
any more is closed before the next request: another process with its id may be there still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.config import BrokerConfig
from barnabas.broker.config.quorum import voters_of
from barnabas.broker.introduction import Introduction
from barnabas.broker.peers.way import Action, Open, Way, Write
from barnabas.broker.ports import Entropy, Lane
from barnabas.net.host.addresses import resolve, words_of
from barnabas.net.host.transport import Transport

if TYPE_CHECKING:
    from barnabas.broker.host.host import Host

_OF_SESSIONS: Final = (Lane.METADATA, Lane.MEMBERSHIP)
_WAIT_MS_MIN: Final = 1000
"""However short a session is: a fetch of metadata waits half of that for news."""
_KNOCK_MS_MAX: Final = 2000
"""Who has not refused by then is silent."""
_HELD_MS: Final = 500
"""Who lets in is looked at for so long: a process that ends may close its connections before it stops listening."""


class Peering:
    """The other brokers (`ports.Peers`).

    Args:
        config: this broker's settings.
        listener: where brokers of this cluster listen for each other.
        secret: what they know each other by.
        entropy: what makes each introduction another one.
    """

    def __init__(self, config: BrokerConfig, listener: str, secret: bytes, entropy: Entropy) -> None:
        self._config = config
        self._listener = listener
        self._secret = secret
        self._entropy = entropy
        self.host: Host
        """Whose core asks; set before anything is asked."""
        self._lines: dict[tuple[int, Lane], Line] = {}
        self._knocks: dict[asyncio.Task[None], None] = {}

    def address_of(self, broker_id: int) -> tuple[str, int] | None:
        """Where a broker listens for brokers: controllers as the settings have it, the others as they have told."""
        for voter in voters_of(self._config):
            if voter.node_id == broker_id and voter.host:
                return voter.host, voter.port
        return self.told_by(broker_id)

    def told_by(self, broker_id: int) -> tuple[str, int] | None:
        """Where a broker has told that it listens for brokers; None while it has not."""
        broker = self.host.core.image.brokers.get(broker_id)
        return None if broker is None else broker.endpoint(self._listener)

    def is_fenced(self, broker_id: int) -> bool:
        """Whether it was fenced, as one that stops is; unlike one that the metadata does not have yet."""
        broker = self.host.core.image.brokers.get(broker_id)
        return broker is not None and broker.fenced

    def introduce(self, broker_id: int) -> Introduction:
        """How this broker makes itself known to another one."""
        nonce = self._entropy.uuid() + self._entropy.uuid()
        core = self.host.core
        return Introduction(self._secret, core.services.cluster_id, core.config.node_id, nonce, broker_id)

    def timeout_ms(self, lane: Lane) -> int:
        """How long a request may take.

        The controller is asked again within half a session: a machine that lost its power says nothing of what it owes,
        and who waits for that hears of no leader, and is fenced (`BrokerServer`, the "heartbeat" channel; a metadata
        fetch has two seconds there, `controller.quorum.request.timeout.ms`).
        """
        config = self._config
        quorum_ms = max(config.controller_quorum_request_timeout_ms, _WAIT_MS_MIN)
        if lane is Lane.QUORUM:
            return quorum_ms
        if lane in _OF_SESSIONS:
            session_ms = max(config.broker_session_timeout_ms // 2, _WAIT_MS_MIN)
            if lane is Lane.METADATA and len(voters_of(config)) > 1:
                session_ms = min(session_ms, quorum_ms)
            return min(config.replica_socket_timeout_ms, session_ms)
        return config.replica_socket_timeout_ms

    def send(
        self,
        broker_id: int,
        request: Any,
        done: Callable[[Any | None], None],
        lane: Lane = Lane.RECORDS,
        version: int | None = None,
    ) -> None:
        """Send a request; its answer, or None, comes in a later step of the core."""
        line = self._lines.get((broker_id, lane))
        if line is None:
            line = self._lines[broker_id, lane] = Line(self, broker_id, lane)
        line.heed(self.told_by(broker_id))
        line.way.ask(request, done, self.host.now_ms(), version)
        line.soon()

    def knock(self, broker_id: int, done: Callable[[bool], None]) -> None:
        """Find out whether anybody listens where a broker should; each address behind its name must refuse."""
        task = self.host.loop.create_task(self._knock(broker_id, done))
        self._knocks[task] = None
        task.add_done_callback(lambda task: self._knocks.pop(task, None))

    async def _knock(self, broker_id: int, done: Callable[[bool], None]) -> None:
        address = self.address_of(broker_id)
        refused = address is not None and await _all_refuse(self.host.loop, *address)
        self.host.complete(lambda: done(refused))

    def close(self) -> None:
        """Close all connections; nobody is told any more."""
        lines, self._lines = self._lines, {}
        for task in list(self._knocks):
            task.cancel()
        for line in lines.values():
            line.close()


async def _all_refuse(loop: asyncio.AbstractEventLoop, host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(_KNOCK_MS_MAX / 1000):
            found = await resolve(loop, host, port)
            for one in found:
                if not await _refuses(loop, one, port):
                    return False
            return bool(found)
    except (OSError, OverflowError, ValueError):  # a timeout is an OSError, too
        return False


async def _refuses(loop: asyncio.AbstractEventLoop, host: str, port: int) -> bool:
    """Whether nobody listens there; who lets in and hangs up is knocked at once more, for it may have ended."""
    for _ in range(2):
        try:
            if not await _hangs_up(loop, host, port):
                return False
        except ConnectionRefusedError:
            return True
        except ConnectionResetError:
            continue
    return False


async def _hangs_up(loop: asyncio.AbstractEventLoop, host: str, port: int) -> bool:
    """Whether who lets in ends the connection soon."""
    transport, held = await loop.create_connection(_Held, host, port)
    try:
        ended, _ = await asyncio.wait({held.ended}, timeout=_HELD_MS / 1000)
        return bool(ended)
    finally:
        transport.abort()


class _Held(asyncio.Protocol):
    """A connection that says nothing, and knows when it is ended."""

    def __init__(self) -> None:
        self.ended = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class Line:
    """One way with its socket and its timer."""

    def __init__(self, peering: Peering, broker_id: int, lane: Lane) -> None:
        self.way = Way(
            f"broker {broker_id}",
            peering.timeout_ms(lane),
            partial(peering.introduce, broker_id),
            partial(peering.is_fenced, broker_id),
            seals=lane is Lane.FORWARDED,
        )
        self._peering = peering
        self._host = peering.host
        self._broker_id = broker_id
        self._transport: Transport | None = None
        self._opening: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._soon = False
        self._closed = False
        self._told: tuple[str, int] | None = None  # where the broker listened when this was opened, as it had told
        self._turn = 0  # which of the addresses behind a name is tried next; one that answers keeps its turn

    def soon(self) -> None:
        """Carry out what was decided, once the core's present step is over."""
        if not self._soon and not self._closed:
            self._soon = True
            self._host.loop.call_soon(self._pump)

    def heed(self, told: tuple[str, int] | None) -> None:
        """Hang up where the broker has told since that it listens elsewhere."""
        if self._transport is not None and told is not None and self._told not in (None, told):
            self._hang_up()
            self.way.lost(f"it listens at {told[0]}:{told[1]} by now", self._host.now_ms())

    def close(self) -> None:
        """Let go of socket and timer."""
        self._closed = True
        self._hang_up()
        if self._timer is not None:
            self._timer.cancel()

    # The transport's calls

    def transport_open(self, transport: Transport) -> None:
        """The socket is connected."""
        if transport is self._transport:
            self._turn -= 1
            self.way.opened(self._host.now_ms())
            self._pump()

    def transport_frame(self, transport: Transport, frame: memoryview) -> None:
        """A frame came."""
        if transport is self._transport:
            self.way.received(frame, self._host.now_ms())
            self._pump()

    def transport_written(self, transport: Transport) -> None:
        """All bytes left."""

    def transport_lost(self, transport: Transport, reason: str) -> None:
        """The socket is gone."""
        if transport is self._transport:
            self._lost(reason)

    # Inside

    def _lost(self, reason: str) -> None:
        self._transport = None
        self.way.lost(reason, self._host.now_ms())
        self._pump()

    def _pump(self) -> None:
        self._soon = False
        if self._closed:
            return
        for action in self.way.take_actions():
            self._perform(action)
        if self.way.has_told:
            self._host.complete(self.way.settle)
        self._arm()

    def _perform(self, action: Action) -> None:
        if isinstance(action, Write):
            if self._transport is not None:
                self._transport.write(action.buffers)
            return
        self._hang_up()
        if isinstance(action, Open):
            self._transport = Transport(self._broker_id, self, -1, -1)
            self._told = self._peering.told_by(self._broker_id)
            self._opening = self._host.loop.create_task(self._open(self._transport))

    async def _open(self, transport: Transport) -> None:
        address = self._peering.address_of(self._broker_id)
        loop = self._host.loop
        try:
            if address is None:
                raise OSError("it has not told where it listens for brokers")
            found = await resolve(loop, *address)
            if not found:
                raise OSError(f"{address[0]} has no address")
            turn, self._turn = self._turn, self._turn + 1
            await loop.create_connection(lambda: transport, found[turn % len(found)], address[1])
        except (OSError, OverflowError, ValueError) as error:
            if transport is self._transport:
                where = "" if address is None else f"{address[0]}:{address[1]}: "
                self._lost(f"{where}{words_of(error)}")

    def _hang_up(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ms = None if self._closed else self.way.next_deadline_ms()
        if due_ms is not None:
            host = self._host
            self._timer = host.loop.call_later(max(0, due_ms - host.now_ms()) / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.way.tick(self._host.now_ms())
        self._pump()

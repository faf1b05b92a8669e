"""One accepted connection: its bytes in, its requests one after the other, its answers out.

**Order.** Kafka handles a connection's requests one at a time (`SocketServer` mutes the channel until the answer is
out), and so do we: while a request is parked, what follows it on the same connection waits undecoded, so answers leave
in request order and the second of two requests sees what the first did. Reading stops as soon as bytes wait behind a
parked request; a consumer that only waits costs no system call for it.

**Back-pressure.** A connection is *stalled* while more than `WRITE_BYTES_MAX` of its answers are unread by the peer:
nothing more of it is handled until they drain below `WRITE_BYTES_LOW`. What one connection can make the broker hold is
thus that, one answer, one read event and one frame. A peer that stays stalled or silent for
`connections.max.idle.ms` is let go.

**One write per event.** Answers collect in `_out` and leave together when the read event (or timer, or completion) is
through: the largest single gain for small requests.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, cast

from barnabas.broker.context import Connection, RequestContext
from barnabas.broker.host import dialects, http
from barnabas.broker.host.receive import Receiver
from barnabas.broker.host.states import LEFT, MUTED, STALLED, State, move
from barnabas.protocol.api import ApiKey, RequestHeader, UnsupportedVersion
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.ids import Buffer

if TYPE_CHECKING:
    from barnabas.broker.host.host import Host

WRITE_BYTES_MAX: Final = 1024 * 1024
WRITE_BYTES_LOW: Final = 256 * 1024
JOIN_BYTES_MAX: Final = 16 * 1024
"""Answers of so few bytes in all are joined: that costs less than a buffer of the system call for each."""
REQUESTS_PER_TURN: Final = 256
"""So many requests of one connection at most before the others get their turn (about a millisecond)."""

# An enum's member is looked up in its class at every use, and every read event asks for these.
_OPEN: Final = State.OPEN
_GONE: Final = State.GONE

logger = logging.getLogger(__name__)


class _Request(RequestContext):
    """A request of a channel, from its decoding to its answer."""

    __slots__ = ("_channel", "correlation_id")

    def __init__(self, channel: Channel, header: RequestHeader) -> None:
        self._channel = channel
        self.correlation_id = header.correlation_id
        self.connection = channel.connection
        self.api_key = header.api_key
        self.api_version = header.api_version
        self.client_id = header.client_id

    def respond(self, response: Any) -> None:
        """The answer, now or later; None when the protocol sends none."""
        channel = self._channel
        if channel._outstanding is not self:
            if channel.state is _OPEN:
                logger.error("a request of %s (API %d) was answered twice", channel.name, self.api_key)
            return
        channel._outstanding = None
        if channel.state is not _OPEN:
            return
        if response is None:
            channel.send([])
            return
        try:
            assert channel._dialect is not None
            buffers = channel._dialect.encode_response(self.api_key, self.api_version, self.correlation_id, response)
        except Exception:
            logger.exception("no answer could be encoded for %s (API %d)", channel.name, self.api_key)
            channel.refuse("its answer could not be encoded")
            return
        if response.throttle_time_ms > 0:
            channel.mute(response.throttle_time_ms)
        channel.send(buffers)

    def close(self, reason: str) -> None:
        """End the connection."""
        self._channel.refuse(reason)


class Channel(asyncio.BufferedProtocol):
    """The protocol object of one connection."""

    __slots__ = (
        "_dialect",
        "_host",
        "_out",
        "_out_bytes",
        "_outstanding",
        "_receiver",
        "_transport",
        "active_ms",
        "connection",
        "paused",
        "queued",
        "requests",
        "state",
        "waits",
        "writes",
    )

    def __init__(self, host: Host, listener: str) -> None:
        self._host = host
        self._receiver = Receiver(host.buffers, host.config.socket_request_max_bytes)
        self._dialect: dialects.Dialect | None = None
        self._out: list[Buffer] = []
        self._out_bytes = 0
        self._outstanding: _Request | None = None  # what is being handled or parked
        self.state = State.OPENING
        self.waits = 0  # what keeps its requests waiting: bits of `states`
        self.paused = False  # we do not read
        self.queued = False  # in the host's list of channels with something to send
        self.requests = 0
        self.writes = 0
        self.active_ms = host.now_ms()
        self.connection = Connection(0, listener, "", "kafka", self.active_ms)

    # -- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accepted: within the limits, or let go at once."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(WRITE_BYTES_MAX, WRITE_BYTES_LOW)
        peer = transport.get_extra_info("peername")
        self.connection.client_host = peer[0] if peer else ""
        refusal = self._host.admit(self)
        if refusal is not None:
            logger.warning("refused a connection from %s: %s", self.connection.client_host, refusal)
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone. Parked requests run on; their answers go nowhere (`T06`)."""
        if self.state is not _GONE:
            self._leave(_GONE)
        self._host.forget(self)

    def get_buffer(self, sizehint: int) -> Buffer:
        """Where the loop receives into."""
        return self._receiver.target()

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came: handle what is whole."""
        host = self._host
        self.active_ms = now_ms = host.now_ms()
        host.received_bytes += nbytes
        self._receiver.received(nbytes)
        self._pump(now_ms)
        host.settle()

    def eof_received(self) -> bool:
        """The peer sends no more: answers already made still leave, then the transport closes."""
        return False

    def pause_writing(self) -> None:
        """The peer reads too slowly."""
        self.waits |= STALLED

    def resume_writing(self) -> None:
        """The peer caught up."""
        self.waits &= ~STALLED
        self.active_ms = self._host.now_ms()
        self._go_on()

    # -- requests

    def _pump(self, now_ms: int) -> None:
        """Handle whole frames until one is parked, the peer stalls, or this connection's turn is over."""
        receiver = self._receiver
        try:
            if self.state is _OPEN or self._choose_dialect():
                turns = REQUESTS_PER_TURN
                while turns and self._outstanding is None and not self.waits:
                    frame = receiver.next_frame()
                    if frame is None:
                        break
                    turns -= 1
                    self._handle(frame, now_ms)
                    del frame
                    if self._out_bytes > WRITE_BYTES_MAX:
                        self.flush()  # says at once whether the peer still reads
                if not turns and receiver.has_bytes:
                    self._host.loop.call_soon(self._go_on)
        except ProtocolError as error:
            self.refuse(str(error))
        if self.waits & LEFT:
            receiver.clear()
        elif receiver.settle() or self.paused:
            self._read_or_pause()

    def _read_or_pause(self) -> None:
        """Reading stops while bytes wait behind a request, and goes on once that can be handled."""
        if self._outstanding is None and not self.waits:
            if self.paused:
                self.paused = False
                self._transport.resume_reading()
        elif self._receiver.has_bytes and not self.paused:
            self.paused = True
            self._transport.pause_reading()

    def _go_on(self) -> None:
        """What kept this connection waiting is over."""
        self._pump(self._host.now_ms())
        self._host.settle()

    def _choose_dialect(self) -> bool:
        """Look at the first bytes. True once requests can be read."""
        if self.state is not State.OPENING:
            return False
        head = self._receiver.unread()
        choice = dialects.choose(head)
        if choice is None:
            return False
        if choice is dialects.HTTP:
            self._serve_http(head)
            return False
        if choice is dialects.TLS:
            raise ProtocolError("it speaks TLS, which this listener does not; set security.protocol=PLAINTEXT")
        if choice is dialects.NATIVE:
            self._receiver.skip(len(dialects.NATIVE_PREAMBLE))
            self.connection.dialect = "native"
        self._dialect = dialects.load(choice)
        self.state = move(self.state, _OPEN)
        self._host.core.connected(self.connection)
        return True

    def _handle(self, frame: memoryview, now_ms: int) -> None:
        dialect = self._dialect
        assert dialect is not None
        self.requests += 1
        try:
            header, request = dialect.decode_request(frame)
        except UnsupportedVersion as error:
            if error.header.api_key != ApiKey.API_VERSIONS:
                raise  # no other answer can say so in a form that every client reads; Kafka closes here, too
            self.send(dialect.encode_unsupported_api_versions(error.header.correlation_id))
            return
        except ProtocolError:
            raise
        except Exception as error:
            raise ProtocolError(f"its request cannot be decoded ({type(error).__name__}: {error})") from error
        context = self._outstanding = _Request(self, header)
        self._host.core.handle(request, context, now_ms)

    def send(self, buffers: list[Buffer]) -> None:
        """Queue bytes for the end of this event."""
        self._out += buffers
        self._out_bytes += len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
        if not self.queued:
            self.queued = True
            self._host.dirty.append(self)

    def flush(self) -> None:
        """Write what has collected, in one go; then see whether more can be handled."""
        self.queued = False
        if self._out:
            out, size = self._out, self._out_bytes
            self._out, self._out_bytes = [], 0
            self.writes += 1
            if len(out) == 1:
                self._transport.write(out[0])
            elif size <= JOIN_BYTES_MAX:
                self._transport.write(b"".join(out))
            else:
                self._transport.writelines(out)
        if self.paused and self._outstanding is None:
            self._host.loop.call_soon(self._go_on)

    def mute(self, throttle_ms: int) -> None:
        """Handle nothing more of this connection for so long (KIP-219: the answer leaves first)."""
        self.waits |= MUTED
        self._host.loop.call_later(throttle_ms / 1000, self.unmute)

    def unmute(self) -> None:
        """The throttle time is over."""
        self.waits &= ~MUTED
        self._go_on()

    # -- the end

    def refuse(self, reason: str) -> None:
        """End the connection for a fault of the peer, in one line that names it. Earlier answers still leave."""
        if self.waits & LEFT:
            return
        logger.warning("closing the connection of %s: %s", self.name, reason)
        self.close()

    def close(self) -> None:
        """End the connection once the answers made so far have left."""
        if self.waits & LEFT:
            return
        self.flush()
        self._leave(State.LEAVING)
        self._transport.close()

    def abort(self) -> None:
        """End the connection now."""
        if self.state is not _GONE:
            self._leave(_GONE)
            self._transport.abort()

    def _leave(self, state: State) -> None:
        """Nothing more is read, handled or answered."""
        self.state = move(self.state, state)
        self.waits |= LEFT
        self._receiver.clear()
        self._out.clear()

    def _serve_http(self, head: memoryview) -> None:
        answer = self._host.answer_http(bytes(head[: http.HEAD_BYTES_MAX + 1]))
        if answer is not None:
            self._receiver.skip(len(head))
            self.send([answer])
            self.close()

    # -- looking in

    @property
    def name(self) -> str:
        """Who it is, for people."""
        client = self.connection.client_software_name
        return f"{self.connection.client_host} (#{self.connection.id}{', ' + client if client else ''})"

    @property
    def introduced(self) -> bool:
        """Whether the core knows of this connection."""
        return self._dialect is not None

    @property
    def idle(self) -> bool:
        """Whether only the peer keeps this connection alive."""
        return self._outstanding is None

    def snapshot(self, now_ms: int) -> dict[str, Any]:
        """This connection as plain values."""
        connection = self.connection
        return {
            "id": connection.id,
            "listener": connection.listener,
            "client_host": connection.client_host,
            "dialect": connection.dialect if self._dialect is not None else None,
            "client_software_name": connection.client_software_name,
            "client_software_version": connection.client_software_version,
            "age_ms": now_ms - connection.opened_ms,
            "quiet_ms": now_ms - self.active_ms,
            "requests": self.requests,
            "parked_api_key": None if self._outstanding is None else self._outstanding.api_key,
            "stalled": self.waits & STALLED != 0,
            "muted": self.waits & MUTED != 0,
            "receive_bytes": self._receiver.held_bytes,
            "send_bytes": 0 if self.state is _GONE else self._transport.get_write_buffer_size(),
        }

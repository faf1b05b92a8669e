"""One accepted connection: its bytes in, its requests one after the other, its answers out.

**Order.** Kafka handles a connection's requests one at a time (`SocketServer` mutes the channel until the answer is
out), and so do we: while a request is parked, what follows it on the same connection waits undecoded, so answers leave
in request order and the second of two requests sees what the first did. Reading stops as soon as bytes wait behind a
parked request; a consumer that only waits costs no system call for it.

**Back-pressure.** A connection is *stalled* while more than `WRITE_BYTES_MAX` of its answers are unread by the peer:
nothing more of it is handled until they drain below `WRITE_BYTES_LOW`. What one connection can make the broker hold is
thus that, one turn's answers, one read event and one frame. What of it outlives an event is charged to the account of
memory (`broker/account.py`); while that is short, who holds much is not read from (`relief.py`). Who stays stalled or
silent for `connections.max.idle.ms` is let go, who begins something and does not go on with it earlier (`progress.py`).

**One write per event.** Answers collect in `_out` and leave when an event is over: the largest gain of small requests.

Long because what comes in, what waits and what goes out decide over each other, a few lines each.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, ClassVar, Final, cast

from barnabas.broker.account import REQUESTS, UNREAD
from barnabas.broker.config.listeners import HTTP, LOCAL
from barnabas.broker.context import Connection
from barnabas.broker.host import dialects, http
from barnabas.broker.host.in_flight import CHARGED_BYTES_MIN, DECODING_MS_MAX, Request, taken, weigh
from barnabas.broker.host.receive import Receiver
from barnabas.broker.host.relief import SMALL_BYTES
from barnabas.broker.host.states import LEFT, MUTED, QUEUED, SHORT, STALLED, State, move
from barnabas.broker.host.turns import LARGE_BYTES, MEDIUM_BYTES, TURN_MS_MAX
from barnabas.broker.host.unsent import PORTION_BYTES, Rest, drop
from barnabas.broker.pages import own_bytes
from barnabas.net.host.writing import write_all
from barnabas.protocol.api import ApiKey, UnsupportedVersion
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.ids import NATIVE_PREAMBLE, Buffer

if TYPE_CHECKING:
    from barnabas.broker.host.host import Host

WRITE_BYTES_MAX: Final = 64 * 1024
WRITE_BYTES_LOW: Final = 16 * 1024
OUT_BYTES_MAX: Final = 1024 * 1024
"""So many bytes of answers at most collect before they are written, and the peer's reading is seen."""
JOIN_BYTES_MAX: Final = 16 * 1024
"""Answers of so few bytes in all are joined: that costs less than a buffer of the system call for each."""
REQUESTS_PER_TURN: Final = 256  # of one connection at most, before the others get theirs (about 1 ms)
TIMED_EVERY: Final = 3  # after so many and one more, and each large one, a turn's time is looked at

# An enum's member is looked up in its class at every use, and every read event asks for these.
_OPEN: Final = State.OPEN
_GONE: Final = State.GONE

logger = logging.getLogger(__name__)


class Channel(asyncio.BufferedProtocol):
    """The protocol object of one connection."""

    __slots__ = (
        "_host",
        "_out_bytes",
        "_unread_bytes",
        "account",
        "active_ms",
        "connection",
        "dialect",
        "out",
        "outstanding",
        "paused",
        "queued",
        "receiver",
        "request_bytes",
        "requests",
        "rest",
        "state",
        "transport",
        "waits",
        "writes",
    )
    of_brokers: ClassVar = False

    def __init__(self, host: Host, listener: str) -> None:
        self._host = host
        self.account = host.account
        self.receiver = Receiver(host.buffers, host.config.socket_request_max_bytes)
        self.dialect: dialects.Dialect | None = None
        self.out: list[Buffer] = []
        self._out_bytes = 0
        self.outstanding: Request | None = None  # what is being handled or parked
        self.request_bytes = 0  # charged for it
        self._unread_bytes = 0  # charged for answers the peer has not read
        self.rest: Rest | None = None
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
        """Accepted: admitted, or let go at once."""
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(WRITE_BYTES_MAX, WRITE_BYTES_LOW)
        peer = transport.get_extra_info("peername")
        self.connection.client_host = peer[0] if peer else "local" if self.connection.listener == LOCAL else ""
        if not self._host.admit(self):
            self.abort()
            return
        self.receiver.holder = self.connection.id
        self._host.progress.watch(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone. What is parked ends with it, what changes something is seen through; answers go nowhere (`T06`)."""
        if self.state is not _GONE:
            self._leave(_GONE)
        self._host.forget(self)

    def get_buffer(self, sizehint: int) -> Buffer:
        """Where the loop receives into."""
        return self.receiver.target()

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes came: handle what is whole."""
        host = self._host
        clock = host.now_ms  # as a name of its own: called through the object it takes three times as long
        self.active_ms = now_ms = clock()
        host.received_bytes += nbytes
        receiver = self.receiver
        if (  # a small request that comes alone, as most do: `_pump` with nothing before it, nor behind it
            nbytes < MEDIUM_BYTES
            and now_ms < host.turns.very_late_ms
            and self.state is _OPEN
            and not self.waits
            and not self.paused
            and self.outstanding is None
            and (frame := receiver.only_frame(nbytes)) is not None
        ):
            try:
                self._handle(frame, now_ms)
            except ProtocolError as error:
                self.refuse(str(error))
        else:
            receiver.received(nbytes)
            if now_ms >= host.turns.late_ms:
                host.turns.is_over(self, now_ms)
            self._pump(now_ms)
        host.settle()
        if host.rests:
            host.vigil.begin()

    def eof_received(self) -> bool:
        """The peer sends no more: answers already made still leave, then the transport closes."""
        return False

    def pause_writing(self) -> None:
        """The peer reads too slowly."""
        self.waits |= STALLED

    def resume_writing(self) -> None:
        """The peer caught up."""
        if self.rest is not None:
            self.rest.go_on()
            return
        self.waits &= ~STALLED
        self.hold_unread(0)
        self.active_ms = self._host.now_ms()
        self._host.web.go_on(self)
        self._go_on()

    # -- requests

    def _pump(self, now_ms: int) -> None:
        """Handle whole frames until one is parked, the peer stalls, or this connection's turn is over."""
        receiver = self.receiver
        try:
            if self.state is _OPEN or (not self.waits and self._choose_dialect()):
                end, often = self.requests + REQUESTS_PER_TURN, 0 if self._host.turns.line else TIMED_EVERY
                while (
                    self.requests < end
                    and receiver.start != receiver.end
                    and self.outstanding is None
                    and not self.waits
                ):
                    frame = receiver.next_frame()
                    if frame is None:
                        break
                    medium = len(frame) >= MEDIUM_BYTES
                    if medium and self._host.relief.must_go(self, frame):
                        break
                    large = medium and len(frame) >= LARGE_BYTES
                    self._handle(frame, now_ms, self._host.now_ms() if large else 0)
                    del frame
                    if self._out_bytes > OUT_BYTES_MAX:
                        self.flush()  # says at once whether the peer still reads
                    timed = large or not self.requests & often
                    if timed and self._host.now_ms() - now_ms > (TURN_MS_MAX if often else 0):
                        end = 0
                        self._host.turns.took_long()
                if self.requests >= end and receiver.has_bytes and not self.waits:
                    self._host.turns.line_up(self)
        except ProtocolError as error:
            self.refuse(str(error))
        if self.waits & LEFT:
            receiver.clear()
        elif receiver.settle() or self.paused:
            self._read_or_pause()

    def _read_or_pause(self) -> None:
        """Reading stops while bytes wait behind a request, or for memory, and goes on once that can be handled."""
        if self.outstanding is None and not self.waits:
            if self.receiver.held_bytes >= SMALL_BYTES and self._host.relief.must_wait(self):
                self.waits |= SHORT
                self._read_or_pause()
                return
            self._host.progress.watch(self)
            self._resume()
        elif not self.receiver.has_bytes:
            self._resume()  # nothing waits behind what is parked: reading tells of the end
        elif not self.paused:
            self.paused = True
            self.transport.pause_reading()
            self._host.progress.watch(self)

    def _resume(self) -> None:
        if self.paused:
            self.paused = False
            self.transport.resume_reading()

    def go_on(self) -> None:
        """There is room for the rest of its frame."""
        self.waits &= ~SHORT
        self.receiver.make_whole()
        self._go_on()

    def take_turn(self) -> None:
        """Its next turn has come."""
        self.waits &= ~QUEUED
        self._pump(self._host.now_ms())
        self._host.settle()

    def _go_on(self) -> None:
        """What kept this connection waiting is over."""
        host = self._host
        now_ms = host.now_ms()
        if now_ms >= host.turns.late_ms:
            host.turns.is_over(self, now_ms)
        self._pump(now_ms)
        host.settle()

    def _choose_dialect(self) -> bool:
        """Look at the first bytes. True once requests can be read."""
        if self.state is not State.OPENING:
            return False
        if self._host.web.is_answering(self):  # one page is told, then the connection ends
            self.receiver.skip(self.receiver.unread_bytes)
            return False
        head = self.receiver.unread()
        choice = dialects.choose(head)
        if choice is None:
            return False
        if choice is dialects.HTTP:
            self._serve_http(head)
            return False
        if self.connection.listener == HTTP:
            raise ProtocolError("this listener answers HTTP and nothing else")
        if choice is dialects.TLS:
            raise ProtocolError("it speaks TLS, which this listener does not; set security.protocol=PLAINTEXT")
        if choice is dialects.NATIVE:
            self.receiver.skip(len(NATIVE_PREAMBLE))
            self.connection.dialect = "native"
        self.dialect = dialects.load(choice)
        self.state = move(self.state, _OPEN)
        self._host.core.connected(self.connection)
        return True

    def _handle(self, frame: memoryview, now_ms: int, began_ms: int = 0) -> None:
        dialect = self.dialect
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
        context = self.outstanding = taken(self, header)
        host = self._host
        if began_ms and host.now_ms() - began_ms > DECODING_MS_MAX:
            host.loop.call_soon(context.serve, host, request)
        else:
            host.core.handle(request, context, now_ms)
        if self.outstanding is not None and (len(frame) >= CHARGED_BYTES_MIN or host.buffers.pinned_bytes):
            size = weigh(header.api_key, len(frame), host.buffers.pinned_bytes)
            self.request_bytes = self.account.change(self.connection.id, REQUESTS, 0, size)

    def send(self, buffers: list[Buffer]) -> None:
        """Queue bytes for the end of this event."""
        self.out += buffers
        self._out_bytes += len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
        if not self.queued:
            self.queued = True
            self._host.dirty.append(self)

    def flush(self) -> None:
        """Write what has collected, in one go; then see whether more can be handled."""
        if self._host.core.ahead:
            self._host.core.wake(self._host.core.now_ms)
        self.queued = False
        if self.out:
            out, size = self.out, self._out_bytes
            self.out, self._out_bytes = [], 0
            self.writes += 1
            if self.rest is not None:
                self.rest.add(out)
            elif size > PORTION_BYTES and self._host.copies_unsent:
                self.rest = Rest(self, out)
                self.rest.go_on()
            elif len(out) == 1:
                self.transport.write(out[0])
            elif size <= JOIN_BYTES_MAX:
                self.transport.write(b"".join(out))
            else:
                write_all(self.transport, out)
            if self.waits & STALLED and self.rest is None:
                unsent = self.transport.get_write_buffer_size()
                made = unsent if self._host.copies_unsent else own_bytes(out)
                self.hold_unread(min(self._unread_bytes + made, unsent))
        if self.paused and self.outstanding is None:
            self._host.loop.call_soon(self._go_on)

    def answered(self) -> None:
        """The request that was being handled holds nothing any more."""
        self.request_bytes = self.account.change(self.connection.id, REQUESTS, self.request_bytes, 0)

    def hold_unread(self, size: int) -> None:
        """The peer has so much to read of what the broker keeps for it alone."""
        self._unread_bytes = self.account.change(self.connection.id, UNREAD, self._unread_bytes, size)

    def mute(self, throttle_ms: int) -> None:
        """Handle nothing more of this connection for so long (KIP-219: the answer leaves first)."""
        self.waits |= MUTED
        self._host.muted[self] = self._host.loop.call_later(throttle_ms / 1000, self.unmute)

    def unmute(self) -> None:
        """The throttle time is over."""
        self._host.muted.pop(self, None)
        self.waits &= ~MUTED
        self._go_on()

    # -- the end

    def refuse(self, reason: str) -> None:
        """End the connection for a fault of the peer, in one line that names it. Earlier answers still leave."""
        if self.waits & LEFT:
            return
        self._host.refusals.tell(self.connection.client_host, f"closing the connection of {self.name}: {reason}")
        self.close()

    def end(self, reason: str) -> None:
        """End the connection now for a fault of the peer, in one line that names it."""
        if self.state is not _GONE:
            self._host.refusals.tell(self.connection.client_host, f"ending the connection of {self.name}: {reason}")
            self.abort()

    def close(self) -> None:
        """End the connection once the answers made so far have left."""
        if self.waits & LEFT:
            return
        self.flush()
        if self.rest is not None:
            write_all(self.transport, self.rest.all())
        self._leave(State.LEAVING)
        self.transport.close()
        self._host.progress.watch(self)

    def abort(self) -> None:
        """End the connection now, answers that the system still holds with it."""
        if self.state is not _GONE:
            self._leave(_GONE)
            if self.writes:
                drop(self.transport)
            self.transport.abort()

    def _leave(self, state: State) -> None:
        """Nothing more is read, handled or answered."""
        self.state = move(self.state, state)
        self.waits |= LEFT
        self.receiver.clear()
        self.out.clear()
        self.rest = None
        if state is _GONE:
            if self.request_bytes:
                self._host.orphans.take(self)
                self.answered()
            self.hold_unread(0)

    def _serve_http(self, head: memoryview) -> None:
        own = self._host.config.barnabas_http
        if own != "shared" and self.connection.listener not in (HTTP, LOCAL):
            raise ProtocolError(f"it speaks HTTP, which barnabas.http={own} keeps from this listener")
        if self._host.web.asked(self, bytes(head[: http.HEAD_BYTES_MAX + 1])):
            self.receiver.skip(self.receiver.unread_bytes)

    @property
    def name(self) -> str:
        """Who it is, for people."""
        client = self.connection.client_software_name
        return f"{self.connection.client_host} (#{self.connection.id}{', ' + client if client else ''})"

    @property
    def has_request(self) -> bool:
        """Whether there is something to handle: first bytes, or a whole frame."""
        return self.receiver.has_frame if self.state is _OPEN else self.state is State.OPENING

    @property
    def missing_bytes(self) -> int:
        """Memory that the rest of its frame will take."""
        return self.receiver.missing_bytes

    @property
    def introduced(self) -> bool:
        """Whether the core knows of this connection."""
        return self.dialect is not None

    @property
    def idle(self) -> bool:
        """Whether only the peer keeps this connection alive."""
        return self.outstanding is None

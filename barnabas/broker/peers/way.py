"""One connection to one other broker, on one lane, without its socket: a request at a time, in order.

    state         event                                         next
    DOWN          something is asked, and the back-off is over  OPENING: `Open`
    OPENING       opened                                        INTRODUCING: the first of the introduction is written
    INTRODUCING   an answer                                     INTRODUCING: the next, behind the last one ApiVersions
                  the answer to the last one                    CHECKING
                  an answer that refuses                        DOWN
    CHECKING      what the other one serves                     READY: what was asked goes out
                  it does not know this ApiVersions             CHECKING: asked again in one that it knows
    READY         an answer to the oldest request               READY: the next goes out
                  who waits has waited for too long             READY: it alone is told that no answer comes
    any           lost, closed, too slow, no frame of ours      DOWN: whoever has asked is told that no answer comes

Who is told None tries again as it likes; the back-off is the connection's alone. Source: `InterBrokerSendThread` and
`NetworkClient` of Apache Kafka. Brokers of two releases may be in one cluster: each connection asks what the other side
serves, as clients do, and behind the last of the introduction, so that it costs no round trip. What no version of both
can say is answered here, with UNSUPPORTED_VERSION.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from barnabas.broker.context import Sealed
from barnabas.broker.introduction import VERSIONS
from barnabas.broker.peers.spoken import CLIENT_ID, Unspoken, written
from barnabas.net import versions
from barnabas.protocol.api import ApiKey, key_of
from barnabas.protocol.errors import BarnabasError, EncodeError, ErrorCode, KafkaError, ProtocolError
from barnabas.protocol.ids import Buffer
from barnabas.protocol.kafka import codec

BACKOFF_MS: Final = 50
BACKOFF_MS_MAX: Final = 1000
"""Between attempts to connect: the double of the last wait, up to this, and to half of what a request may take.

Who asks meanwhile has the other half for the connection."""
WAITING_MAX: Final = 100
"""Requests on one lane to one broker; who asks for more is told that no answer comes."""
SEALED_BYTES_MIN: Final = 16 * 1024
"""Answers of so many bytes are not decoded where they are sent on: it takes 1 ms and more."""

Done: TypeAlias = Callable[[Any | None], None]

logger = logging.getLogger(__name__)


class State(Enum):
    """How far a connection is."""

    DOWN = "down"
    OPENING = "opening"
    INTRODUCING = "introducing"
    CHECKING = "checking"
    READY = "ready"


class Open(NamedTuple):
    """Open a connection, then tell `opened`, or `lost`."""


class Write(NamedTuple):
    """Write these buffers, in order."""

    buffers: list[Buffer]


class Close(NamedTuple):
    """Close at once; nothing more is told of it."""


Action: TypeAlias = Open | Write | Close

_SETTING_UP: Final = (State.OPENING, State.INTRODUCING, State.CHECKING)


class Introducing(Protocol):
    """What is said before anything else, so that either side knows the other (`broker/introduction.py`)."""

    @property
    def ends(self) -> bool:
        """Whether the request that was given last is the last one."""

    def first(self) -> Any:
        """The request to begin with."""

    def answered(self, response: Any) -> Any | None:
        """The next request, or None: it is through.

        Raises:
            BarnabasError: it failed, and why.
        """


class _Asked(NamedTuple):
    """A request that waits for its turn; a deadline is absolute ms, `version` the newest that it may go in."""

    request: Any
    key: int
    version: int | None
    done: Done
    deadline_ms: int


class _Sent(NamedTuple):
    """One that waits for its answer: its correlation id, the version that it went in, and until when it may take."""

    number: int
    key: int
    version: int
    asked: _Asked | None
    """None for what is said before the connection is ready."""
    deadline_ms: int = 0
    """Half of the time at least: that it had to wait for others shows nothing of the broker that is asked."""


class Way:
    """One connection. All times are monotonic ms; `settle` calls back who is told something, and nothing else does.

    Args:
        name: whom it leads to, for people.
        timeout_ms: how long a request may take, from when it was asked.
        introduce: what to begin each connection with.
        stopped: whether it is known to serve no more, so that it is no wonder that it cannot be asked.
        seals: whether large answers are handed out as they came (`context.Sealed`).
    """

    def __init__(
        self,
        name: str,
        timeout_ms: int,
        introduce: Callable[[], Introducing],
        stopped: Callable[[], bool] = lambda: False,
        *,
        seals: bool = False,
    ) -> None:
        self.state = State.DOWN
        self._name = name
        self._timeout_ms = timeout_ms
        self._introduce = introduce
        self._stopped = stopped
        self._seals = seals
        self._introduction: Introducing | None = None
        self._waiting: deque[_Asked] = deque()
        self._in_flight: deque[_Sent] = deque()
        """One at most, but for ApiVersions behind the end of the introduction."""
        self._served: versions.Served = {}
        self._correlation_id = 0
        self._setup_deadline_ms = 0
        self._not_before_ms = 0
        self._attempts = 0
        self._said = ""
        self._unspoken: set[int] = set()
        self._actions: list[Action] = []
        self._told: deque[tuple[Done, Any | None]] = deque()

    # What is asked, and what the socket tells

    def ask(self, request: Any, done: Done, now_ms: int, version: int | None = None) -> None:
        """Send a request when its turn has come. `done` is never called from in here."""
        key = key_of(type(request))
        if len(self._waiting) >= WAITING_MAX:
            self._told.append((done, None))
            return
        self._waiting.append(_Asked(request, key, version, done, now_ms + self._timeout_ms))
        self._go_on(now_ms)

    def opened(self, now_ms: int) -> None:
        """The socket is open."""
        if self.state is State.OPENING:
            self.state = State.INTRODUCING
            self._introduction = self._introduce()
            self._introduce_with(self._introduction, self._introduction.first())

    def received(self, frame: memoryview, now_ms: int) -> None:
        """One whole frame came."""
        if not self._in_flight:
            self._down("it sends what nobody asked for", now_ms)
            return
        sent = self._in_flight[0]
        try:
            response = self._decoded(sent, frame)
        except ProtocolError as fault:
            self._down(str(fault), now_ms)
            return
        self._in_flight.popleft()
        if sent.asked is not None:
            self._told.append((sent.asked.done, response))
        elif self.state is State.INTRODUCING:
            self._introduced(response, now_ms)
        else:
            self._checked(response, sent.version, now_ms)
        self._go_on(now_ms)

    def lost(self, reason: str, now_ms: int) -> None:
        """The socket is gone, or never came."""
        if self.state is not State.DOWN:
            self._down(reason, now_ms, close=False)

    def tick(self, now_ms: int) -> None:
        """Time has passed: nothing takes longer than it may."""
        while self.state is State.READY and self._waiting and now_ms >= self._waiting[0].deadline_ms:
            self._told.append((self._waiting.popleft().done, None))
        due_ms = self._due_ms()
        if due_ms is not None and now_ms >= due_ms:
            self._down(f"no answer within {self._timeout_ms} ms", now_ms)
        elif self.state in _SETTING_UP and now_ms >= self._setup_deadline_ms:
            self._down(f"no connection within {self._timeout_ms} ms", now_ms)
        self._go_on(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do; None for never."""
        due_ms = self._due_ms()
        if due_ms is None or self.state is State.READY:
            return due_ms
        return min(due_ms, self._not_before_ms if self.state is State.DOWN else self._setup_deadline_ms)

    # What is to be done

    def take_actions(self) -> list[Action]:
        """What is to be done with the socket, in this order; each is handed out once."""
        actions, self._actions = self._actions, []
        return actions

    @property
    def has_told(self) -> bool:
        """Whether somebody is to be called back."""
        return bool(self._told)

    def settle(self) -> None:
        """Call back whoever has an answer now, or is to have none."""
        while self._told:
            done, response = self._told.popleft()
            done(response)

    # Inside

    def _due_ms(self) -> int | None:
        """When somebody has had no answer for too long; None while nobody waits for one."""
        due = [self._waiting[0].deadline_ms] if self._waiting else []
        if self._in_flight and self._in_flight[0].asked is not None:
            due.append(self._in_flight[0].deadline_ms)
        return min(due, default=None)

    def _go_on(self, now_ms: int) -> None:
        if not self._waiting:
            return
        if self.state is State.DOWN and now_ms >= self._not_before_ms:
            self.state = State.OPENING
            self._setup_deadline_ms = now_ms + self._timeout_ms
            self._actions.append(Open())
        while self.state is State.READY and not self._in_flight and self._waiting:
            self._send(self._waiting.popleft(), now_ms)

    def _send(self, asked: _Asked, now_ms: int) -> None:
        number = self._next_number()
        try:
            version, buffers = written(self._name, self._served, number, asked.request, asked.key, asked.version)
        except Unspoken as why:
            self._refuse(asked, why)
        except EncodeError:
            logger.exception("a request to %s cannot be written", self._name)
            self._told.append((asked.done, None))
        else:
            deadline_ms = max(asked.deadline_ms, now_ms + self._timeout_ms // 2)
            self._in_flight.append(_Sent(number, asked.key, version, asked, deadline_ms))
            self._actions.append(Write(buffers))

    def _refuse(self, asked: _Asked, why: Unspoken) -> None:
        from barnabas.broker.handlers.failures import error_response  # never needed among brokers of one release

        if asked.key not in self._unspoken:
            self._unspoken.add(asked.key)
            logger.warning("%s", why)
        self._told.append((asked.done, error_response(asked.key, asked.request, ErrorCode.UNSUPPORTED_VERSION)))

    def _next_number(self) -> int:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return self._correlation_id

    def _write(self, request: Any, version: int) -> None:
        """Say something that belongs to the connection itself."""
        key, number = key_of(type(request)), self._next_number()
        self._in_flight.append(_Sent(number, key, version, None))
        self._actions.append(Write(codec.encode_request(key, version, number, CLIENT_ID, request)))

    def _introduce_with(self, introduction: Introducing, request: Any) -> None:
        self._write(request, VERSIONS[key_of(type(request))])
        if introduction.ends:
            self._write(versions.question(), versions.ASKED_FIRST)

    def _decoded(self, sent: _Sent, frame: memoryview) -> Any:
        version = sent.version
        if sent.asked is None and sent.key == ApiKey.API_VERSIONS:
            version = versions.answered_in(frame, version)
        as_asked = sent.asked is not None and version == sent.asked.version
        if self._seals and as_asked and len(frame) >= SEALED_BYTES_MIN:
            number = int.from_bytes(frame[:4], "big")
            response: Any = Sealed(sent.key, version, frame)
        else:
            number, response = codec.decode_response(sent.key, version, frame)
        if number != sent.number:
            raise ProtocolError(f"answer {number} came where {sent.number} was due")
        return response

    def _introduced(self, response: Any, now_ms: int) -> None:
        assert self._introduction is not None
        try:
            request = self._introduction.answered(response)
        except BarnabasError as refusal:
            self._down(str(refusal), now_ms)
            return
        if request is not None:
            self._introduce_with(self._introduction, request)
        else:
            self.state, self._introduction = State.CHECKING, None

    def _checked(self, response: Any, asked_in: int, now_ms: int) -> None:
        try:
            served = versions.told(response, asked_in)
        except KafkaError as refusal:
            self._down(str(refusal), now_ms)
            return
        if isinstance(served, int):
            self._write(versions.question(), served)
            return
        self.state, self._served = State.READY, served
        self._unspoken.clear()
        self._attempts = 0
        if self._said:
            self._said = ""
            logger.info("%s can be reached again", self._name)

    def _down(self, reason: str, now_ms: int, *, close: bool = True) -> None:
        """The connection is over, and with it all that was asked."""
        if reason != self._said:
            self._said = reason
            level = logging.INFO if self._stopped() else logging.WARNING
            logger.log(level, "%s cannot be asked: %s", self._name, reason)
        self._actions = [Close()] if close else []
        self._waiting.extendleft(sent.asked for sent in self._in_flight if sent.asked is not None)
        self._in_flight.clear()
        self.state = State.DOWN
        self._introduction = None
        self._not_before_ms = now_ms + min(BACKOFF_MS << self._attempts, BACKOFF_MS_MAX, self._timeout_ms // 2)
        self._attempts = min(self._attempts + 1, 10)
        self._fail_all()

    def _fail_all(self) -> None:
        self._told.extend((asked.done, None) for asked in self._waiting)
        self._waiting.clear()

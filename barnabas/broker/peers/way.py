"""One connection to one other broker, on one lane, without its socket: a request at a time, in order.

    state         event                                         next
    DOWN          something is asked, and the back-off is over  OPENING: `Open`
    OPENING       opened                                        INTRODUCING: the first of the introduction is written
    INTRODUCING   an answer                                     INTRODUCING: the next, or READY: what was asked goes out
                  an answer that refuses                        DOWN
    READY         an answer to the oldest request               READY: the next goes out
    any           lost, closed, too slow, no frame of ours      DOWN: whoever has asked is told that no answer comes

Who is told None tries again as it likes; the back-off is the connection's alone. Source: `InterBrokerSendThread` and
`NetworkClient` of Apache Kafka; versions are not asked for, the brokers of a cluster are of one release.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from barnabas.broker.context import Sealed
from barnabas.protocol.api import SPOKEN, key_of
from barnabas.protocol.errors import BarnabasError, EncodeError, ProtocolError
from barnabas.protocol.ids import Buffer
from barnabas.protocol.kafka import codec

BACKOFF_MS: Final = 50
BACKOFF_MS_MAX: Final = 1000
"""Between attempts to connect: the double of the last wait, up to this, and to half of what a request may take.

Who asks meanwhile has the other half for the connection."""
WAITING_MAX: Final = 100
"""Requests on one lane to one broker; who asks for more is told that no answer comes."""
CLIENT_ID: Final = "broker"
SEALED_BYTES_MIN: Final = 16 * 1024
"""Answers of so many bytes are not decoded where they are sent on: it takes 1 ms and more."""

Done: TypeAlias = Callable[[Any | None], None]

logger = logging.getLogger(__name__)


class State(Enum):
    """How far a connection is."""

    DOWN = "down"
    OPENING = "opening"
    INTRODUCING = "introducing"
    READY = "ready"


class Open(NamedTuple):
    """Open a connection, then tell `opened`, or `lost`."""


class Write(NamedTuple):
    """Write these buffers, in order."""

    buffers: list[Buffer]


class Close(NamedTuple):
    """Close at once; nothing more is told of it."""


Action: TypeAlias = Open | Write | Close


class Introducing(Protocol):
    """What is said before anything else, so that either side knows the other (`broker/introduction.py`)."""

    def first(self) -> Any:
        """The request to begin with."""

    def answered(self, response: Any) -> Any | None:
        """The next request, or None: it is through.

        Raises:
            BarnabasError: it failed, and why.
        """


class _Asked(NamedTuple):
    """A request that waits for its turn or its answer; a deadline is absolute ms."""

    request: Any
    key: int
    version: int
    done: Done
    deadline_ms: int


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
        self._in_flight: _Asked | None = None
        self._correlation_id = 0
        self._setup_deadline_ms = 0
        self._not_before_ms = 0
        self._attempts = 0
        self._said = ""
        self._actions: list[Action] = []
        self._told: deque[tuple[Done, Any | None]] = deque()

    # What is asked, and what the socket tells

    def ask(self, request: Any, done: Done, now_ms: int, version: int | None = None) -> None:
        """Send a request when its turn has come. `done` is never called from in here."""
        key = key_of(type(request))
        if len(self._waiting) >= WAITING_MAX:
            self._told.append((done, None))
            return
        newest = SPOKEN[key][1]
        at = newest if version is None else version
        self._waiting.append(_Asked(request, key, at, done, now_ms + self._timeout_ms))
        self._go_on(now_ms)

    def opened(self, now_ms: int) -> None:
        """The socket is open."""
        if self.state is State.OPENING:
            self.state = State.INTRODUCING
            self._introduction = self._introduce()
            self._write_introduction(self._introduction.first(), now_ms)

    def received(self, frame: memoryview, now_ms: int) -> None:
        """One whole frame came."""
        asked = self._in_flight
        if asked is None:
            self._down("it sends what nobody asked for", now_ms)
            return
        try:
            if self._seals and len(frame) >= SEALED_BYTES_MIN and self.state is State.READY:
                correlation_id = int.from_bytes(frame[:4], "big")
                response: Any = Sealed(asked.key, asked.version, frame)
            else:
                correlation_id, response = codec.decode_response(asked.key, asked.version, frame)
            if correlation_id != self._correlation_id:
                raise ProtocolError(f"answer {correlation_id} came where {self._correlation_id} was due")
        except ProtocolError as fault:
            self._down(str(fault), now_ms)
            return
        self._in_flight = None
        if self.state is State.INTRODUCING:
            self._introduced(response, now_ms)
        else:
            self._told.append((asked.done, response))
        self._go_on(now_ms)

    def lost(self, reason: str, now_ms: int) -> None:
        """The socket is gone, or never came."""
        if self.state is not State.DOWN:
            self._down(reason, now_ms, close=False)

    def tick(self, now_ms: int) -> None:
        """Time has passed: nothing takes longer than it may."""
        first = self._oldest()
        if first is not None and now_ms >= first.deadline_ms:
            self._down(f"no answer within {self._timeout_ms} ms", now_ms)
        elif self.state in (State.OPENING, State.INTRODUCING) and now_ms >= self._setup_deadline_ms:
            self._down(f"no connection within {self._timeout_ms} ms", now_ms)
        self._go_on(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do; None for never."""
        first = self._oldest()
        if first is None:
            return None
        if self.state is State.DOWN:
            return min(first.deadline_ms, self._not_before_ms)
        return first.deadline_ms if self.state is State.READY else min(first.deadline_ms, self._setup_deadline_ms)

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

    def _oldest(self) -> _Asked | None:
        if self.state is State.READY and self._in_flight is not None:
            return self._in_flight
        return self._waiting[0] if self._waiting else None

    def _go_on(self, now_ms: int) -> None:
        if not self._waiting:
            return
        if self.state is State.DOWN and now_ms >= self._not_before_ms:
            self.state = State.OPENING
            self._setup_deadline_ms = now_ms + self._timeout_ms
            self._actions.append(Open())
        while self.state is State.READY and self._in_flight is None and self._waiting:
            asked = self._waiting.popleft()
            try:
                self._write(asked)
            except EncodeError:
                logger.exception("a request to %s cannot be written", self._name)
                self._told.append((asked.done, None))

    def _write(self, asked: _Asked) -> None:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        buffers = codec.encode_request(asked.key, asked.version, self._correlation_id, CLIENT_ID, asked.request)
        self._in_flight = asked
        self._actions.append(Write(buffers))

    def _write_introduction(self, request: Any, now_ms: int) -> None:
        key = key_of(type(request))
        self._write(_Asked(request, key, SPOKEN[key][1], lambda _: None, now_ms + self._timeout_ms))

    def _introduced(self, response: Any, now_ms: int) -> None:
        assert self._introduction is not None
        try:
            request = self._introduction.answered(response)
        except BarnabasError as refusal:
            self._down(str(refusal), now_ms)
            return
        if request is not None:
            self._write_introduction(request, now_ms)
            return
        self.state = State.READY
        self._introduction = None
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
        if self.state is State.READY and self._in_flight is not None:
            self._waiting.appendleft(self._in_flight)
        self.state = State.DOWN
        self._in_flight = self._introduction = None
        self._not_before_ms = now_ms + min(BACKOFF_MS << self._attempts, BACKOFF_MS_MAX, self._timeout_ms // 2)
        self._attempts = min(self._attempts + 1, 10)
        self._fail_all()

    def _fail_all(self) -> None:
        self._told.extend((asked.done, None) for asked in self._waiting)
        self._waiting.clear()

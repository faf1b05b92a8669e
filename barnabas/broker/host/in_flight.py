"""A request of a connection, from its decoding to its answer."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Any, Final
from weakref import ReferenceType

from barnabas.broker.account import BROKER, REQUESTS
from barnabas.broker.context import Behind, RequestContext, Sealed
from barnabas.broker.handlers.services import ONLY_LOOK
from barnabas.broker.host import dialects
from barnabas.broker.host.states import State
from barnabas.protocol.api import ApiKey, RequestHeader
from barnabas.protocol.ids import Buffer

if TYPE_CHECKING:
    from barnabas.broker.host.channel import Channel
    from barnabas.broker.host.host import Host

CHARGED_BYTES_MIN: Final = 512
"""Requests from so many bytes on are charged while they wait for their answer."""
DECODED_WEIGHT: Final = 12
"""What a decoded request takes, as a multiple of its bytes (lists of topics and partitions: measured 6 to 13)."""
WEIGHTS: Final[dict[int, int]] = {ApiKey.PRODUCE: 1, ApiKey.JOIN_GROUP: 1, ApiKey.SYNC_GROUP: 1}
"""Records are not decoded. Who waits in a group keeps nothing of its request; what the group took over of it is counted
there (`group/holdings.py`). What a fetch keeps while it waits is charged by partition (`replica/shared.py`)."""

DECODING_MS_MAX: Final = 2
"""A large request that took longer to decode is long to serve, too: that is a step of its own."""
WRITTEN_PER_STEP: Final = 1024 * 1024
"""Bytes of a large answer that are handed over in one step: the loop copies what the peer cannot take at once."""

_KEEP_NOTHING: Final = frozenset((*ONLY_LOOK, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP))
"""Of these nothing is left with their connection: their work ends with it, or what waits keeps nothing of them."""

_OPEN: Final = State.OPEN
_ID: Final = Struct(">i").pack
_id_of: Final = Struct(">i").unpack_from
_ID_AT: Final = 4  # the correlation id of an answer, behind its length
_made: Final = object.__new__

logger = logging.getLogger(__name__)


class Request(RequestContext):
    """A request of a channel, from its decoding to its answer."""

    __slots__ = ("__weakref__", "_channel", "_place", "correlation_id")

    _channel: Channel
    _place: int
    correlation_id: int

    def serve(self, host: Host, request: Any) -> None:
        """Have a request served that was decoded in a step before; a fetch ends with its connection."""
        gone = self._channel.state is State.GONE
        if not gone or (host.serving and self.api_key != ApiKey.FETCH):
            core = host.core
            handle = core.handle if self.connection.peer < 0 else core.handle_peer
            handle(request, self, host.now_ms())
            host.settle()

    def respond(self, response: Any) -> None:
        """The answer, now or later; None when the protocol sends none."""
        channel = self._channel
        if channel.outstanding is not self:
            if channel.state is _OPEN:
                logger.error("a request of %s (API %d) was answered twice", channel.name, self.api_key)
            return
        channel.outstanding = None
        if channel.request_bytes:
            channel.answered()
        if channel.state is not _OPEN:
            return
        if response is None:
            channel.send([])
            return
        try:
            assert channel.dialect is not None
            buffers = channel.dialect.encode_response(self.api_key, self.api_version, self.correlation_id, response)
        except Exception:
            logger.exception("no answer could be encoded for %s (API %d)", channel.name, self.api_key)
            channel.refuse("its answer could not be encoded")
            return
        if response.throttle_time_ms > 0:
            channel.mute(response.throttle_time_ms)
        channel.send(buffers)

    @property
    def followed(self) -> bool:
        """Whether another request of the same API is there behind it, whole."""
        channel = self._channel
        receiver = channel.receiver
        if receiver.start == receiver.end or not receiver.next_asks_for(self.api_key):
            return False
        return channel.connection.dialect == dialects.KAFKA

    def respond_ahead(self, response: Any) -> None:
        """As `respond`, of one that may have to be another before it leaves."""
        self._place = len(self._channel.out)
        self.respond(response)

    def take_behind(self, read: Behind) -> list[tuple[int, int, int]]:
        """Take the requests behind this one that `read` finds: they are answered ahead as it was."""
        channel = self._channel
        out, receiver = channel.out, channel.receiver
        if channel.waits or channel.outstanding is not None or len(out) != self._place + 1:
            return []  # gone, throttled or not answered; or its answer lies in more than one buffer
        found, size = read(receiver.unread())
        if found:
            receiver.skip(size)
            channel.requests += len(found)
            same = out[self._place]
            head, told = same[:_ID_AT], same[_ID_AT + 4 :]
            channel.send([b"".join((head, _ID(one[0]), told)) for one in found])
        return found

    def respond_instead(self, response: Any, number: int = 0) -> None:
        """The answer that was made ahead is another."""
        channel = self._channel
        if channel.state is not _OPEN:
            return
        assert channel.dialect is not None
        place = self._place + number
        (correlation_id,) = _id_of(channel.out[place], _ID_AT)
        buffers = channel.dialect.encode_response(self.api_key, self.api_version, correlation_id, response)
        channel.out[place] = b"".join(buffers)  # as long as the one before: an error has its place in both

    def respond_in_steps(self, response: Any) -> Iterator[None]:
        """As `respond`, for an answer of many elements: written in bounded steps of a job."""
        channel = self._channel
        if channel.outstanding is not self or channel.state is not _OPEN:
            self.respond(response)
            return
        try:
            assert channel.dialect is not None
            buffers = yield from channel.dialect.encode_response_in_steps(
                self.api_key, self.api_version, self.correlation_id, response
            )
        except Exception:
            logger.exception("no answer could be encoded for %s (API %d)", channel.name, self.api_key)
            channel.refuse("its answer could not be encoded")
            return
        yield from self._send_in_steps(buffers, response.throttle_time_ms)

    def respond_sealed(self, response: Sealed) -> Iterator[None]:
        """As `respond_in_steps`, with another broker's answer: its bytes as they came, unless the client is native."""
        channel = self._channel
        kafka = channel.connection.dialect == dialects.KAFKA
        if channel.outstanding is not self or channel.state is not _OPEN or not kafka:
            yield from super().respond_sealed(response)
            return
        from barnabas.protocol.kafka import codec

        key, version, frame = response
        buffers, throttle_ms = codec.pass_on_response(key, version, self.correlation_id, frame)
        yield from self._send_in_steps(buffers, throttle_ms)

    def _send_in_steps(self, buffers: list[Buffer], throttle_ms: int) -> Iterator[None]:
        channel = self._channel
        while sum(map(len, buffers)) > WRITTEN_PER_STEP and channel.state is _OPEN:
            piece, buffers = _split(buffers, WRITTEN_PER_STEP)
            channel.send([piece])
            channel.flush()
            yield None
        channel.outstanding = None
        if channel.request_bytes:
            channel.answered()
        if channel.state is _OPEN:
            if throttle_ms > 0:
                channel.mute(throttle_ms)
            channel.send(buffers)

    def close(self, reason: str) -> None:
        """End the connection."""
        self._channel.refuse(reason)


def taken(channel: Channel, header: RequestHeader) -> Request:
    """The request of that header, made without `__init__`: to call that takes longer than to set all fields."""
    request = _made(Request)
    request._channel = channel
    request.correlation_id = header.correlation_id
    request.connection = channel.connection
    request.api_key = header.api_key
    request.api_version = header.api_version
    request.client_id = header.client_id
    return request


def is_seen_through(api_key: int) -> bool:
    """Whether a request is served to its end though its connection is gone, and holds until then what it has."""
    return api_key not in _KEEP_NOTHING


class Orphans:
    """Requests that are seen through though their connections are gone: what they hold is the broker's until then.

    Else whoever is ended for what it holds, or ends itself, would come again with as much, and nobody would count it.
    """

    __slots__ = ("_host", "_sizes")

    def __init__(self, host: Host) -> None:
        self._host = host
        self._sizes: dict[ReferenceType[Request], int] = {}

    def take(self, channel: Channel) -> None:
        """A channel is gone: what its request holds, if that is seen through, is held until nobody knows of it."""
        request, channel.outstanding = channel.outstanding, None
        if request is not None and is_seen_through(request.api_key):
            self._host.account.charge(BROKER, REQUESTS, channel.request_bytes)
            self._sizes[ReferenceType(request, self._forgotten)] = channel.request_bytes

    def _forgotten(self, request: ReferenceType[Request]) -> None:
        """In the midst of anything, and by any thread that collects garbage."""
        with suppress(RuntimeError):  # the loop is closed
            self._host.loop.call_soon_threadsafe(self._release, request)

    def _release(self, request: ReferenceType[Request]) -> None:
        self._host.account.release(BROKER, REQUESTS, self._sizes.pop(request))


def weigh(api_key: int, size: int, pinned_bytes: int) -> int:
    """What a request of `size` bytes is charged while it waits for its answer.

    `pinned_bytes`: of the buffer it keeps, while logs are recovered. What is decoded then lies between what recovery
    makes, and its memory does not go back to the system: twice the charge means half as many.
    """
    if not pinned_bytes:
        return size * WEIGHTS.get(api_key, DECODED_WEIGHT)
    return 2 * size * (1 if api_key == ApiKey.PRODUCE else DECODED_WEIGHT) + pinned_bytes


def _split(buffers: list[Buffer], size: int) -> tuple[bytes, list[Buffer]]:
    """The first `size` bytes, and views of the rest."""
    taken: list[Buffer] = []
    for at, one in enumerate(buffers):
        if len(one) >= size:
            taken.append(memoryview(one)[:size])
            return b"".join(taken), [memoryview(one)[size:], *buffers[at + 1 :]]
        taken.append(one)
        size -= len(one)
    return b"".join(taken), []

"""A connection on the listener between brokers: nothing but an introduction is read until it is through.

Until then a frame has 1 KiB at most, is one of SaslHandshake and SaslAuthenticate, and all of them must have come
within `INTRODUCTION_MS_MAX`; who does otherwise is let go, and one line says why. From then on it is as any other, but
that its requests are another broker's (`Core.handle_peer`). The account and the deadlines of connections hold from
the first byte; how many there may be says `admission`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.account import REQUESTS
from barnabas.broker.host import dialects
from barnabas.broker.host.channel import Channel
from barnabas.broker.host.in_flight import CHARGED_BYTES_MIN, DECODING_MS_MAX, taken, weigh
from barnabas.broker.host.states import State
from barnabas.broker.introduction import REQUEST_BYTES_MAX, VERSIONS, Reception
from barnabas.protocol.api import ApiKey, RequestHeader, UnsupportedVersion, name_of
from barnabas.protocol.errors import ProtocolError

if TYPE_CHECKING:
    from barnabas.broker.host.host import Host

INTRODUCTION_MS_MAX: Final = 10_000
"""From the accept to the last proof."""

logger = logging.getLogger(__name__)


class PeerChannel(Channel):
    """The protocol object of one connection that another broker made."""

    __slots__ = ("_deadline", "_reception")

    of_brokers = True

    def __init__(self, host: Host, listener: str) -> None:
        super().__init__(host, listener)
        self.receiver.frame_bytes_max = REQUEST_BYTES_MAX
        core = host.core
        nonce = core.entropy.uuid() + core.entropy.uuid()
        self._reception: Reception | None = Reception(host.secret, core.services.cluster_id, host.config.node_id, nonce)
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accepted: admitted, or let go at once."""
        super().connection_made(transport)
        if self.state is State.OPENING:
            self._deadline = self._host.loop.call_later(INTRODUCTION_MS_MAX / 1000, self._too_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone."""
        self._forget_deadline()
        super().connection_lost(exc)

    def _too_late(self) -> None:
        self._deadline = None
        self.end(f"it did not show within {INTRODUCTION_MS_MAX} ms that it is a broker of this cluster")

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def mute(self, throttle_ms: int) -> None:
        """Never: a lane carries what all clients of a broker ask for; it mutes the one that has to wait, itself.

        The answer that tells it how long passes through there. Muted here, all the others' requests would wait as well,
        and changes that leaders ask for.
        """

    def _choose_dialect(self) -> bool:
        if self.state is State.OPENING and dialects.choose(self.receiver.unread()) not in (None, dialects.KAFKA):
            raise ProtocolError("brokers alone talk on this listener, and in Kafka's protocol; clients have another")
        return super()._choose_dialect()

    def _handle(self, frame: memoryview, now_ms: int, began_ms: int = 0) -> None:
        self.requests += 1
        if self._reception is not None:
            self._introduce(frame, self._reception)
            return
        assert self.dialect is not None
        try:
            header, request = self._decode(frame)
        except UnsupportedVersion as error:
            if error.header.api_key != ApiKey.API_VERSIONS:
                raise
            self.send(self.dialect.encode_unsupported_api_versions(error.header.correlation_id))
            return
        context = self.outstanding = taken(self, header)
        host = self._host
        if began_ms and host.now_ms() - began_ms > DECODING_MS_MAX:
            host.loop.call_soon(context.serve, host, request)
        else:
            host.core.handle_peer(request, context, now_ms)
        if self.outstanding is not None and len(frame) >= CHARGED_BYTES_MIN:
            size = weigh(header.api_key, len(frame), host.buffers.pinned_bytes)
            self.request_bytes = self.account.change(self.connection.id, REQUESTS, 0, size)

    def _decode(self, frame: memoryview) -> tuple[RequestHeader, Any]:
        assert self.dialect is not None
        try:
            return self.dialect.decode_request(frame)
        except ProtocolError:
            raise
        except Exception as error:
            raise ProtocolError(f"its request cannot be decoded ({type(error).__name__}: {error})") from error

    def _introduce(self, frame: memoryview, reception: Reception) -> None:
        if len(frame) < 2:
            raise ProtocolError(f"request header needs 10 bytes, the frame has {len(frame)}")
        key = int.from_bytes(frame[:2], "big")
        if key not in VERSIONS:
            what = name_of(key) if key in list(ApiKey) else f"API {key}"
            raise ProtocolError(
                f"it asks for {what} before it has shown that it is a broker of this cluster; clients connect to "
                "another listener"
            )
        header, request = self._decode(frame)
        response = reception.answer(request)
        assert self.dialect is not None
        version, number = header.api_version, header.correlation_id
        self.send(self.dialect.encode_response(header.api_key, version, number, response))
        if reception.refusal:
            self.refuse(reception.refusal)
        elif reception.peer >= 0:
            self._forget_deadline()
            self._reception = None
            self._host.admission.leave_stranger(self.connection.id)
            self.connection.peer, self.connection.principal = reception.peer, f"Broker:{reception.peer}"
            self.receiver.frame_bytes_max = self._host.config.socket_request_max_bytes
            logger.info("broker %d is connected from %s", reception.peer, self.connection.client_host)

    @property
    def name(self) -> str:
        """Who it is, for people."""
        who = f"broker {self.connection.peer}, " if self.connection.peer >= 0 else ""
        return f"{self.connection.client_host} ({who}#{self.connection.id} on {self.connection.listener})"

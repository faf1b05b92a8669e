"""The bridge's own `/health`, `/metrics` and `/state`, over the broker's little HTTP (`barnabas.broker.host.http`)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from barnabas.broker.host import http, prometheus
from barnabas.broker.host.http import Answer, Page
from barnabas.broker.metrics import MetricsRegistry
from barnabas.mqtt.figures import meaning

ANSWERS_MAX: Final = 16
ASKING_MAX: Final = 400
"""So many may be connected whose request is not whole; for one more the one goes that has taken longest. Of a hundred
that come in one round of the loop each is read from before it could be its turn to go."""
SECONDS_MAX: Final = 10.0
"""For a request's head to come, and for each piece of an answer to be read."""

_INDEX: Final = """\
A Barnabas MQTT bridge shows its inside:

  /health    200 while it carries messages, 503 with the reason while it does not
  /metrics   Prometheus text
  /state     connections, rules with counts, open messages (JSON); barnabas top shows it live
"""


class Web:
    """The pages of one bridge. `why_not` says why it carries nothing (empty: it does), `state` its inside."""

    def __init__(
        self,
        registry: MetricsRegistry,
        why_not: Callable[[], str],
        state: Callable[[], dict[str, Any]],
        now_ms: Callable[[], int],
        hosts: tuple[str, ...],
    ) -> None:
        self._registry = registry
        self._why_not, self._state, self._now_ms = why_not, state, now_ms
        self._hosts = http.names(hosts)
        self._asking: dict[asyncio.StreamWriter, None] = {}
        self._answering = 0
        self._server: asyncio.Server | None = None
        self._pages: dict[str, Page] = {
            "/": lambda fields: Answer(200, http.TEXT, _INDEX),
            "/health": self._health,
            "/metrics": self._metrics,
            "/state": self._told_state,
        }

    async def listen(self, host: str, port: int) -> int:
        """Begin; the port, which is a free one for 0.

        Raises:
            OSError: the address cannot be had.
        """
        self._server = await asyncio.start_server(self._serve, host, port, limit=http.HEAD_BYTES_MAX)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    def _health(self, fields: Mapping[str, str]) -> Answer:
        why = self._why_not()
        status = {"status": "not carrying", "why": why} if why else {"status": "serving"}
        return Answer(503 if why else 200, http.JSON, json.dumps(status) + "\n")

    def _metrics(self, fields: Mapping[str, str]) -> Answer:
        found = prometheus.pieces(self._registry.collect(self._now_ms()), meaning)
        return Answer(200, http.PROMETHEUS, "".join(found))

    def _told_state(self, fields: Mapping[str, str]) -> Answer:
        return Answer(200, http.JSON, json.dumps(self._state()) + "\n")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._asking[writer] = None
        if len(self._asking) > ASKING_MAX:
            longest = next(iter(self._asking))
            del self._asking[longest]
            longest.transport.abort()
        try:
            async with asyncio.timeout(SECONDS_MAX):
                await self._answer(reader, writer)
        except (OSError, TimeoutError):
            pass  # whoever asked has left, or does not read
        finally:
            self._asking.pop(writer, None)
            writer.close()
            try:
                async with asyncio.timeout(SECONDS_MAX):
                    await writer.wait_closed()
            except (OSError, TimeoutError):
                writer.transport.abort()  # or it would wait for a reader who reads nothing, for ever

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = b""
        while (pieces := http.answer(head, self._pages, self._hosts)) is None:
            came = await reader.read(4096)
            if not came:
                return
            head += came
        self._asking.pop(writer, None)
        if self._answering >= ANSWERS_MAX:
            return
        self._answering += 1
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
        finally:
            self._answering -= 1

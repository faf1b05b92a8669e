"""A broker on a real socket that says what a test wants: which brokers there are, what an API answers, or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

from barnabas.protocol.api import VERSIONS, ApiKey
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.api_versions import ApiVersion, ApiVersionsResponse
from barnabas.protocol.requests.init_producer_id import InitProducerIdResponse
from barnabas.protocol.requests.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


class ScriptedBroker:
    """Answers ApiVersions and Metadata (every topic has one partition) and what `handlers` name; else nothing.

    Args:
        silent: takes connections, and never answers.
        advertised: the port it tells of; its own by default.
    """

    def __init__(self, *, silent: bool = False, advertised: int | None = None) -> None:
        self.handlers: dict[int, Callable[[Any], Any]] = {}
        self.port = 0
        self.silent = silent
        self._advertised = advertised
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        await asyncio.sleep(0)  # asyncio (3.13) leaves a socket open that was accepted just before its server is closed
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        unanswered = False
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                header, request = codec.decode_request(memoryview(await reader.readexactly(size)))
                answer = None if self.silent or unanswered else self._answer(header, request)
                unanswered = answer is None  # Kafka answers in order: nothing after this, on this connection
                if answer is not None:
                    frame = codec.encode_response(header.api_key, header.api_version, header.correlation_id, answer)
                    writer.write(b"".join(frame))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is gone
        finally:
            writer.transport.abort()

    def _answer(self, header: Any, request: Any) -> Any:
        special = self.handlers.get(header.api_key)
        if special is not None:
            return special(request)
        if header.api_key == ApiKey.API_VERSIONS:
            return ApiVersionsResponse(api_keys=[ApiVersion(key, *both) for key, both in VERSIONS.items()])
        if header.api_key == ApiKey.METADATA:
            return self.metadata(request)
        if header.api_key == ApiKey.INIT_PRODUCER_ID:
            return InitProducerIdResponse(producer_id=1, producer_epoch=0)
        return None

    def metadata(self, request: Any) -> MetadataResponse:
        """The usual answer, for handlers that change a part of it."""
        part = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=0)
        topics = [
            MetadataResponseTopic(name=each.name, topic_id=b"t" * 16, partitions=[part])
            for each in request.topics or ()
        ]
        port = self.port if self._advertised is None else self._advertised
        brokers = [MetadataResponseBroker(1, "127.0.0.1", port)]
        return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=topics)

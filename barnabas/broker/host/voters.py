"""Who the controllers are, by addresses alone (`controller.quorum.bootstrap.servers`): asked before a start.

A broker of Apache Kafka learns it from whoever it asks first, and goes on asking while it runs, for its controllers may
change. Here the set of them stands while they run: it is asked for once, and what is told is `controller.quorum.voters`
from then on. Nothing is opened or written before. Who cannot be reached is asked again, and who refuses ends the start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from barnabas.broker.config import BrokerConfig
from barnabas.broker.config.quorum import asks_for_voters, roles_must_fit
from barnabas.broker.config.topics import METADATA_TOPIC
from barnabas.broker.host.entropy import SystemEntropy
from barnabas.broker.introduction import VERSIONS, Introduction, IntroductionError
from barnabas.broker.peers.spoken import CLIENT_ID, written
from barnabas.net import versions
from barnabas.net.host.addresses import words_of
from barnabas.protocol.api import ApiKey, key_of
from barnabas.protocol.errors import BarnabasError, ConfigError, ProtocolError
from barnabas.protocol.ids import Buffer
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestedPartitionData,
    RequestedTopicData,
)

ANSWER_S_MAX: Final = 2.0
"""For all that is said to one of them."""
PAUSE_S: Final = 0.5
"""Before all are asked again."""
_ANSWER_BYTES_MAX: Final = 1 << 20

logger = logging.getLogger(__name__)


async def find_voters(config: BrokerConfig, secret: bytes, pause: Callable[[], Awaitable[None]] | None = None) -> None:
    """Put into the settings who the controllers are, once one of those that are known by their addresses has told.

    Raises:
        ConfigError: one of them refuses this broker, or this node's id is a controller's.
    """
    assert asks_for_voters(config)
    said = ""
    while True:
        silent: list[str] = []
        for server in config.controller_quorum_bootstrap_servers:
            try:
                async with asyncio.timeout(ANSWER_S_MAX):
                    found = _voters_told(await _ask(config, secret, server))
            except IntroductionError as refusal:
                raise ConfigError(f"controller.quorum.bootstrap.servers: {server}: {refusal}") from refusal
            except (OSError, EOFError, OverflowError, ValueError, BarnabasError) as fault:
                silent.append(f"{server}: {_why(fault)}")
                continue
            config.controller_quorum_voters = tuple(found)
            roles_must_fit(config)
            logger.info("the controllers are %s, as %s tells", ", ".join(found), server)
            return
        if said != (said := "; ".join(silent)):
            logger.warning("who the controllers are cannot be asked yet: %s", said)
        await (asyncio.sleep(PAUSE_S) if pause is None else pause())


def _why(fault: Exception) -> str:
    if isinstance(fault, TimeoutError):
        return f"no answer within {ANSWER_S_MAX:g} s"
    if isinstance(fault, EOFError):
        return "it hangs up; is it the listener between brokers?"
    return words_of(fault)


async def _ask(config: BrokerConfig, secret: bytes, server: str) -> DescribeQuorumResponse:
    host, _, port = server.rpartition(":")
    reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))

    async def call(key: int, version: int, buffers: list[Buffer]) -> Any:
        writer.write(b"".join(buffers))
        size = int.from_bytes(await reader.readexactly(4), "big")
        if size > _ANSWER_BYTES_MAX:
            raise ProtocolError(f"its answer has {size} bytes")
        frame = memoryview(await reader.readexactly(size))
        if key == ApiKey.API_VERSIONS:
            version = versions.answered_in(frame, version)
        return codec.decode_response(key, version, frame)[1]

    async def say(request: object, version: int) -> Any:
        key = key_of(type(request))
        return await call(key, version, codec.encode_request(key, version, 1, CLIENT_ID, request))

    try:
        entropy = SystemEntropy()
        nonce = entropy.uuid() + entropy.uuid()
        introduction = Introduction(secret, config.barnabas_cluster_id or "", config.node_id, nonce)
        request: object = introduction.first()
        while request is not None:
            request = introduction.answered(await say(request, VERSIONS[key_of(type(request))]))
        served: versions.Served | int = versions.ASKED_FIRST
        while isinstance(served, int):
            served = versions.told(await say(versions.question(), served), served)
        asked = DescribeQuorumRequest([RequestedTopicData(METADATA_TOPIC, [RequestedPartitionData(0)])])
        response = await call(ApiKey.DESCRIBE_QUORUM, *written("it", served, 1, asked, ApiKey.DESCRIBE_QUORUM))
        assert isinstance(response, DescribeQuorumResponse)
        return response
    finally:
        writer.close()


def _voters_told(response: DescribeQuorumResponse) -> list[str]:
    """As `controller.quorum.voters` has them."""
    found = []
    for node in response.nodes:
        if not node.listeners:
            raise ProtocolError(f"it does not know yet where controller {node.node_id} listens for brokers")
        at = node.listeners[0]
        found.append(f"{node.node_id}@{f'[{at.host}]' if ':' in at.host else at.host}:{at.port}")
    if not found:
        raise ProtocolError("it does not know who the controllers are")
    return found

"""Large answers of the controller that a broker sends on to a client: neither decoded nor written anew."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.context import Connection, RequestContext, Sealed
from barnabas.broker.handlers import forwarded
from barnabas.broker.handlers.registry import FORWARDED
from barnabas.broker.host.in_flight import WRITTEN_PER_STEP
from barnabas.broker.host.states import MUTED
from barnabas.protocol.api import VERSIONS, ApiKey
from barnabas.protocol.kafka import APIS, codec
from barnabas.protocol.native import codec as native
from barnabas.protocol.requests.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from tests.broker.host.fake_core import FakeCore, client, serving


@pytest.mark.parametrize("key", sorted(FORWARDED))
def test_what_is_forwarded_tells_its_throttle_time_first_or_not_at_all(key: ApiKey) -> None:
    for version in range(VERSIONS[key][0], VERSIONS[key][1] + 1):
        names = [one.name for one in APIS[key].response.fields if one.is_in(version)]
        assert "throttle_time_ms" not in names[1:]


def test_who_asked_another_broker_than_the_controller_is_answered_with_it() -> None:
    told = CreateTopicsResponse(0, [CreatableTopicResult("n", topic_id=bytes(16))])
    came = memoryview(b"".join(codec.encode_response(ApiKey.CREATE_TOPICS, 7, 5, told)))[4:]
    answers: list[Any] = []

    class Context(RequestContext):
        def respond(self, response: Any) -> None:
            answers.append(response)

        def close(self, reason: str) -> None:
            raise AssertionError(reason)

    def forward(request: Any, done: Callable[[Any], None], version: int) -> None:
        done(Sealed(ApiKey.CREATE_TOPICS, version, came))

    services: Any = SimpleNamespace(forward=forward, work=lambda steps, request, context: answers.extend(steps))
    connection = Connection(1, "PLAINTEXT", "127.0.0.1", "kafka", 0)
    forwarded.handle(services, CreateTopicsRequest(), Context(connection, ApiKey.CREATE_TOPICS, 7, "me"), 0)
    assert [one for one in answers if one is not None] == [told]


@pytest.mark.parametrize("dialect", ["kafka", "native"])
async def test_an_answer_of_another_broker_is_passed_on_in_pieces_and_mutes(dialect: str) -> None:
    """As bytes to who can read them; decoded, and written anew, for the other dialect."""
    told = CreateTopicsResponse(60_000, [CreatableTopicResult("n" * 3_000, topic_id=bytes(16)) for _ in range(1_000)])
    came = memoryview(b"".join(codec.encode_response(ApiKey.CREATE_TOPICS, 7, 5, told)))[4:]
    steps = 0

    def passes_on(request: Any, context: RequestContext, now_ms: int) -> None:
        nonlocal steps
        for _ in context.respond_sealed(Sealed(ApiKey.CREATE_TOPICS, 7, came)):
            steps += 1

    spoken = codec if dialect == "kafka" else native
    async with serving(FakeCore(passes_on)) as host, client(host.port) as raw:
        raw.send(b"BNB1" if dialect == "native" else b"")
        raw.send(b"".join(spoken.encode_request(ApiKey.CREATE_TOPICS, 7, 9, "me", CreateTopicsRequest())))
        number, answer = spoken.decode_response(ApiKey.CREATE_TOPICS, 7, await raw.frame())
        (channel,) = host.channels.values()
        assert channel.waits & MUTED
    assert (number, answer) == (9, told)
    assert steps >= len(came) // WRITTEN_PER_STEP

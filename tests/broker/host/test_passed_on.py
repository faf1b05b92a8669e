"""Large answers of the controller that a broker sends on to a client: neither decoded nor written anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.account import UNREAD, Account
from barnabas.broker.context import Connection, RequestContext, Sealed
from barnabas.broker.handlers import forwarded
from barnabas.broker.handlers.line import Line
from barnabas.broker.handlers.registry import FORWARDED
from barnabas.broker.handlers.services import Services
from barnabas.broker.host.in_flight import WRITTEN_PER_STEP
from barnabas.broker.host.states import MUTED
from barnabas.broker.jobs import Job
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
    services.account, services.charging = Account(), partial(Services.charging, services)
    connection = Connection(1, "PLAINTEXT", "127.0.0.1", "kafka", 0)
    forwarded.handle(services, CreateTopicsRequest(), Context(connection, ApiKey.CREATE_TOPICS, 7, "me"), 0)
    assert [one for one in answers if one is not None] == [told]


@pytest.mark.parametrize(("dialect", "answered"), [("kafka", 1), ("native", 0)])
def test_an_answer_counts_for_who_asked_and_waits_where_it_is_to_be_decoded(dialect: Any, answered: int) -> None:
    told = CreateTopicsResponse(0, [CreatableTopicResult("n", topic_id=bytes(16))])
    came = memoryview(b"".join(codec.encode_response(ApiKey.CREATE_TOPICS, 7, 5, told)))[4:]
    answers: list[Any] = []

    class Context(RequestContext):
        def respond_sealed(self, response: Sealed) -> Iterator[None]:
            answers.append(response)
            yield None

        def respond(self, response: Any) -> None:
            raise AssertionError(response)

        def close(self, reason: str) -> None:
            raise AssertionError(reason)

    jobs: list[Any] = []
    services: Any = SimpleNamespace(account=Account(), line=Line())
    services.charging = partial(Services.charging, services)
    services.forward = lambda request, done, version: done(Sealed(ApiKey.CREATE_TOPICS, version, came))
    services.work = lambda steps, request, context: jobs.append(steps)
    others = [services.line.within(number, iter_forever()) for number in (8, 9)]
    for one in others:
        next(one)
    connection = Connection(1, "PLAINTEXT", "127.0.0.1", dialect, 0)
    forwarded.handle(services, CreateTopicsRequest(), Context(connection, ApiKey.CREATE_TOPICS, 7, "me"), 0)
    (job,) = jobs
    next(job)
    assert len(answers) == answered
    assert services.account.held_by(1) == services.account.by_kind[UNREAD] == len(came)
    others[0].close()
    for _ in job:
        assert len(answers) == 1
    assert (len(answers), services.account.total) == (1, 0)


def iter_forever() -> Job[None]:
    while True:
        yield None


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

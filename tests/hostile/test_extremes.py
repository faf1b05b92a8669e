"""Extreme requests of every API and version: each is answered, or its connection is closed with a reason; nobody waits.

In one process each answer is looked at; over a socket a bystander looks on, and every API and version has its turn
(`tour`) before chance has the rest. How long steps take: `test_steps`.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest

from barnabas.protocol.api import VERSIONS, ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.kafka import codec as kafka
from barnabas.protocol.limits import FEW, REQUEST_ELEMENTS_MAX
from barnabas.protocol.native import codec as native
from tests.broker.host.test_siege import siege
from tests.broker.node.world import World
from tests.hostile.extremes import TOPICS, Extreme, chosen, extreme
from tests.hostile.run import play, send
from tests.hostile.tour import tour

SOCKET_S = 60.0
SEED = 9
"""Always the same requests: others are drawn by `python -m tests.hostile` and `./dev soak`."""
MEMBERS_WAIT_MS = 10_000
"""For the others of their group; no other request waits for longer than `extremes.SAFE` says."""
SEEDS = range(8)
PER_SEED = 40


def serve(world: World, one: Extreme) -> str:
    """Decode, serve and answer a request in this process; how it ended."""
    dialect = kafka if one.dialect == "kafka" else native
    try:
        header, request = dialect.decode_request(memoryview(bytearray(one.frame))[4:])
    except ProtocolError:
        return "refused"
    answer = world.send(request, header.api_version)
    world.settle()
    world.advance(60)
    if not answer.done and one.api_key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP):
        world.advance(MEMBERS_WAIT_MS)
    assert answer.done or answer.closed is not None, f"no answer to {one}"
    if answer.response is not None:
        frames = dialect.encode_response(header.api_key, header.api_version, header.correlation_id, answer.response)
        assert frames, one
    return "answered"


def prepare(world: World) -> None:
    """Make the topics that extreme requests name."""
    for name, settings in TOPICS.items():
        world.create(name, 3, 1, **{key.replace(".", "_"): value for key, value in settings.items()})


@pytest.mark.parametrize("seed", SEEDS)
def test_every_extreme_request_is_answered_or_refused(seed: int) -> None:
    random = Random(seed)
    world = World(num_partitions=1)
    prepare(world)
    ended = {serve(world, extreme(random)) for _ in range(PER_SEED)}
    assert ended == {"answered", "refused"}
    assert world.core.replicas.shared.parked_partitions == 0
    assert not world.core.jobs.snapshot()


def test_the_generator_reaches_every_api_in_both_dialects() -> None:
    random = Random(0)
    made = [chosen(random) for _ in range(5000)]
    assert {(key, dialect) for key, _, dialect in made} == {(key, each) for key in VERSIONS for each in (kafka, native)}
    assert {(key, version) for key, version, _ in made} >= {(key, last) for key, (_, last) in VERSIONS.items()}
    once, again = ([extreme(each).frame for _ in range(10)] for each in (Random(0), Random(0)))
    assert once == again


def test_the_tour_leaves_no_api_no_version_and_no_dialect_out() -> None:
    asked = [(one.api_key, one.version, one.dialect, ended) for one, ended in tour()]
    answered = {(key, version) for key, version, dialect, ended in asked if (dialect, ended) == ("kafka", "answered")}
    assert answered == {(key, at) for key, (first, last) in VERSIONS.items() for at in range(first, last + 1)}
    assert {key for key, _, dialect, ended in asked if (dialect, ended) == ("native", "answered")} == set(VERSIONS)
    much = {key for key, bound in REQUEST_ELEMENTS_MAX.items() if bound > FEW and key in VERSIONS}
    for dialect in ("kafka", "native"):
        assert {key for key, _, of, ended in asked if (of, ended) == (dialect, "refused")} >= much


@pytest.mark.slow
@pytest.mark.measured
def test_a_real_process_answers_extremes_and_bystanders() -> None:
    with siege() as process, suppress(KeyboardInterrupt):
        wrong = [f"{one}: {found}" for one, ended in tour() if (found := send(process.port, one)) != ended]
        assert not wrong, wrong
        played = play(process.port, SEED, SOCKET_S)
    print(f"python -m tests.hostile --seed {SEED}: {played}")
    assert played.answered > 0
    assert played.refused > 0

"""The longest step of the loop where many partitions lie: all that is done while they are made, deleted, or left alone.

One request here leads to much work: logs are opened, followed, noted down and removed. So a broker is watched from the
request on until it has nothing left to do.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from barnabas.broker.node.core import Core
from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.requests.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.hostile.meter import UNIT_MS, Meter, exchange, metered, unit_ns
from tests.hostile.steps import frame

LYING: Final = 10_000
"""Partitions of a broker that stands alone, before anything is asked."""
AT_ONCE: Final = 9_990
"""Topics that one request makes or deletes."""
WIDE: Final = 9_990
OF_THREE: Final = (2, 7_350)
"""Topics on three brokers, and the partitions of each."""
QUIET_S: Final = 6.0
"""High watermarks are noted down every five seconds."""
_CONFIG: Final = {"barnabas.controller.mutation.burst": 10**6}
_PATIENT: Final = {
    "controller.quorum.fetch.timeout.ms": 60_000,
    "controller.quorum.request.timeout.ms": 60_000,
    "broker.session.timeout.ms": 60_000,
}
"""All three share one loop: on a busy machine none of them is to be taken for gone."""


def longest(*, goes: int) -> Iterator[tuple[str, float]]:
    """What was done, and the longest step (ms, as the machine of docs/SPEED.md would take): the least of some goes."""
    for scene in (alone, three):
        rounds = [list(scene()) for _ in range(goes)]
        for measured in zip(*rounds, strict=True):
            yield measured[0][0], min(found for _, found in measured)


def alone() -> Iterator[tuple[str, float]]:
    """A broker that stands alone."""
    with metered(config=_CONFIG) as (port, meter):
        core = [meter.broker._assembly.host.core]
        for start in range(0, LYING, AT_ONCE):
            ask(port, ApiKey.CREATE_TOPICS, 7, new(f"lying{start}", min(AT_ONCE, LYING - start), 1))
            settle(core)
        asked = {
            f"{AT_ONCE} topics made beside {LYING}": (ApiKey.CREATE_TOPICS, 7, new("n", AT_ONCE, 1)),
            f"{AT_ONCE} topics deleted beside {LYING}": (ApiKey.DELETE_TOPICS, 6, gone("n", AT_ONCE)),
            f"a topic of {WIDE} partitions made beside {LYING}": (ApiKey.CREATE_TOPICS, 7, new("w", 1, WIDE)),
            f"a topic of {WIDE} partitions deleted beside {LYING}": (ApiKey.DELETE_TOPICS, 6, gone("w", 1)),
        }
        for name, (key, version, request) in asked.items():
            yield name, watched(meter, core, lambda one=(key, version, request): ask(port, *one))  # type: ignore[misc]


def three() -> Iterator[tuple[str, float]]:
    """Three brokers, in this process."""
    topics, partitions = OF_THREE
    total = topics * partitions
    with metered(brokers=3, config={**_CONFIG, **_PATIENT}) as (_, meter):
        nodes = meter.broker.brokers.values()
        cores = [node._assembly.host.core for node in nodes if node._assembly is not None]
        while not any(node.is_active for node in nodes) or len(cores[0].image.alive_brokers()) < len(cores):
            time.sleep(0.1)
        port = next(node.port for node in nodes if node.is_active)
        made = [(ApiKey.CREATE_TOPICS, 7, new(f"n{number}", 1, partitions, 3)) for number in range(topics)]

        def make() -> None:
            for one in made:
                ask(port, *one)

        yield f"{total} partitions made on three brokers", watched(meter, cores, make)
        yield f"{total} partitions left alone on three brokers", watched(meter, cores, lambda: time.sleep(5))
        every = DeleteTopicsRequest([DeleteTopicState(f"n{number}.0") for number in range(topics)], timeout_ms=60_000)
        found = watched(meter, cores, lambda: ask(port, ApiKey.DELETE_TOPICS, 6, every))
        yield f"{total} partitions deleted on three brokers", found


def new(name: str, topics: int, partitions: int, factor: int = 1) -> CreateTopicsRequest:
    """Topics `name.0`, `name.1` and so on."""
    made = [CreatableTopic(f"{name}.{number}", partitions, factor) for number in range(topics)]
    return CreateTopicsRequest(made, timeout_ms=60_000)


def gone(name: str, topics: int) -> DeleteTopicsRequest:
    """The same, to be deleted."""
    return DeleteTopicsRequest([DeleteTopicState(f"{name}.{number}") for number in range(topics)], timeout_ms=60_000)


def ask(port: int, key: int, version: int, request: Any) -> None:
    """Ask, and look whether all of it was done."""
    with socket.create_connection(("127.0.0.1", port), 60) as sock:
        told = exchange(sock, frame(codec, key, version, request))
    assert told is not None
    response = codec.decode_response(key, version, told[0])[1]
    answers = response.topics if key == ApiKey.CREATE_TOPICS else response.responses
    assert {one.error_code for one in answers} == {0}, "it is no measure of what was asked"


def watched(meter: Meter, cores: list[Core], work: Callable[[], Any]) -> float:
    """The longest step until all that some work leads to is done (ms, scaled), the collector's pauses apart."""
    before_ns = unit_ns()
    meter.forget()
    work()
    settle(cores)
    return meter.worst.spent_ns * UNIT_MS / max(before_ns, unit_ns())


def settle(cores: list[Core]) -> None:
    """Wait until no broker has taken in, made or removed partitions for a while."""
    quiet_s = 0.0
    while quiet_s < QUIET_S:
        time.sleep(0.1)
        busy = any(core.replicas.behind for core in cores)
        quiet_s = 0.0 if busy else quiet_s + 0.1

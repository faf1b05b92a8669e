"""The longest step of the loop that one request leads to: the largest of every API, in both dialects, or sent on.

`./dev bench --only steps` holds each to the 20 ms that are promised (docs/SECURITY.md), on a machine that does nothing
else. The tests (`test_steps`) look for a request whose step grew out of all proportion.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from barnabas.broker.handlers.registry import FORWARDED
from barnabas.broker.introduction import VERSIONS, Introduction
from barnabas.protocol.api import ApiKey, key_of
from barnabas.protocol.kafka import codec as kafka
from barnabas.protocol.limits import NATIVE_SHARE
from barnabas.protocol.native import codec as native
from tests.hostile import largest, largest_of_cluster, largest_of_groups
from tests.hostile.largest import PREPARED
from tests.hostile.meter import UNIT_MS, Meter, exchange, metered, unit_ns

LARGEST = {**largest.LARGEST, **largest_of_cluster.LARGEST, **largest_of_groups.LARGEST}
DIALECTS = {"kafka": kafka, "native": native}
STEP_MS_MAX = 20.0
SENT_ON = [name for name, (key, _, _) in LARGEST.items() if key in FORWARDED]
"""Of these what another broker sends on to the controller, for its clients."""
_BETWEEN, _SECRET = "BROKERS", b"known to brokers alone"
_API_VERSIONS = b"\0\x12\0\0\0\0\0\1\xff\xff"


@contextmanager
def prepared() -> Iterator[tuple[int, Meter]]:
    """A metered broker with what the largest requests ask for: its port, and the meter."""
    with TemporaryDirectory() as folder:
        secret = Path(folder, "secret")
        secret.touch(0o600)
        secret.write_bytes(_SECRET)
        with _prepared(str(secret)) as found:
            yield found


@contextmanager
def _prepared(secret: str) -> Iterator[tuple[int, Meter]]:
    config = {
        "barnabas.controller.mutation.burst": 10**6,
        "listeners": f"{_BETWEEN}://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{_BETWEEN}:PLAINTEXT",
        "inter.broker.listener.name": _BETWEEN,
        "barnabas.cluster.secret.file": secret,
    }
    with metered(topics={"t": 3, "wide": 9_990}, config=config) as (port, meter):
        for key, version, request in PREPARED:
            with socket.create_connection(("127.0.0.1", port), 60) as sock:
                assert exchange(sock, frame(kafka, key, version, request)) is not None
        yield port, meter


def frame(dialect: Any, key: int, version: int, request: Any) -> bytes:
    """A request's bytes, with what a connection of its dialect begins with."""
    data = b"".join(bytes(one) for one in dialect.encode_request(key, version, 1, "largest", request))
    return (b"BNB1" if dialect is native else b"") + data


def largest_frame(name: str, dialect: Any) -> bytes:
    """One of `LARGEST`."""
    key, version, make = LARGEST[name]
    return frame(dialect, key, version, make(NATIVE_SHARE if dialect is native else 1))


def longest_ms(port: int, meter: Meter, data: bytes, *, answered: bool = True, sent_on: bool = False) -> float:
    """The longest step that a request leads to (ms, as the machine of docs/SPEED.md would take).

    The scale is taken before and after, and the slower of the two counts: who shares the caches comes and goes.
    `sent_on`: it comes from another broker.
    """
    before_ns = unit_ns()
    with socket.create_connection(("127.0.0.1", port_between(meter) if sent_on else port), 60) as sock:
        if sent_on:
            introduce(sock, meter)
        meter.forget()
        told = exchange(sock, data)
    assert told or not answered, "it is refused, and so no measure of what it leads to"
    with socket.create_connection(("127.0.0.1", port), 60) as sock:  # what the answer left to do is begun
        exchange(sock, frame(kafka, ApiKey.API_VERSIONS, 0, kafka.decode_request(_API_VERSIONS)[1]))
    worst_ns = meter.worst.spent_ns
    return worst_ns * UNIT_MS / max(before_ns, unit_ns())


def port_between(meter: Meter) -> int:
    """Where a metered broker listens for brokers."""
    port: int = meter.broker._assembly.port_of(_BETWEEN)
    return port


def introduce(sock: socket.socket, meter: Meter) -> None:
    """Show that this is a broker of its cluster."""
    cluster_id = meter.broker._assembly.host.core.services.cluster_id
    mine = Introduction(_SECRET, cluster_id, 2, b"n" * 32)
    request: Any = mine.first()
    while request is not None:
        key = key_of(type(request))
        told = exchange(sock, frame(kafka, key, VERSIONS[key], request))
        assert told is not None
        request = mine.answered(kafka.decode_response(key, VERSIONS[key], told[0])[1])


def least(measure: Callable[[], float], *, enough: float, goes: int) -> float:
    """The least of some goes, of which the first that is `enough` is the last: nothing else only adds to it."""
    found = float("inf")
    for _ in range(goes):
        found = min(found, measure())
        if found <= enough:
            break
    return found

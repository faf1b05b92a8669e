"""What is not the shipped code: the list is whole, and a run asks nothing of the machine that it runs on."""

from __future__ import annotations

import ast
import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from barnabas.broker.host.disk_calls import open_files_max
from barnabas.broker.host.sockets import Listening
from barnabas.simulator.plan import SEVERAL, draw
from barnabas.simulator.run import play
from barnabas.simulator.surroundings import REPLACED
from tests.house.test_rules import PACKAGE, imports_of, modules, name_of

OUTSIDE = {"time", "socket", "threading", "random", "secrets", "signal", "select", "multiprocessing", "fcntl", "mmap"}
SHIPPED = ("broker", "net", "client")

UNTOUCHED = {
    "barnabas.broker.host.http": "dates the answers to HTTP, which nobody speaks here",
    "barnabas.broker.host.progress": "asks a socket whether it is closed, where there is one",
    "barnabas.broker.host.receive": "memory for a large frame; what is in it comes from the world",
    "barnabas.broker.host.unsent": "has a socket forget what it holds, where there is one",
    "barnabas.broker.host.vigil": "the loop stays awake in a process alone, which allows it",
    "barnabas.broker.pages": "memory alone, which is zeros",
    "barnabas.client.futures": "waits on threads for blocking callers alone",
    "barnabas.client.leaving": "signals are the blocking forms'",
    "barnabas.client.loop_thread": "the thread of the blocking forms",
    "barnabas.client.producer": "the blocking form",
    "barnabas.client.sent_columns": "columns are not sent here, and its waits are the blocking form's",
    "barnabas.net.host.addresses": "addresses here are numbers: nobody is asked for a name",
    "barnabas.net.host.keepalive": "sets options of a socket; the network of a world asks as they say",
    "barnabas.net.host.transport": "runs; sizes the buffers of a socket, where there is one",
}
"""Shipped modules that could ask the machine, and why they do not."""


PASSED_BY = {open_files_max.__code__, Listening.handles.fget.__code__}  # type: ignore[attr-defined]
"""Asked by every host: how many files there may be, which is not used here, and which sockets it was given: none."""


def touches_the_machine(path: Path) -> bool:
    return any(name.split(".")[0] in OUTSIDE for name in imports_of(ast.parse(path.read_text())))


def test_whatever_could_ask_the_machine_is_replaced_or_accounted_for() -> None:
    found = {name_of(path) for place in SHIPPED for path in modules(place) if touches_the_machine(path)}
    assert found - set(REPLACED) == set(UNTOUCHED)
    known = {name_of(path) for path in modules()}
    assert set(REPLACED) <= known
    assert not set(REPLACED) & set(UNTOUCHED)


def test_no_run_calls_into_what_is_replaced_and_all_else_is_what_is_shipped() -> None:
    called: set[str] = set()

    def profile(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code not in PASSED_BY:
            called.add(frame.f_globals.get("__name__", ""))

    plan = draw("9", 3000, SEVERAL)
    play(plan)  # loads what it needs
    sys.setprofile(profile)
    try:
        outcome = play(plan)
    finally:
        sys.setprofile(None)
    assert outcome.broken is None
    assert not called & set(REPLACED)
    for shipped in ("broker.host.channel", "broker.host.host", "broker.node.core", "net.host.connection"):
        assert f"barnabas.{shipped}" in called
    for shipped in ("host.peering", "host.peer_channel", "peers.way", "node.member", "replica.follower"):
        assert f"barnabas.broker.{shipped}" in called
    for shipped in ("net.host.transport", "client.async_producer", "client.async_consumer"):
        assert f"barnabas.{shipped}" in called
    assert PACKAGE.name == "barnabas"


@pytest.mark.parametrize(("seed", "brokers"), [("9", 1), ("11", SEVERAL)])
def test_a_run_asks_the_machine_for_neither_time_nor_chance_nor_sockets(
    seed: str, brokers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def watched(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            caller = sys._getframe(1).f_globals.get("__name__", "")
            if caller.startswith(("barnabas", "asyncio")):
                asked.append(f"{caller} asks {name}")
            return real(*args, **named)

        return call

    plan = draw(seed, 3000, brokers)
    play(plan)
    for module, names in {
        time: ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep"),
        os: ("urandom",),
        random: ("random", "randrange", "choice", "shuffle", "getrandbits", "SystemRandom"),
        socket: ("socket", "getaddrinfo", "create_connection"),
        threading: ("Thread",),
    }.items():
        for name in names:
            monkeypatch.setattr(module, name, watched(name, getattr(module, name)))
    play(plan)
    assert asked == []

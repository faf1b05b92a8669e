"""The benchmark of the MQTT bridge tells what was lost, and has a bar for memory."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from tests.benchmarks import rows_mqtt

COUNT = 1000


class Idle:
    """In a server's place: it uses no CPU, and memory as a test says."""

    name = "idle"

    def __init__(self, *own_mb: float) -> None:
        self._own_mb = iter(own_mb)

    def cpu_s(self) -> float:
        return 0.0

    def own_mb(self) -> float:
        return next(self._own_mb)


def through(monkeypatch: pytest.MonkeyPatch, qos: int, forwarded: int, dropped: int) -> str:
    """The note of a round, of which so much came through."""
    seconds = itertools.count()
    begin, end = {"forwarded": 5, "lost_qos0": 2}, {"forwarded": 5 + forwarded, "lost_qos0": 2 + dropped}
    counts = itertools.chain((begin,), itertools.repeat(end))
    clock = SimpleNamespace(monotonic=lambda: float(next(seconds)), sleep=lambda seconds: None)
    monkeypatch.setattr(rows_mqtt, "time", clock)
    monkeypatch.setattr(rows_mqtt, "_counts", lambda bridge: next(counts))
    monkeypatch.setattr(rows_mqtt, "_publish", lambda mosquitto, qos, count: None)
    server: Any = Idle()
    _, note = rows_mqtt._through(server, server, server, qos, COUNT)
    return note


@pytest.mark.parametrize(("forwarded", "dropped"), [(COUNT, 0), (900, 60)])
def test_the_round_of_qos_0_says_how_many_were_lost(
    monkeypatch: pytest.MonkeyPatch, forwarded: int, dropped: int
) -> None:
    note = through(monkeypatch, 0, forwarded, dropped)
    assert note.endswith(f"; {COUNT - forwarded} of 1,000 lost, {dropped} of them dropped by the bridge")


def test_a_round_of_qos_1_that_loses_one_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "lost" not in through(monkeypatch, 1, COUNT, 0)
    with pytest.raises(RuntimeError, match="1 of 1,000 messages of QoS 1 did not come through"):
        through(monkeypatch, 1, COUNT - 1, 0)


@pytest.mark.parametrize(("grown", "verdict"), [(1.9, "must"), (2.1, "MISSED")])
def test_memory_is_held_against_a_bar(monkeypatch: pytest.MonkeyPatch, grown: float, verdict: str) -> None:
    monkeypatch.setattr(rows_mqtt, "_through", lambda *arguments: (1.0, ""))
    bridge: Any = Idle(20.0, 20.0, 20.0, 20.0, 20.0, 20.0 + grown)
    row = rows_mqtt._memory(bridge, bridge, bridge)
    assert (row.must, row.verdict) == (2.0, verdict)

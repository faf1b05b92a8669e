"""The live view: a query's figures from Spark's progress, and a panel that stays where it is."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

import pyte
import pytest

from barnabas.demo.pulse import Pulse, sparkline
from barnabas.demo.screen import Screen


class Query:
    """A query as Spark shows it."""

    lastProgress: Any = None  # noqa: N815 - Spark's name

    def is_at(self, batch: int, offsets: dict[str, int], rate: float, took_ms: int) -> None:
        end = json.dumps({"$ids": {"flights": "x"}, "flights": offsets})
        self.lastProgress = {
            "batchId": batch, "processedRowsPerSecond": rate, "durationMs": {"triggerExecution": took_ms},
            "sources": [{"endOffset": end}],
        }  # fmt: skip


def test_a_pulse_tells_rate_lag_and_time() -> None:
    query = Query()
    pulse = Pulse("out", query)
    pulse.look(10)
    assert pulse.line() == "out   no micro-batch yet"
    query.is_at(0, {"0": 3, "1": 4}, 100.0, 200)
    pulse.look(10)
    assert (pulse.taken, list(pulse.lags), list(pulse.rates), list(pulse.times_ms)) == (7, [3.0], [100.0], [200.0])
    pulse.look(1_507)
    assert list(pulse.lags) == [1500.0], "more came in while the same micro-batch is the newest"
    query.is_at(1, {"0": 1000, "1": 500}, 2500.0, 50)
    pulse.look(1_507)
    assert list(pulse.lags) == [1500.0, 7.0]
    shown = pulse.line().split()
    assert shown == ["out", "2,500", "rows/s", "█", "7", "behind", "█", "micro-batch", "50", "ms", "█▂"]


@pytest.mark.parametrize(
    ("values", "bars"),
    [([], ""), ([0.0, 0.0], "  "), ([1.0, 2.0, 4.0, 8.0], "▁▂▄█"), ([float(n) for n in range(40)], None)],
)
def test_a_sparkline_is_as_wide_as_ever(values: list[float], bars: str | None) -> None:
    shown = sparkline(deque(values, maxlen=16))
    assert len(shown) == 16
    assert bars is None or shown == f"{bars:>16}"


def test_a_panel_stays_and_gives_way(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    screen = Screen()
    screen.live = True
    screen.step("begun")
    screen.progress(0.5, "half", ["one", "two"])
    screen.progress(1.0, "x" * 200, ["one", "three"])
    screen.step("done")
    terminal = pyte.Screen(80, 10)
    pyte.Stream(terminal).feed(capsys.readouterr().out.replace("\n", "\r\n"))
    lines = [line.rstrip() for line in terminal.display if line.strip()]
    assert [line.split("  ")[-1] for line in lines] == ["begun", "done"]
    screen.panel(["four", "five"])
    screen.table("rows", [{"a": 1}])
    pyte.Stream(terminal).feed(capsys.readouterr().out.replace("\n", "\r\n"))
    assert not [line for line in terminal.display if "four" in line or "five" in line]


def test_without_a_terminal_the_lines_come_with_every_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.progress(0.5, "half", ["one"])
    screen.progress(0.51, "a little more", ["two"])
    screen.panel(["three"])
    assert [line.strip() for line in capsys.readouterr().out.splitlines()] == ["50 %  half", "one"]

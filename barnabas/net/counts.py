"""What a client counts, under the names of Kafka's metrics and of librdkafka's statistics."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

log = logging.getLogger(__name__)

Metrics = dict[str, dict[str, float]]
"""Groups of figures, by Kafka's names. Totals count from the start of the client, rates are per second."""

_TOTAL: Final = "-total"


@dataclass(slots=True)
class Counts:
    """Totals of one client's connections and requests. Bytes are those of whole frames."""

    connections_made: int = 0
    connections_closed: int = 0
    requests: int = 0
    responses: int = 0
    bytes_out: int = 0
    bytes_in: int = 0


class Rates:
    """How fast totals grow: beside each `...-total` its `...-rate`, per second (Kafka's `Rate` over a `WindowedSum`).

    Time is cut into windows of `window_ms`. A rate covers those that overlap with the last `samples` windows' time, the
    present one included; where there were fewer yet, the missing ones count as windows in which nothing happened.
    Kafka begins a metric's first window with its first event, this one all of them with the client. A driver of the
    client's step, which is why nothing is counted twice: a window ends when its time is over.

    Args:
        look: the totals; others may stand among them.
    """

    def __init__(self, window_ms: int, samples: int, look: Callable[[], Metrics], now_ms: int) -> None:
        self._window_ms = window_ms
        self._samples = samples
        self._look = look
        self._windows: deque[tuple[int, Metrics]] = deque([(now_ms, {})], samples + 1)  # when it began, totals then

    def drive(self, now_ms: int) -> int:
        """Begin a window if it is time. Returns when the next begins (absolute ms)."""
        if now_ms - self._windows[-1][0] >= self._window_ms:
            self._windows.append((now_ms, {name: _totals(group) for name, group in self._look().items()}))
        return self._windows[-1][0] + self._window_ms

    def figures(self, now_ms: int) -> Metrics:
        """All there is to see, with the rates. May be called from any thread."""
        begun_ms, before = self._windows[0]
        elapsed_ms = now_ms - begun_ms
        elapsed_ms += max(self._samples - 1 - elapsed_ms // self._window_ms, 0) * self._window_ms
        figures = self._look()
        for name, group in figures.items():
            was = before.get(name, {})
            for total, value in _totals(group).items():
                grown = value - was.get(total, 0.0)
                group[total.removesuffix(_TOTAL) + "-rate"] = grown * 1000 / elapsed_ms if elapsed_ms else 0.0
        return figures


def _totals(group: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in group.items() if name.endswith(_TOTAL)}


class Statistics:
    """Tells `call` what `look` finds, every so many ms. A driver of the client's step.

    What `call` raises to leave (`sys.exit`) goes to `leave`.
    """

    def __init__(
        self,
        interval_ms: int,
        call: Callable[[dict[str, Any]], Any],
        look: Callable[[int], dict[str, Any]],
        leave: Callable[[BaseException], None],
    ) -> None:
        self._interval_ms = interval_ms
        self._call = call
        self._look = look
        self._leave = leave
        self._due_ms: int | None = None

    def drive(self, now_ms: int) -> int:
        """Tell if it is time. Returns when it is next (absolute ms)."""
        if self._due_ms is None:
            self._due_ms = now_ms + self._interval_ms
        elif self._due_ms <= now_ms:
            self._due_ms = now_ms + self._interval_ms
            try:
                self._call(self._look(now_ms))
            except Exception:
                log.exception("stats_cb failed")
            except BaseException as error:
                self._leave(error)
        return self._due_ms

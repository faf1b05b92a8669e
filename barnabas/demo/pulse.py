"""How the queries fare, from Spark's own progress: rows a second, records behind, and what a micro-batch takes."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

_BARS: Final = " ▁▂▃▄▅▆▇█"
_KEPT: Final = 16
"""So many micro-batches stand in a picture."""


class Query(Protocol):
    """What is asked of a `StreamingQuery`."""

    @property
    def lastProgress(self) -> Any:  # noqa: N802 - Spark's name
        """The newest micro-batch's figures, None before the first."""


@dataclass
class Pulse:
    """One query's newest figures, and those of the micro-batches before."""

    name: str
    query: Query
    taken: int = 0
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    lags: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    times_ms: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))
    _batch: int = -1

    def look(self, produced: int) -> None:
        """Take over what Spark knows now; `produced` records are in the topics of this query."""
        progress = self.query.lastProgress
        if progress is None:
            return
        self.taken = taken(progress)
        lag = float(max(produced - self.taken, 0))
        if progress["batchId"] == self._batch:
            self.lags[-1] = lag  # the batch under way does not end, and more comes in
            return
        self._batch = progress["batchId"]
        self.rates.append(float(progress["processedRowsPerSecond"] or 0))
        self.times_ms.append(float(progress["durationMs"].get("triggerExecution", 0)))
        self.lags.append(lag)

    def line(self) -> str:
        """One line: what it does now, and how that went of late."""
        if not self.rates:
            return f"{self.name:<5} no micro-batch yet"
        return (
            f"{self.name:<5} {self.rates[-1]:>8,.0f} rows/s {sparkline(self.rates)}  "
            f"{self.lags[-1]:>7,.0f} behind {sparkline(self.lags)}  "
            f"micro-batch {self.times_ms[-1]:>5,.0f} ms {sparkline(self.times_ms)}"
        )


def taken(progress: Mapping[str, Any]) -> int:
    """Records a query has been through since the beginning of its topics."""
    (source,) = progress["sources"]
    end = json.loads(source["endOffset"])
    return sum(offset for topic, at in end.items() if not topic.startswith("$") for offset in at.values())


def sparkline(values: deque[float]) -> str:
    """The newest values as bars below the largest of them; always as wide."""
    most = max(values, default=0.0)
    bars = "".join(_BARS[round(value / most * 8) if most else 0] for value in values)
    return f"{bars:>{_KEPT}}"

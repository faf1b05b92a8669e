"""Rows of the longest step of the loop that the largest request of each API leads to, in either dialect."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.report import Row
from tests.benchmarks.servers import Peers
from tests.hostile.steps import DIALECTS, LARGEST, STEP_MS_MAX, largest_frame, least, longest_ms, prepared

GOES = 3
AIM_MS = 5.0


def rows(_peers: Peers) -> Iterator[Row]:
    """Measure a broker within this process."""
    with prepared() as (port, meter):
        for name in LARGEST:
            found = []
            for dialect in DIALECTS.values():
                data = largest_frame(name, dialect)
                go = lambda data=data: longest_ms(port, meter, data)  # noqa: E731
                found.append(least(go, enough=AIM_MS, goes=GOES))
            yield Row(f"longest step, {name}", "ms", max(found), must=STEP_MS_MAX, aim=AIM_MS, better="less")

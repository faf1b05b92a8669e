"""Rows of the longest step of the loop that the largest request of each API leads to, in either dialect, or sent on.

And of what it leads to where many partitions lie, on a broker that stands alone and on three: made, deleted, idle;
where one log has thousands of segments; and of how long a process works before a newcomer has its answer, where
thousands of others ask for ApiVersions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tests.benchmarks.report import Row
from tests.benchmarks.servers import Peers
from tests.hostile import long, many, newcomer
from tests.hostile.meter import Meter
from tests.hostile.steps import DIALECTS, LARGEST, SENT_ON, STEP_MS_MAX, largest_frame, least, longest_ms, prepared

GOES = 3
AIM_MS = 5.0
NEWCOMER_MS_MAX = 200.0
NEWCOMER_AIM_MS = 100.0


def rows(_peers: Peers) -> Iterator[Row]:
    """Measure a broker within this process."""
    with prepared() as (port, meter):
        for name in LARGEST:
            found = []
            for dialect in DIALECTS.values():
                data = largest_frame(name, dialect)
                found.append(_least(port, meter, data))
            yield _row(name, max(found))
        for name in SENT_ON:
            data = largest_frame(name, DIALECTS["kafka"])
            yield _row(f"{name}, sent on by another broker", _least(port, meter, data, sent_on=True))
    yield from newcomers()
    for scenes in (many, long):
        for name, measured in scenes.longest(goes=GOES):
            yield _row(name, measured)


def newcomers() -> Iterator[Row]:
    """The loop's CPU time until a newcomer is answered: the least of some goes."""
    if not sys.platform.startswith("linux"):
        return  # which alone tells the time of a thread of another process
    measures = {
        "that have asked before": lambda: newcomer.behind_one_moment_ms(asked_before=True),
        "that ask for the first time": lambda: newcomer.behind_one_moment_ms(asked_before=False),
        "that ask again at once": newcomer.behind_those_that_ask_again_ms,
    }
    for what, measure in measures.items():
        found = least(measure, enough=0.0, goes=GOES)
        name = f"the broker's time until a newcomer is answered, behind {newcomer.COUNT} {what}"
        yield Row(name, "ms", found, must=NEWCOMER_MS_MAX, aim=NEWCOMER_AIM_MS, better="less")


def _least(port: int, meter: Meter, data: bytes, *, sent_on: bool = False) -> float:
    return least(lambda: longest_ms(port, meter, data, sent_on=sent_on), enough=AIM_MS, goes=GOES)


def _row(name: str, found: float) -> Row:
    return Row(f"longest step, {name}", "ms", found, must=STEP_MS_MAX, aim=AIM_MS, better="less")

"""Extreme requests against a real process, as one of the long testers: `./dev soak --only hostile`.

Its data lie in a directory, and old records go, so that what grows is the broker. Every now and then its memory is
told; at the end, by how much it grew from the second quarter of the time to the last.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tests.broker.host import bystander
from tests.broker.host.test_siege import memory, siege, state
from tests.cli.process import Process
from tests.hostile.curve import GROWTH_BYTES_MAX, MB, Curve, Point, rest_s
from tests.hostile.run import Played, play

OPTIONS = (
    "log.retention.bytes=2097152",
    "log.segment.bytes=1048576",
    "log.retention.check.interval.ms=10000",
)
REST_S_MAX = 1.0
LOG_BYTES_PER_S = 1000
"""Faults are told five times a minute for an address, and some are long."""


def soak(seconds: float, seed: str, share: float = 1.0) -> int:
    """Play for so long; the number of faults, at which it ends. `share`: of one processor, the broker's work in it."""
    options = [word for one in OPTIONS for word in ("--set", one)]
    log_bytes = 200_000 + int(seconds * LOG_BYTES_PER_S)
    try:
        with tempfile.TemporaryDirectory() as directory:
            with siege(*options, data_dir=Path(directory), log_bytes=log_bytes) as process:
                watch = Watch(process, seconds, share)
                played = play(process.port, int(seed), seconds, watch.after)
            watch.tell(played)
    except (AssertionError, ConnectionError) as error:
        print(f"hostile: {error}\nrepeat it: ./dev soak --only hostile --seed {seed}\n", flush=True)
        return 1
    print(f"hostile: {played}; the broker stood")
    return 0


class Watch:
    """Takes the points of a curve, and rests."""

    def __init__(self, process: Process, seconds: float, share: float) -> None:
        self._process = process
        self._share = share
        self._began_s = time.monotonic()
        self._curve = Curve(seconds)

    def after(self, played: Played) -> None:
        """Called after each request."""
        while True:
            passed_s = time.monotonic() - self._began_s
            if self._curve.is_due(passed_s):
                held = int(state(self._process)["held_bytes"])
                self._curve.points.append(Point(passed_s, memory(self._process, "VmRSS"), held))
                print(f"hostile: {self._curve.points[-1]}  {played}", flush=True)
            ran = bystander.threads(self._process.popen.pid).values()
            worked_s = time.process_time() + sum(one.ran_s for one in ran)
            left_s = rest_s(worked_s, passed_s, self._share)
            if left_s <= 0:
                return
            time.sleep(min(left_s, REST_S_MAX))

    def tell(self, played: Played) -> None:
        """Say by how much memory grew.

        Raises:
            AssertionError: by too much.
        """
        growth = self._curve.growth()
        if growth is None:
            print("hostile: too short a time to say whether memory grows")
            return
        print(f"hostile: {growth / MB:+.1f} MB from the second quarter to the last")
        assert growth <= GROWTH_BYTES_MAX, f"memory grew by {growth // MB} MB"

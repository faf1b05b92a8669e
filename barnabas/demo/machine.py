"""What this machine tells of itself, now: load of each core, memory, network, as numbers between two looks.

Where there is no /proc (macOS), it is the load average and what this process works.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_STAT: Final = Path("/proc/stat")
_MEMORY: Final = Path("/proc/meminfo")
_NETWORK: Final = Path("/proc/net/dev")
CORES_MAX: Final = 8


class Machine:
    """`look` gives what there is to say since the last look."""

    def __init__(self) -> None:
        self._cores: dict[str, tuple[int, int]] = {}
        self._bytes: int | None = None
        self._looked_s = time.monotonic()
        self._worked_s = time.process_time()

    def look(self) -> dict[str, float]:
        """Numbers by name: `cpu0` ... and `memory` in percent, `network` in KB/s, `load` in processes."""
        now_s = time.monotonic()
        elapsed_s, self._looked_s = max(now_s - self._looked_s, 1e-3), now_s
        found = {"load": os.getloadavg()[0]}
        if not _STAT.exists():
            worked_s = time.process_time()
            found["cpu0"] = min(100.0, 100 * (worked_s - self._worked_s) / elapsed_s)
            self._worked_s = worked_s
            return found
        found |= self._load_of_cores(_STAT.read_text())
        found["memory"] = memory_percent(_MEMORY.read_text())
        total = network_bytes(_NETWORK.read_text())
        if self._bytes is not None:
            found["network"] = max(total - self._bytes, 0) / 1024 / elapsed_s
        self._bytes = total
        return found

    def _load_of_cores(self, text: str) -> Mapping[str, float]:
        found: dict[str, float] = {}
        for name, (busy, total) in core_ticks(text).items():
            before = self._cores.get(name)
            if before is not None and total > before[1]:
                found[name] = 100 * (busy - before[0]) / (total - before[1])
            self._cores[name] = busy, total
        return found


def core_ticks(text: str) -> dict[str, tuple[int, int]]:
    """Busy and all ticks of each core since the start, of `/proc/stat` (proc(5): user nice system idle iowait ...)."""
    found: dict[str, tuple[int, int]] = {}
    for line in text.splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name != "cpu" and len(found) < CORES_MAX:
            ticks = [int(field) for field in fields[:8]]
            found[name] = sum(ticks) - ticks[3] - ticks[4], sum(ticks)
    return found


def memory_percent(text: str) -> float:
    """What of the memory is not available, of `/proc/meminfo`."""
    size = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines() if ":" in line}
    return 100 * (1 - size["MemAvailable"] / size["MemTotal"])


def network_bytes(text: str) -> int:
    """Bytes in and out over all interfaces, of `/proc/net/dev`; the machine's own loop counts once."""
    total = 0
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        fields = rest.split()
        total += int(fields[0]) + (0 if name.strip() == "lo" else int(fields[8]))
    return total

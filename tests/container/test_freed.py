"""What the image's environment does to memory that is freed; no container is needed to see it."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MIB = 1 << 20

PROGRAM = """
import mmap
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE
before = resident()
large = b"x" * (20 << 20)  # whose end has the C library keep all that is smaller
del large
living = []
for _ in range(10):
    large = b"x" * (8 << 20)
    living.append(bytes(600))  # behind it in the heap
    del large
    living.append(bytes(7 << 20)[:600])
print(resident() - before)
"""


def grown(**more: str) -> int:
    """What a process has grown by (bytes) once ten large buffers are freed between small ones that live."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env={**settings, **more}
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other settings")
def test_large_buffers_go_back_to_the_system_as_soon_as_they_are_freed() -> None:
    (found,) = re.findall(r"^ENV .*\bMALLOC_MMAP_THRESHOLD_=(\d+)", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert grown(MALLOC_MMAP_THRESHOLD_=found) < 2 * MIB
    assert grown() > 6 * MIB, "the C library does so by itself now: the setting may go"

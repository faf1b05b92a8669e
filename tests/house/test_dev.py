"""`./dev test` with a Python that only notes how it was called: what is shared out to several processes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.house.test_ci import ROOT, program

SHARED = ["-n", "logical", "--maxprocesses", "2"]
PYTHON = """#!/bin/sh
[ "$1" = -c ] && echo stamp || echo "$@"
"""


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    """The script with an environment that lacks nothing."""
    shutil.copy(ROOT / "dev", tmp_path)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    program(tmp_path / ".venv" / "bin" / "python", PYTHON)
    for extra in ("demo", "dev"):
        (tmp_path / ".venv" / f".barnabas-{extra}").write_text("stamp")
    return tmp_path / "dev"


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ([], SHARED),
        (["--strict"], ["--strict-skips", *SHARED]),
        (["--shuffle=3", "--strict"], ["--strict-skips", "--shuffle=3", *SHARED]),
        (["-n", "0"], ["-n", "0"]),
        (["tests/broker/log", "-x"], ["tests/broker/log", "-x"]),
        (["--strict", "-k", "wheel"], ["--strict-skips", "-k", "wheel"]),
        (["--pdb"], ["--pdb"]),
    ],
)
def test_the_whole_is_shared_out_and_what_is_named_is_not(dev: Path, given: list[str], passed: list[str]) -> None:
    done = subprocess.run(
        [str(dev), "test", *given], capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"}
    )
    assert done.stdout.split() == ["-m", "pytest", "--hypothesis-profile=same", *passed]

"""`./dev test` and `./dev check` with tools that only note how they were called: what is shared out, what is told."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.house.test_ci import ROOT, program

SHARED = ["-n", "auto"]
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


RULES, PAGES = "-m pytest -q tests/house --ignore=tests/house/test_pages.py", "-m pytest -q tests/house/test_pages.py"
STEPS = {
    "format": "format --check .",
    "lint": "check .",
    "types": "",
    "floors": "",
    "house rules": RULES,
    "pages": PAGES,
}


@pytest.mark.parametrize("wrong", [*STEPS, ""])
def test_every_step_of_the_check_is_taken_and_what_fails_is_told(dev: Path, wrong: str) -> None:
    tools = {"format": "ruff", "lint": "ruff", "types": "mypy", "floors": "lint-imports"}
    for step, tool in {**tools, "house rules": "python"}.items():
        fails = f'[ "$*" != "{STEPS.get(wrong)}" ]' if tools.get(wrong, "python") == tool else "true"
        stamp = '[ "$1" = -c ] && echo stamp && exit' if step == "house rules" else ""
        program(dev.parent / ".venv" / "bin" / tool, f'#!/bin/sh\n{stamp}\necho "{tool} $@"\n{fails}\n')
    done = subprocess.run(
        [str(dev), "check"], capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"}
    )
    told = [line for line in done.stdout.splitlines() if line.startswith("check: ")]
    assert told == [f"check: {step:<14}{'FAILED' if step == wrong else 'ok'}" for step in STEPS]
    assert (done.returncode, done.stderr) == ((2, "dev: check failed\n") if wrong else (0, ""))
    if wrong:
        assert f"{tools.get(wrong, 'python')} {STEPS[wrong]}".strip() in done.stdout, "with what it said"

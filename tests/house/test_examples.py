"""Every program in examples/ runs as it stands, and prints what its head says."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted((ROOT / "examples").glob("*.py"))


def promised(path: Path) -> str:
    """What stands under "Prints:" in a program's docstring."""
    head = ast.get_docstring(ast.parse(path.read_text()), clean=False) or ""
    _, found, text = head.partition("Prints:\n")
    assert found, f"{path.name} does not say what it prints"
    return textwrap.dedent(text)


@pytest.mark.slow
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_it_prints_what_it_promises(path: Path) -> None:
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == promised(path)


def test_there_are_examples() -> None:
    assert len(PROGRAMS) >= 3

"""Strict mode: a skip is a failure, save a container test's where no engine can run; the last line counts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SKIPS = """
import pytest

@pytest.mark.docker
@pytest.mark.skipif(True, reason="no Docker engine answers")
def test_without_an_engine(): ...

@pytest.mark.docker
def test_for_another_reason(): pytest.skip("the port is in use")

def test_not_of_containers(): pytest.skip("docker is not on the path")

def test_that_passes(): ...
"""


def outcome(directory: Path, *options: str) -> tuple[int, list[str]]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-c", str(ROOT / "pyproject.toml")]
    command += ["-p", "no:cacheprovider", "--rootdir", str(directory), str(directory), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize("processes", [(), ("-n", "2")])
def test_the_last_line_counts_and_strict_mode_excuses_a_missing_engine_alone(
    tmp_path: Path, processes: tuple[str, ...]
) -> None:
    (tmp_path / "test_skips.py").write_text(SKIPS)
    code, lines = outcome(tmp_path, *processes)
    assert (code, lines[-1]) == (0, "tests: 1 passed, 0 failed, 3 skipped")
    assert any("the port is in use" in line for line in lines), "skips are named"
    code, lines = outcome(tmp_path, "--strict-skips", *processes)
    assert (code, lines[-1]) == (1, "tests: 1 passed, 0 failed, 3 skipped")
    forbidden = [line.rpartition("::")[2] for line in lines if line.startswith("strict: ")]
    assert forbidden == ["test_for_another_reason", "test_not_of_containers"]
    (tmp_path / "test_skips.py").write_text(SKIPS[: SKIPS.index("@pytest.mark.docker\ndef")])
    assert outcome(tmp_path, "--strict-skips", *processes)[0] == 0


def test_several_processes_strictly_forbid_a_file_that_is_skipped_whole(tmp_path: Path) -> None:
    (tmp_path / "test_absent.py").write_text('import pytest\npytest.importorskip("no_such_module")\n')
    (tmp_path / "test_present.py").write_text("def test_that_passes(): ...\n")
    code, lines = outcome(tmp_path, "--strict-skips", "-n", "2")
    assert (code, lines[-1]) == (1, "tests: 1 passed, 0 failed, 1 skipped")

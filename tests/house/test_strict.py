"""Strict mode: a skip is a failure, save a container test's where no engine can run; the last line counts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


def test_the_last_line_counts_and_strict_mode_excuses_a_missing_engine_alone(tmp_path: Path) -> None:
    (tmp_path / "test_skips.py").write_text(SKIPS)
    code, lines = outcome(tmp_path)
    assert (code, lines[-1]) == (0, "tests: 1 passed, 0 failed, 3 skipped")
    assert any("the port is in use" in line for line in lines), "skips are named"
    code, lines = outcome(tmp_path, "--strict-skips")
    assert (code, lines[-1]) == (1, "tests: 1 passed, 0 failed, 3 skipped")
    forbidden = [line.rpartition("::")[2] for line in lines if line.startswith("strict: ")]
    assert forbidden == ["test_for_another_reason", "test_not_of_containers"]
    (tmp_path / "test_skips.py").write_text(SKIPS[: SKIPS.index("@pytest.mark.docker\ndef")])
    assert outcome(tmp_path, "--strict-skips")[0] == 0


def test_several_processes_count_and_forbid_the_same_and_a_file_that_is_skipped_whole(tmp_path: Path) -> None:
    (tmp_path / "test_skips.py").write_text(SKIPS)
    (tmp_path / "test_absent.py").write_text('import pytest\npytest.importorskip("no_such_module")\n')
    code, lines = outcome(tmp_path, "--strict-skips", "-n", "2")
    assert (code, lines[-1]) == (1, "tests: 1 passed, 0 failed, 4 skipped")
    forbidden = sorted(line.rpartition("::")[2].rpartition(" ")[2] for line in lines if line.startswith("strict: "))
    assert forbidden == ["test_absent.py", "test_for_another_reason", "test_not_of_containers"]

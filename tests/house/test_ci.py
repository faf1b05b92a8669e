"""`.ci/run` with a `dev` that only notes how it was called: what runs, in which order, and what the end says."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLOSING = "tests: 3 passed, 0 failed, 0 skipped"
ASKED = "2 scenarios in 1 s, 0 to look at"
DEV = f"""#!/bin/sh
echo "$@" >>calls
[ "$1" != test ] || echo "{CLOSING}"
[ "$1" != oracle ] || echo "{ASKED}"
eval "exit \\${{ENDS_$1:-0}}"
"""


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A checkout of two files, and a path on which nothing but a shell's tools is found."""
    checkout = tmp_path / "checkout"
    (checkout / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", checkout / ".ci" / "run")
    program(checkout / "dev", DEV)
    (tmp_path / "bin").mkdir()
    for tool in ("bash", "sh", "dirname", "mktemp", "cat", "rm"):
        found = shutil.which(tool)
        assert found
        (tmp_path / "bin" / tool).symlink_to(found)
    return checkout


def have(place: Path, *tools: str) -> None:
    for tool in tools:
        program(place.parent / "bin" / tool, "#!/bin/sh\nexit 0\n")


def run(place: Path, **ends: int) -> tuple[int, list[str], list[str]]:
    """The exit code, the lines that were said, and what `dev` was asked."""
    environment = {"PATH": str(place.parent / "bin")} | {f"ENDS_{name}": str(code) for name, code in ends.items()}
    done = subprocess.run(
        [os.fspath(place / ".ci" / "run")], env=environment, capture_output=True, text=True, check=False, timeout=30
    )
    return done.returncode, done.stdout.splitlines(), (place / "calls").read_text().splitlines()


def test_the_oracle_runs_beside_the_check_and_the_tests_after_both(place: Path) -> None:
    have(place, "java", "mvn", "docker")
    code, said, calls = run(place)
    assert code == 0
    assert calls[:2] == ["tools", "run true"]
    assert sorted(calls[2:4]) == ["check", "oracle --no-page"]
    assert calls[4:] == ["test --strict"]
    assert [line for line in said if line in ("ci: check", CLOSING, "ci: oracle", ASKED)] == [
        "ci: check",
        CLOSING,
        "ci: oracle",
        ASKED,
    ]
    assert said[-1] == "ci: could not be run here: nothing"


def test_what_could_not_be_run_is_said_at_the_end(place: Path) -> None:
    code, said, calls = run(place)
    assert code == 0
    assert calls == ["tools", "check", "test --strict"]
    assert said[-1] == (
        "ci: could not be run here: the container tests (no container engine answers); "
        "the oracle (Java or Maven is not here)"
    )


@pytest.mark.parametrize("name", ["check", "test", "oracle"])
def test_what_fails_keeps_nothing_else_from_running_and_fails_the_whole(place: Path, name: str) -> None:
    have(place, "java", "mvn", "docker")
    code, said, calls = run(place, **{name: 1})
    assert code == 1
    assert len(calls) == 5
    assert said[-2:] == [
        f"ci: failed: {'tests' if name == 'test' else name}",
        "ci: could not be run here: nothing",
    ]


def test_an_apache_kafka_that_cannot_be_had_is_said_and_is_no_failure(place: Path) -> None:
    have(place, "java", "mvn", "docker")
    code, said, _ = run(place, oracle=3)
    assert code == 0
    assert said[-1] == "ci: could not be run here: the oracle (Apache Kafka could not be had)"

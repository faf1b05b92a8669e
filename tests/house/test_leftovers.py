"""A file of tests that leaves something behind fails, and the test is named that left it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.house.test_strict import outcome

LEAVING = {
    "thread": "threading.Thread(target=threading.Event().wait, name='asks-on', daemon=True).start()",
    "loop": "kept.append(asyncio.new_event_loop())",
    "socket": "kept.append(socket.create_server(('127.0.0.1', 0)))",
    "process": "kept.append(subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE))",
    "unwaited": "kept.append(subprocess.Popen(['true']))",
    "file": "tempfile.mkstemp()",
    "level": "logging.getLogger('barnabas.x').setLevel('ERROR')",
}
CLEAN = {
    "clean": """
@pytest.fixture(scope="session")
def of_all():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server

@pytest.fixture(scope="module")
def of_file():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server

def test_first(): ...
def test_what_fixtures_hold(of_all, of_file, tmp_path): (tmp_path / "mine").write_text("x")
def test_who_ends_by_itself():
    told = threading.Event()
    threading.Thread(target=told.wait).start()
    told.set()
""",
    "failed": """
def test_failed_already():
    server = socket.create_server(("127.0.0.1", 0))
    assert not server
""",
}
BEGIN = "import asyncio, logging, socket, subprocess, sys, tempfile, threading\nimport pytest\nkept = []\n"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone tells of processes and open files")
def test_a_file_that_leaves_something_fails_and_its_test_is_named(tmp_path: Path) -> None:
    for name, what in LEAVING.items():
        text = f"{BEGIN}def test_clean(): ...\ndef test_leaves():\n    {what}\ndef test_later(): ...\n"
        (tmp_path / f"test_{name}.py").write_text(text)
    for name, text in CLEAN.items():
        (tmp_path / f"test_{name}.py").write_text(BEGIN + text)
    (tmp_path / "test_zz.py").write_text("def test_is_not_blamed(): ...")
    told_only = tmp_path / "tests" / "spark"
    told_only.mkdir(parents=True)
    (told_only / "test_told.py").write_text(f"{BEGIN}def test_leaves(): {LEAVING['file']}\n")
    code, lines = outcome(tmp_path, "--patience", "0.3")
    assert code == 1
    (told,) = (line for line in lines if line.startswith("XFAIL "))
    assert "left behind: " in told
    assert told.endswith("there since tests/spark/test_told.py::test_leaves")
    since = [line.rpartition(": there since ")[2] for line in lines if ": there since " in line and line != told]
    assert set(since) == {f"test_{name}.py::test_leaves" for name in LEAVING}, lines
    assert not [line for line in lines if "unclosed" in line], "what a failed test leaves is nobody's"
    others = [line for line in lines if line.startswith(("ERROR", "FAILED"))]
    assert len(others) == len(LEAVING) + 1
    assert lines[-1] == "tests: 26 passed, 8 failed, 0 skipped"

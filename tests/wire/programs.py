"""Clients in other languages: each has a small program in `clients/`, built once, and asked over a pipe.

    with Program("sarama", "127.0.0.1:9092") as sarama:
        told = sarama.ask("admin", topic="t")

A question is a line of JSON, and so is its answer. What is built is kept in `~/.cache/barnabas/clients`
(`$XDG_CACHE_HOME` counts), by the checksum of what it is made from: nothing is asked of a registry twice.
Packages come at the versions of the lock files beside the programs. `./dev tools` builds all of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.oracle.kafka import KafkaUnavailable, java, libs, streams_libs

SOURCES = Path(__file__).parent / "clients"
ANSWER_SECONDS_MAX = 40.0
"""A program's own patience is 25 s; it says then what did not come."""


class ClientUnavailable(RuntimeError):
    """This machine cannot build or run a client's program; the text says what is missing."""


def _found(tool: str, package: str) -> str:
    path = shutil.which(tool)
    if path is None:
        raise ClientUnavailable(f"{tool} is not here: install {package} (./dev tools tries)")
    return path


def _run(command: list[str], directory: Path) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        text = (done.stdout + done.stderr)[-2000:]
        raise ClientUnavailable(f"{' '.join(command[:2])} failed for the client in {directory}:\n{text}")


def _build_go(source: Path, place: Path) -> None:
    _run([_found("go", "Go 1.26 or later"), "build", "-o", str(place / "program"), "."], source)


def _build_node(source: Path, place: Path) -> None:
    npm = _found("npm", "Node 18 or later with npm")
    for path in source.iterdir():
        shutil.copy(path, place)
    _run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], place)


def _jars(of: Callable[[], Path] = libs) -> Path:
    try:
        return of()
    except KafkaUnavailable as missing:
        raise ClientUnavailable(str(missing)) from missing


def _class_path(streams: bool) -> list[str]:
    return [f"{_jars(of)}/*" for of in ((libs, streams_libs) if streams else (libs,))]


def _build_java(source: Path, place: Path) -> None:
    javac = _found("javac", "a Java 17 development kit")
    jars = os.pathsep.join(_class_path((source / "Streams.java").is_file()))
    _run([javac, "-cp", jars, "-d", str(place), *map(str, sorted(source.glob("*.java")))], source)


def _command_java(place: Path, main: str = "Matrix") -> list[str]:
    jars = os.pathsep.join([str(place), *_class_path(main == "Streams")])
    return [java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", jars, main]


_KINDS: dict[str, tuple[Callable[[Path, Path], None], Callable[[Path], list[str]]]] = {
    "go.mod": (_build_go, lambda place: [str(place / "program")]),
    "package.json": (_build_node, lambda place: [_found("node", "Node 18 or later"), str(place / "main.js")]),
    "Matrix.java": (_build_java, _command_java),
    "Streams.java": (_build_java, lambda place: _command_java(place, "Streams")),
}
"""By a file that tells the kind: how a program is built into a folder, and the command that runs it from there."""


def names() -> list[str]:
    """The clients that have a program here."""
    return sorted(path.name for path in SOURCES.iterdir() if path.is_dir())


def built(name: str) -> list[str]:
    """The command that runs a client's program, which is built first if it is not kept.

    Raises:
        ClientUnavailable: its compiler, its package manager or its packages are not to be had.
    """
    source = SOURCES / name
    files = sorted(path for path in source.iterdir() if path.is_file())
    (build, command), *_ = [kind for marker, kind in _KINDS.items() if source / marker in files]
    checksum = hashlib.sha256()
    for path in files:
        checksum.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "barnabas" / "clients"
    place = kept / f"{name}-{checksum.hexdigest()[:16]}"
    if not place.is_dir():
        kept.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept) as work:
            made = Path(work, "made")
            made.mkdir()
            build(source, made)
            with contextlib.suppress(FileExistsError, OSError):  # another process may have been faster
                made.rename(place)
    return command(place)


class Program:
    """A client's program as a child process, with a broker to ask; a context manager that starts and ends it.

    Raises:
        ClientUnavailable: it cannot be built or run here.
    """

    def __init__(self, name: str, address: str, *arguments: str) -> None:
        self._name = name
        self._command = [*built(name), address, *arguments]

    def __enter__(self) -> Self:
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(10 if error is None else 0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        """Its answer.

        Raises:
            AssertionError: it failed, ended or said nothing in time; the text has what it said of it.
        """
        assert self._process.stdin
        question = {"do": what, **arguments}
        with contextlib.suppress(BrokenPipeError):  # it has ended: no answer comes either
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
        line = self._line()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "no answer came"}
        assert "error" not in answer, f"{self._name}, {question}: {answer['error']}\n{self._said()}"
        return answer

    def _line(self) -> bytes:
        assert self._process.stdout
        descriptor, line = self._process.stdout.fileno(), b""
        late = time.monotonic() + ANSWER_SECONDS_MAX
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([descriptor], [], [], max(0.0, late - time.monotonic()))
            piece = os.read(descriptor, 1 << 16) if ready else b""
            if not piece:
                return b""
            line += piece
        return line

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-3000:]


def main() -> int:
    """Build all; what cannot be had is said, and the ending is 1 then."""
    failed = 0
    for name in names():
        try:
            built(name)
        except ClientUnavailable as missing:
            print(f"dev: the client {name} could not be had: {missing}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())

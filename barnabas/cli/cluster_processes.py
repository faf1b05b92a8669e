"""The processes of a cluster on this machine, by the files in its directory (`cluster_files`), whoever started them.

A number in `broker-N.pid` may be another process' by now. It is the broker's where its command line names the broker's
own settings, which nothing else does; one that has ended has no command line, also while nobody has asked for its code.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.broker.raft import kept
from barnabas.broker.raft.kept import Kept, QuorumStateError
from barnabas.cli.cluster_files import CONTROLLER, Place, keep, private

STOP_S_MAX: Final = 10.0
READY_S_MAX: Final = 60.0
LOOK_S: Final = 0.05
"""How often a process is looked at whose end is waited for."""


class Running(NamedTuple):
    """A broker's process. `paused`: it was stopped by a signal (SIGSTOP), and goes on with SIGCONT."""

    pid: int
    paused: bool


def stem(directory: Path, node_id: int) -> str:
    """How the names of all files of a broker begin."""
    return str(directory / f"broker-{node_id}")


def find(directory: Path, node_id: int) -> Running | None:
    """The process of a broker; None where it does not run."""
    try:
        pid = int(Path(f"{stem(directory, node_id)}.pid").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    line, state = _look(pid) if pid > 0 else ("", "")
    return Running(pid, state == "T") if f" --config {stem(directory, node_id)}.properties " in line else None


def _look(pid: int) -> tuple[str, str]:
    """The command line of a process and its state, as `ps` writes it; nothing of one that is not there."""
    if sys.platform == "linux":
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="surrogateescape")
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
        except OSError:
            return "", ""
        return line, state.strip()[:1]
    command = ["ps", "-ww", "-o", "stat=,args=", "-p", str(pid)]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603 - a number
    return told, told[:1]


def launch(directory: Path, place: Place, settings: Sequence[str]) -> subprocess.Popen[str]:
    """Start a broker, which says one line on its output once it serves; it outlives us and our terminal."""
    where = stem(directory, place.node_id)
    words = [word for one in settings for word in ("--set", one)]
    with open(f"{where}.log", "a", encoding="utf-8", opener=private) as log:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [
                sys.executable,
                "-m",
                "barnabas.broker",
                "--config",
                f"{where}.properties",
                "--log-format",
                "text",
                *words,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=_environment(os.environ),
            start_new_session=True,  # Ctrl-C is for us; we stop them in order
        )
    keep(Path(f"{where}.pid"), f"{process.pid}\n")
    return process


def last_words(directory: Path, node_id: int) -> str:
    """Why a broker has ended, as its log says it."""
    log = Path(f"{stem(directory, node_id)}.log")
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1].removeprefix("barnabas: ") if lines else f"{log} says nothing"


def end(directory: Path, node_ids: Iterable[int]) -> None:
    """Stop brokers in good order, all at once, paused ones too; who takes too long is killed."""
    asked = {node_id: found for node_id in node_ids if (found := find(directory, node_id)) is not None}
    for one in asked.values():
        tell(one.pid, signal.SIGTERM)
        if one.paused:  # a signal waits until it goes on
            tell(one.pid, signal.SIGCONT)
    if not gone(directory, asked, STOP_S_MAX):
        for one in asked.values():
            tell(one.pid, signal.SIGKILL)
        gone(directory, asked, STOP_S_MAX)


def end_all(directory: Path, node_ids: Sequence[int]) -> None:
    """Stop brokers in good order, the active controller last: it hears the others go."""
    last = decides(directory, node_ids)
    end(directory, [node_id for node_id in node_ids if node_id != last])
    end(directory, [last])


def decides(directory: Path, node_ids: Iterable[int]) -> int:
    """Who leads the newest epoch that any controller of these has kept; the first one where none tells.

    Their files are read, for a process that is paused or has no majority would not answer.
    """
    newest = Kept(leader=CONTROLLER)
    for node_id in node_ids:
        with suppress(OSError, QuorumStateError):
            told, _ = kept.parse(Path(stem(directory, node_id), kept.FILE).read_bytes())
            if told.leader != kept.NOBODY and told.epoch >= newest.epoch:
                newest = told
    return newest.leader


def gone(directory: Path, processes: Mapping[int, Running], seconds: float) -> bool:
    """Wait until these processes have ended, for so long at most; whether they have."""
    left = round(seconds / LOOK_S)
    while any((now := find(directory, node_id)) and now.pid == one.pid for node_id, one in processes.items()):
        if left <= 0:
            return False
        left -= 1
        time.sleep(LOOK_S)
    return True


def tell(pid: int, number: int) -> None:
    """Send a signal to a process, which may have ended meanwhile."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings in variables are for one broker; those of several stand in their files."""
    return {name: value for name, value in environment.items() if not _is_setting(name)}


def _is_setting(variable: str) -> bool:
    return variable.startswith(("BARNABAS_", "KAFKA_")) or variable == "CLUSTER_ID"

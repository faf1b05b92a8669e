"""`barnabas cluster up`: a cluster on this machine, each broker a process, until Ctrl-C or SIGTERM.

The brokers are started together, the controller among them; the line that tells where they serve comes when all do. One
that ends while it should serve is told of, and the others go on. At the end the controller stops last, so that it hears
the others go.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final

from barnabas.cli.cluster_files import CONTROLLER, Place, Plan
from barnabas.cli.codes import HERE
from barnabas.cli.speak import fail, say

READY_S_MAX: Final = 60.0
STOP_S_MAX: Final = 10.0
LOOK_S: Final = 0.2
"""How often a process is looked after."""


class Cluster:
    """The processes of a plan, by node id."""

    def __init__(self, directory: Path, plan: Plan, settings: Sequence[str]) -> None:
        self._directory = directory
        self._plan = plan
        self._settings = [word for one in settings for word in ("--set", one)]
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._serving: set[int] = set()
        self._asked = threading.Event()

    def run(self) -> int:
        """Serve until a signal comes; the exit code."""
        before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            for place in self._plan.brokers:
                self._processes[place.node_id] = self._start(place)
            failed = self._wait_ready()
            if failed is not None:
                return fail(failed, HERE)
            if not self._asked.is_set():
                count = len(self._plan.brokers)
                say(f"barnabas: {count} brokers serve on {self._plan.bootstrap_servers}; data: {self._directory}")
                sys.stdout.flush()
                self._look_after()
            return 0
        finally:
            self._stop()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if self._asked.is_set():  # the second one: now
            for process in self._processes.values():
                process.kill()
        self._asked.set()

    def _start(self, place: Place) -> subprocess.Popen[str]:
        stem = self._directory / f"broker-{place.node_id}"
        options = ["--config", f"{stem}.properties", "--log-format", "text", *self._settings]
        with open(f"{stem}.log", "a", encoding="utf-8") as log:
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-m", "barnabas.broker", *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=_environment(os.environ),
                start_new_session=True,  # Ctrl-C is for us; we stop them in order
            )
        Path(f"{stem}.pid").write_text(f"{process.pid}\n", encoding="ascii")
        return process

    def _wait_ready(self) -> str | None:
        """Wait until all serve; what kept one from it."""
        for node_id in self._processes:
            threading.Thread(target=self._hear, args=(node_id,), daemon=True).start()
        waited_s = 0.0
        while len(self._serving) < len(self._processes) and not self._asked.wait(LOOK_S):
            waited_s += LOOK_S
            for node_id, process in self._processes.items():
                if process.poll() is not None:
                    return f"broker {node_id} cannot serve: {self._last_words(node_id)}"
            if waited_s >= READY_S_MAX:
                return f"the brokers do not serve within {READY_S_MAX:g} s; {self._directory}/broker-*.log says more"
        return None

    def _hear(self, node_id: int) -> None:
        stdout = self._processes[node_id].stdout
        assert stdout is not None
        if stdout.readline():  # the one line of a broker that serves; nothing where it ended before
            self._serving.add(node_id)

    def _last_words(self, node_id: int) -> str:
        log = self._directory / f"broker-{node_id}.log"
        lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        return lines[-1].removeprefix("barnabas: ") if lines else f"{log} says nothing"

    def _look_after(self) -> None:
        ended: set[int] = set()
        while not self._asked.wait(LOOK_S):
            for node_id, process in self._processes.items():
                if process.poll() is not None and node_id not in ended:
                    ended.add(node_id)
                    log = self._directory / f"broker-{node_id}.log"
                    fail(f"broker {node_id} has ended ({process.returncode}), the others go on; see {log}", 0)
            if len(ended) == len(self._processes):
                return

    def _stop(self) -> None:
        """The controller last: it hears from the others that they go."""
        _end([process for node_id, process in self._processes.items() if node_id != CONTROLLER])
        _end([process for node_id, process in self._processes.items() if node_id == CONTROLLER])
        for process in self._processes.values():
            if process.stdout is not None:
                process.stdout.close()


def _end(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S_MAX)
        if process.poll() is None:
            process.kill()
            process.wait()


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings in variables are for one broker; those of several stand in their files."""
    return {name: value for name, value in environment.items() if not name.startswith(("BARNABAS_", "KAFKA_"))}

"""`barnabas cluster up`: a cluster on this machine, each broker a process, until Ctrl-C, SIGTERM or `cluster stop`.

The brokers are started together, their controllers among them; the line that tells where they serve comes when all do.
One that ends while it should serve is told of, and the others go on; so is one that `cluster start` brings back. At
the end the active controller stops last, so that it hears the others go.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from barnabas.cli.cluster_files import GROWING, Plan, plan_of, write_settings
from barnabas.cli.cluster_processes import READY_S_MAX, end_all, find, last_words, launch, stem, tell
from barnabas.cli.codes import HERE, REFUSED
from barnabas.cli.speak import fail, say

LOOK_S: Final = 0.2
"""How often a process is looked after."""


class Cluster:
    """The processes of a plan, by node id."""

    def __init__(self, directory: Path, plan: Plan, settings: Sequence[str]) -> None:
        self._directory = directory
        self._plan = plan
        self._settings = settings
        self._processes: dict[int, subprocess.Popen[str]] = {}
        self._serving: set[int] = set()
        self._asked = threading.Event()

    def run(self) -> int:
        """Serve until a signal comes; the exit code."""
        left = [one.node_id for one in self._plan.brokers if find(self._directory, one.node_id)]
        if left:
            told = f"broker {left[0]} runs already, without its `cluster up`"
            return fail(f"{told}; barnabas cluster stop --dir {self._directory} ends it", REFUSED)
        before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            write_settings(self._directory, self._settings)
            for place in self._plan.brokers:
                self._processes[place.node_id] = launch(self._directory, place, self._settings)
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
            for one in self._plan.brokers:
                running = find(self._directory, one.node_id)
                if running is not None:
                    tell(running.pid, signal.SIGKILL)
        self._asked.set()

    def _wait_ready(self) -> str | None:
        """Wait until all serve; what kept one from it."""
        for node_id in self._processes:
            threading.Thread(target=self._hear, args=(node_id,), daemon=True).start()
        waited_s = 0.0
        while len(self._serving) < len(self._processes) and not self._asked.wait(LOOK_S):
            waited_s += LOOK_S
            for node_id, process in self._processes.items():
                if process.poll() is not None:
                    return f"broker {node_id} cannot serve: {last_words(self._directory, node_id)}"
            if waited_s >= READY_S_MAX:
                return f"the brokers do not serve within {READY_S_MAX:g} s; {self._directory}/broker-*.log says more"
        return None

    def _hear(self, node_id: int) -> None:
        stdout = self._processes[node_id].stdout
        assert stdout is not None
        if stdout.readline():  # the one line of a broker that serves; nothing where it ended before
            self._serving.add(node_id)

    def _look_after(self) -> None:
        """Until somebody asks for the end, or all brokers have ended; also of those that others started or added."""
        ended: set[int] = set()
        while not self._asked.wait(LOOK_S):
            self._plan = plan_of(self._directory)
            for one in self._plan.brokers:
                self._look_at(one.node_id, ended)
            if all(one.node_id in ended for one in self._plan.brokers) and not (self._directory / GROWING).exists():
                return

    def _look_at(self, node_id: int, ended: set[int]) -> None:
        process = self._processes.get(node_id)
        if process is not None and process.poll() is None:
            return
        runs = find(self._directory, node_id) is not None
        if runs and node_id in ended:
            ended.discard(node_id)
            say(f"barnabas: broker {node_id} is back")
            sys.stdout.flush()
        elif not runs and node_id not in ended:
            ended.add(node_id)
            code = "" if process is None else f" ({process.returncode})"
            _forget(self._processes.pop(node_id, None))  # who comes back under this id is another process
            log = f"{stem(self._directory, node_id)}.log"
            fail(f"broker {node_id} has ended{code}, the others go on; see {log}", 0)

    def _stop(self) -> None:
        end_all(self._directory, [one.node_id for one in self._plan.brokers])
        for process in self._processes.values():
            _forget(process)


def _forget(process: subprocess.Popen[str] | None) -> None:
    """Let go of a process that has ended."""
    if process is not None:
        process.wait()
        if process.stdout is not None:
            process.stdout.close()

"""A broker of any make as a child process: started until it answers, stopped or killed."""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

STOP_SECONDS_MAX = 60.0


def answers_api_versions(port: int) -> bool:
    """Whether a Kafka broker on this port of 127.0.0.1 answers an ApiVersions request (v0)."""
    frame = struct.pack(">hhih", 18, 0, 1, -1)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as peer:
            peer.settimeout(2)
            peer.sendall(struct.pack(">i", len(frame)) + frame)
            return len(peer.recv(8)) > 0
    except OSError:
        return False


class ServerProcess:
    """What it prints goes to the end of `output_path`; it serves once `port` answers ApiVersions."""

    def __init__(self, output_path: Path, port: int, start_seconds_max: float) -> None:
        self._output_path = output_path
        self._port = port
        self._start_seconds_max = start_seconds_max
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id while it runs."""
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start, and return once ApiVersions is answered.

        Raises:
            RuntimeError: it ended instead, or took too long; the text is the end of what it printed.
        """
        assert self._process is None, "already running"
        with self._output_path.open("ab") as output:
            # A session of its own: Ctrl-C at the terminal reaches us, and we stop the child in order.
            process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True, env=environment)
        self._process = process
        deadline = time.monotonic() + self._start_seconds_max
        while not answers_api_versions(self._port):
            if process.poll() is not None or time.monotonic() > deadline:
                self.end(signal.SIGKILL)
                raise RuntimeError(self.output()[-3000:])
            threading.Event().wait(0.02)
        if process.poll() is not None:  # it is another process that answers
            self._process = None
            raise RuntimeError(f"port {self._port} is taken\n{self.output()[-3000:]}")

    def output(self) -> str:
        """What it printed to stdout and stderr."""
        return self._output_path.read_text(errors="replace")

    def end(self, number: signal.Signals) -> bool:
        """Send a signal and wait for the end; False if it had to be killed. Nothing happens if it does not run."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return True
        process.send_signal(number)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return False
        return True

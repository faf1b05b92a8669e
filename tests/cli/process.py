"""A real `barnabas` process for tests: started, waited for with a bound, and never left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

BOUND_S = 60.0
"""No more than the broker of a test may ever take for one thing; nothing waits for it to pass."""


class Process:
    """`barnabas broker` with the given options; `port` is known once `banner` has come.

    `inside` is a command that runs another, such as `nsenter`.
    """

    def __init__(self, *options: str, environment: Mapping[str, str] | None = None, inside: Sequence[str] = ()) -> None:
        self.popen = subprocess.Popen(
            [*inside, sys.executable, "-m", "barnabas.broker", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**clean_environment(), **(environment or {})},
        )
        self.errors: list[str] = []
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()
        watchdog = threading.Timer(BOUND_S, self.popen.kill)
        watchdog.start()
        assert self.popen.stdout is not None
        self.banner = self.popen.stdout.readline()
        watchdog.cancel()
        if not self.banner:
            self.wait()
            raise AssertionError(f"no banner; exit code {self.popen.returncode}: {''.join(self.errors)}")
        found = re.search(r"127\.0\.0\.1:(\d+)", self.banner)
        assert found is not None, self.banner
        self.port = int(found[1])

    def _read_errors(self) -> None:
        assert self.popen.stderr is not None
        self.errors += self.popen.stderr

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; the exit code."""
        self.popen.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Wait for the end; the exit code."""
        code = self.popen.wait(BOUND_S)
        self._reader.join(BOUND_S)
        assert self.popen.stdout is not None
        assert self.popen.stderr is not None
        self.popen.stdout.close()
        self.popen.stderr.close()
        return code


@contextmanager
def broker(
    *options: str, environment: Mapping[str, str] | None = None, inside: Sequence[str] = ()
) -> Iterator[Process]:
    process = Process(*options, environment=environment, inside=inside)
    try:
        yield process
    finally:
        if process.popen.returncode is None:
            process.end(signal.SIGKILL)


def run(
    *arguments: str, text: str = "", environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `barnabas` to its end."""
    return subprocess.run(
        [sys.executable, "-c", "import sys; from barnabas.cli import main; sys.exit(main())", *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        env={**clean_environment(), **(environment or {})},
        check=False,
    )


_SETTINGS = ("BARNABAS_", "KAFKA_", "XDG_", "CLUSTER_ID")


def clean_environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(_SETTINGS)}


def tree(path: Path) -> dict[str, bytes | None]:
    """Everything below a directory, to see that nothing was touched."""
    return {
        str(each.relative_to(path)): each.read_bytes() if each.is_file() else None for each in sorted(path.rglob("*"))
    }

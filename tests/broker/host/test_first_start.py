"""A first start that is killed leaves a directory from which the next start goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from barnabas.client.producer import Producer
from tests.cli.process import BOUND_S, broker, clean_environment

KILLED_AT = """
import os, sys
at = int(sys.argv[1])
calls = 0
def counted(function):
    def call(*arguments, **options):
        global calls
        calls += 1
        if calls == at:
            os._exit(77)
        return function(*arguments, **options)
    return call
for name in ("fdatasync", "fsync", "replace", "rename", "mkdir", "pwrite", "open", "write"):
    setattr(os, name, counted(getattr(os, name)))
from barnabas.broker.__main__ import main
sys.exit(main(sys.argv[2:]))
"""


def test_a_first_start_that_is_killed_starts_again(tmp_path: Path) -> None:
    """The real process ends at its n-th call that changes the disk, each time in a fresh directory."""
    found = set()
    for at in range(2, 60, 7):
        path = tmp_path / str(at)
        options = ("--port", "0", "--data-dir", str(path), "--topic", "t:1")
        killed = subprocess.Popen(
            [sys.executable, "-c", KILLED_AT, str(at), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=clean_environment(),
        )
        assert killed.stdout is not None
        banner = killed.stdout.readline()
        if banner:
            killed.send_signal(signal.SIGKILL)
        killed.wait(BOUND_S)
        killed.stdout.close()
        found.add(tuple(sorted(entry.name for entry in path.iterdir())) if path.exists() else ())
        with broker(*options) as process:
            with Producer(bootstrap_servers=f"127.0.0.1:{process.port}") as producer:
                assert producer.send("t", b"x").result(60).offset == 0
            assert process.end() == 0
        if banner:
            break
    assert len(found) >= 4, found

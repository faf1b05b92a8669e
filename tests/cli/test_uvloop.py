"""uvloop is in use where it is installed: in the process, in the broker inside a program, and in every client."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import barnabas
from barnabas.broker.host.assemble import new_loop
from tests.cli.process import Process

uvloop = pytest.importorskip("uvloop")


def test_a_broker_and_its_clients_in_one_program() -> None:
    with barnabas.Broker() as broker, barnabas.Producer(broker.bootstrap_servers) as producer:
        assert isinstance(broker._loop, uvloop.Loop)
        assert isinstance(producer._loop, uvloop.Loop)
        with barnabas.Consumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
            assert isinstance(consumer._thread._loop, uvloop.Loop)
        with barnabas.Admin(broker.bootstrap_servers) as admin:
            assert isinstance(admin._thread._loop, uvloop.Loop)


def test_the_loop_that_a_process_makes() -> None:
    loop = new_loop()
    try:
        assert isinstance(loop, uvloop.Loop)
    finally:
        loop.close()


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells what a process has loaded")
def test_a_process_has_loaded_it(tmp_path: Path) -> None:
    process = Process("--port", "0", "--data-dir", str(tmp_path))
    try:
        assert "/uvloop/loop." in Path(f"/proc/{process.popen.pid}/maps").read_text()
    finally:
        process.end(9)

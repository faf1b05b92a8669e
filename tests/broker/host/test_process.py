"""The real process: its one line, its signals, its addresses."""

from __future__ import annotations

import json
import re
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.protocol.api import STEMS
from tests.broker.host.fake_core import api_versions_request
from tests.cli.process import broker, run


def ask(sock: socket.socket, correlation_id: int = 1) -> None:
    """ApiVersions over a plain socket; its answer must pair."""
    sock.settimeout(60)
    sock.sendall(api_versions_request(correlation_id))
    head = sock.recv(8, socket.MSG_WAITALL)
    length, got = struct.unpack(">ii", head)
    assert got == correlation_id
    sock.recv(length - 4, socket.MSG_WAITALL)


def test_it_prints_one_line_with_its_address_and_data_directory_and_serves_both_loopbacks(tmp_path: Path) -> None:
    with broker("--port", "0", "--data-dir", str(tmp_path)) as process:
        addresses, where = re.fullmatch(r"barnabas: serving on (.*); data: (.*)\n", process.banner).groups()  # type: ignore[union-attr]
        assert where == str(tmp_path)
        assert addresses in (
            f"127.0.0.1:{process.port}, [::1]:{process.port}",
            f"127.0.0.1:{process.port}",  # a machine without ::1
        )
        for host in ["127.0.0.1", "::1"] if "::1" in addresses else ["127.0.0.1"]:
            with socket.create_connection((host, process.port)) as sock:
                ask(sock)
        assert process.end() == 0
        assert process.popen.stdout is not None
    assert all(json.loads(line)["level"] for line in process.errors), "not a terminal: JSON lines"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_stops_cleanly_and_waits_for_no_client(number: int, tmp_path: Path) -> None:
    options = ("--port", "0", "--data-dir", str(tmp_path), "--topic", "t:3")
    with broker(*options) as process, socket.create_connection(("127.0.0.1", process.port)) as sock:
        ask(sock)
        assert process.end(number) == 0  # within BOUND_S; an idle client is ended after ten minutes
        assert sock.recv(1) == b""
    assert '"stopped"' in process.errors[-1]


def test_the_data_directory_can_be_served_from_again(tmp_path: Path) -> None:
    for _ in range(2):
        with broker("--port", "0", "--data-dir", str(tmp_path), "--topic", "t:2") as process:
            described = run("topics", "--server", f"127.0.0.1:{process.port}", "list")
            assert described.stdout.split() == ["t"]
            assert process.end() == 0


def test_data_lies_under_the_users_data_directory_unless_told_otherwise(tmp_path: Path) -> None:
    with broker("--port", "0", environment={"XDG_DATA_HOME": str(tmp_path)}) as process:
        assert f"data: {tmp_path}/barnabas\n" in process.banner
        assert (tmp_path / "barnabas").is_dir()
        process.end()
    with broker("--port", "0", environment={"HOME": str(tmp_path)}) as process:
        assert f"data: {tmp_path}/.local/share/barnabas\n" in process.banner
        process.end()


def test_in_memory_nothing_is_written(tmp_path: Path) -> None:
    with broker("--port", "0", "--memory", environment={"XDG_DATA_HOME": str(tmp_path)}) as process:
        assert process.banner.endswith("; data: in memory\n")
        process.end()
    assert list(tmp_path.iterdir()) == []


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    """Both arrive while the process is stopped, so that the second comes before the first has been acted on."""
    with broker("--port", "0", "--data-dir", str(tmp_path)) as process:
        process.popen.send_signal(signal.SIGSTOP)
        process.popen.send_signal(signal.SIGTERM)
        process.popen.send_signal(signal.SIGINT)
        process.popen.send_signal(signal.SIGCONT)
        assert process.wait() in (128 + signal.SIGTERM, 128 + signal.SIGINT)


def test_under_nohup_a_terminal_that_closes_leaves_it_alone(tmp_path: Path) -> None:
    """Whoever starts a process with SIGHUP ignored wants it to live on."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with broker("--port", "0", "--data-dir", str(tmp_path)) as process:
            process.popen.send_signal(signal.SIGHUP)
            with socket.create_connection(("127.0.0.1", process.port)) as sock:
                ask(sock)
            assert process.end() == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_start_loads_nothing_that_only_later_work_needs() -> None:
    """What a start imports is what it takes: 40 ms of the interpreter's and the loop's, and 30 ms of ours."""
    code = (
        "import sys, argparse, asyncio, logging; before = set(sys.modules);"
        "from barnabas.broker import __main__ as start; start.parser(); import barnabas.broker.host.process;"
        "print(*sys.modules.keys() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert "barnabas.broker.node.core" in loaded
    later = {f"barnabas.protocol.requests.{stem}" for stem in STEMS.values() if stem != "api_versions"}
    later |= {"barnabas.broker.log.compaction", "hashlib", "json", "pathlib", "random", "re2", "shutil", "xxhash"}
    later |= {f"barnabas.broker.{room}" for room in ("introduction", "host.peer_channel", "host.cluster_secret")}
    assert loaded & later == set()

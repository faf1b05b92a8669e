"""The administrator's socket: who may open it, what it speaks, and that nothing from outside closes it."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import barnabas.aio
from barnabas.broker.host import admission
from barnabas.broker.host.local import NAME, listen_locally
from tests.broker.host.fake_core import Raw, client, until
from tests.cli.process import broker, run


def test_it_is_its_owners_alone_and_goes_with_the_broker(tmp_path: Path) -> None:
    with broker("--port", "0", "--data-dir", str(tmp_path)) as process:
        mode = (tmp_path / NAME).stat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600
        assert process.end() == 0
    assert not (tmp_path / NAME).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the umask decides how the file is made")
def test_nobody_else_can_open_it_before_its_mode_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "chmod", lambda *told: None)
    before = os.umask(0)
    try:
        listening = listen_locally(str(tmp_path), 1, 5)
        assert listening is not None
        listening.close()
        assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_one_that_a_killed_broker_left_is_replaced_even_in_a_directory_it_had_not_made_its_own(tmp_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / NAME))
    left.close()
    with broker("--port", "0", "--data-dir", str(tmp_path)) as process:
        assert run("health", str(tmp_path)).returncode == 0
        assert process.end() == 0


def test_the_command_line_gets_in_when_nobody_else_does(tmp_path: Path) -> None:
    options = ("--port", "0", "--data-dir", str(tmp_path), "--topic", "t:2", "--set", "max.connections=1")
    where = str(tmp_path)
    with broker(*options) as process, socket.create_connection(("127.0.0.1", process.port)) as only:
        assert run("health", f"127.0.0.1:{process.port}").returncode == 1
        health = run("health", where)
        assert (health.returncode, health.stdout) == (0, f"{where}/{NAME} serves\n")
        assert "t-0" in run("top", where).stdout
        assert run("topics", "--server", where, "list").stdout == "t\n"
        produced = run("produce", "--server", where, "t", text="hello\n")
        assert produced.returncode == 0, produced.stderr
        told = run("topics", "--server", where, "describe", "t").stdout
        assert "end offset" in told
        assert only.fileno() >= 0
        assert process.end() == 0


async def test_its_connections_are_not_counted_against_the_limits(tmp_path: Path) -> None:
    async with barnabas.aio.Broker(data_dir=tmp_path, config={"max.connections": 1}) as running:
        for _ in range(3):
            local = Raw(*await asyncio.open_unix_connection(f"{tmp_path}/{NAME}"))
            local.ask(1)
            assert await local.answer() == 1
            async with client(running.port) as raw:
                raw.ask(2)
                assert await raw.answer() == 2
                local.ask(3)
                assert await local.answer() == 3
            await local.close()
            await until(lambda: not running._assembly.host.channels)


def test_a_path_that_is_too_long_is_said_and_not_fatal(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    with broker("--port", "0", "--data-dir", str(deep)) as process:
        assert run("health", f"127.0.0.1:{process.port}").returncode == 0
        assert process.end() == 0
        assert "a data directory with a shorter path has one" in "".join(process.errors)
    assert not (deep / NAME).exists()


def test_a_directory_that_takes_no_socket_is_said_and_not_fatal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "barnabas")
    (tmp_path / NAME).mkdir()
    assert listen_locally(str(tmp_path), 1, 1) is None
    assert "no local socket" in caplog.text
    assert os.path.isdir(tmp_path / NAME)


async def test_it_is_bounded_and_lets_everybody_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many it has, files are opened, too: who has been silent for the longest goes for who comes."""
    monkeypatch.setattr(admission, "LOCALS_MAX", 3)
    async with barnabas.aio.Broker(data_dir=tmp_path) as served:
        host = served._assembly.host
        where = str(tmp_path / NAME)
        peers = [await asyncio.open_unix_connection(where) for _ in range(3)]
        await until(lambda: len(host.channels) == 3)
        for channel, active_ms in zip(host.channels.values(), (20, 10, 30), strict=True):
            channel.active_ms = active_ms
        peers.append(await asyncio.open_unix_connection(where))
        assert await peers[1][0].read() == b""
        await until(lambda: len(host.channels) == 3)
        async with asyncio.timeout(60):
            for reader, writer in (peers[0], peers[2], peers[3]):
                writer.write(bytes.fromhex("0000000a00120000000000 01ffff"))
                assert await reader.readexactly(4)
        for _, writer in peers:
            writer.close()
        await until(lambda: not host.channels)
        assert not host._locals


async def test_of_two_that_come_in_one_step_each_ends_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is ended is forgotten in a later round of the loop, and could be ended twice till then."""
    monkeypatch.setattr(admission, "LOCALS_MAX", 2)
    ended: list[int] = []

    def channel(number: int, active_ms: int) -> Any:
        connection = SimpleNamespace(id=number)
        return SimpleNamespace(connection=connection, active_ms=active_ms, end=lambda reason: ended.append(number))

    async with barnabas.aio.Broker(data_dir=tmp_path) as served:
        host = served._assembly.host
        for number, active_ms in ((1, 20), (2, 10), (3, 30), (4, 30)):
            host._admit_locally(channel(number, active_ms))
        assert (ended, list(host._locals)) == ([2, 1], [3, 4])
        host._locals.clear()

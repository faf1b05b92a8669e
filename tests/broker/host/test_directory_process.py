"""The process ends, with one sentence and Apache Kafka's exit code, when its data directory takes nothing any more."""

from __future__ import annotations

import asyncio
import errno
import gc

import pytest

from barnabas.broker import __main__ as command
from barnabas.broker.config import BrokerConfig
from barnabas.broker.host import process
from barnabas.broker.host.assemble import Assembly
from barnabas.broker.host.collector import Collector
from barnabas.broker.host.directory import DirectoryFailed
from barnabas.broker.host.vigil import Vigil
from barnabas.broker.memory_disk import MemoryDisk
from barnabas.broker.node.core import Core


async def test_the_process_ends_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    assembly = Assembly(BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",)), None, memory=disk)

    def serves(self: Vigil, awake_us: int) -> None:
        disk.faults.broken = True
        assembly.host.core.logs.losses.on_refused(OSError(errno.EIO, "input/output error"))

    monkeypatch.setattr(Vigil, "allow", serves)
    monkeypatch.setattr(process, "asked_to_end", lambda loop: asyncio.Event())
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(Collector, "begin", lambda self, loop: None)
    with pytest.raises(DirectoryFailed, match="takes nothing any more"):
        await process._serve(assembly)
    assert not assembly.host.serving
    with pytest.raises(OSError, match=r"refused|Connect"):
        await asyncio.open_connection("127.0.0.1", assembly.port)


async def test_a_start_that_meets_it_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Core, "run_job_step", lambda self, now_ms: False)
    assembly = Assembly(BrokerConfig(listeners=("PLAINTEXT://127.0.0.1:0",)), None)
    starting = asyncio.create_task(assembly.start())
    await asyncio.sleep(0)  # it has begun
    assembly.host.directory_failed(OSError(errno.EIO, "input/output error"))
    with pytest.raises(DirectoryFailed):
        await starting


def test_the_exit_code_is_apache_kafkas(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*args: object, **named: object) -> None:
        raise DirectoryFailed("the data directory takes nothing any more")

    monkeypatch.setattr(process, "run", run)
    monkeypatch.setattr(command, "_log", lambda given: None)
    monkeypatch.setattr(gc, "disable", lambda: None)
    assert command.main(["--memory", "--port", "0"]) == 1
    assert capsys.readouterr().err == "barnabas: the data directory takes nothing any more\n"

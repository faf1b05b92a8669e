"""Mosquitto, the bridge and the broker as processes of a test: started, killed, started again, never left behind."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.look import NoBroker, get, state
from tests.cli.process import clean_environment
from tests.oracle.kafka import free_port

END_SECONDS = 30.0
MOSQUITTO = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/opt/homebrew/sbin")
needs_mosquitto = pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not here: ./dev tools brings it")


async def until(so: Callable[[], Any] | Callable[[], Awaitable[Any]], what: Callable[[], object] = lambda: None) -> Any:
    """Look until it is so; what it was then."""
    end = time.monotonic() + END_SECONDS
    while True:
        found: Any = so()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < end, what()
        await asyncio.sleep(0.02)


class Child:
    """A process with its output in a file."""

    def __init__(self, command: list[str], output: Path) -> None:
        self.output = output
        with output.open("ab") as file:
            self.popen = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=clean_environment())

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.popen.returncode is None:
            self.popen.send_signal(number)
        return self.popen.wait(END_SECONDS)

    def said(self) -> str:
        return self.output.read_text(errors="replace")


class Mosquitto:
    """The MQTT broker; `settings` are lines of its configuration. A restart keeps port and files."""

    def __init__(self, directory: Path, *settings: str, anonymous: bool = True) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self._directory = directory
        lines = [
            f"listener {self.port} 127.0.0.1",
            f"allow_anonymous {'true' if anonymous else 'false'}",
            "persistence true",
            f"persistence_location {directory}/",
            "max_queued_messages 0",
            "set_tcp_nodelay true",
            *settings,
        ]
        if os.getuid() == 0:
            lines.append("user root")
        (directory / "mosquitto.conf").write_text("\n".join(lines) + "\n")

    async def start(self) -> None:
        assert MOSQUITTO is not None
        command = [MOSQUITTO, "-c", str(self._directory / "mosquitto.conf")]
        self.child = Child(command, self._directory / "mosquitto.out")
        await until(self._answers, self.child.said)

    async def _answers(self) -> bool:
        assert self.child.popen.poll() is None, self.child.said()
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True

    def end(self, number: int = signal.SIGTERM) -> None:
        self.child.end(number)


class Bridge:
    """`barnabas mqtt` as a process; `text` is its file, in which MQTT and KAFKA stand for ports."""

    barnabas = (sys.executable, "-m", "barnabas")

    def __init__(self, directory: Path, text: str, mqtt: int, kafka: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.config = directory / "bridge.toml"
        self.config.write_text(settings(text, mqtt, kafka))

    async def start(self, *, connected: bool = True) -> None:
        command = [*self.barnabas, "mqtt", "--config", str(self.config)]
        begun = len(self.said()) if hasattr(self, "child") else 0
        self.child = Child(command, self._directory / "bridge.out")
        found = await until(lambda: self._address(begun), self.said)
        self.address = found[1]
        if connected:
            await self.healthy()

    def _address(self, begun: int) -> re.Match[str] | None:
        assert self.child.popen.poll() is None, self.said()
        return re.search(r"looking in: (127\.0\.0\.1:\d+)", self.said()[begun:])

    async def healthy(self) -> None:
        await until(lambda: asyncio.to_thread(lambda: get(self.address, "/health")[0] == 200), self.said)

    async def state(self) -> dict[str, Any]:
        return await asyncio.to_thread(state, self.address)

    async def counted(self, name: str, number: int) -> None:
        async def so() -> bool:
            counts = (await self.state())["counts"]
            return bool(counts[name] >= number)

        await until(so, self.said)

    def said(self) -> str:
        return self.child.said()

    def end(self, number: int = signal.SIGTERM) -> int:
        return self.child.end(number)


def settings(text: str, mqtt: int, kafka: str) -> str:
    """A bridge's file with the ports of a test."""
    head = f'[mqtt]\nhost = "127.0.0.1"\nport = {mqtt}\n'
    head = text.replace("[mqtt]\n", head)
    return head + f'\n[kafka]\n"bootstrap.servers" = "{kafka}"\n"linger.ms" = 1\n[web]\nlisten = "127.0.0.1:0"\n'


__all__ = ["Bridge", "Child", "Mosquitto", "NoBroker", "needs_mosquitto", "settings", "until"]

"""`barnabas top` on a real terminal of 80 x 24: what is on its screen, where keys lead, and what is left at its end."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyte
import pytest

import barnabas
from tests.cli.process import BOUND_S, clean_environment

ENTER, LEAVE = b"\x1b[?1049h\x1b[?25l", b"\x1b[?25h\x1b[?1049l"


class Terminal:
    """A terminal of 80 x 24 with `barnabas top` in it; `screen` is what a person sees."""

    def __init__(self, server: str) -> None:
        self.controller, self.inside = pty.openpty()
        fcntl.ioctl(self.inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.attributes = termios.tcgetattr(self.inside)
        environment = {key: value for key, value in clean_environment().items() if key not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", "import sys; from barnabas.cli import main; sys.exit(main())", "top", server],
            stdin=self.inside,
            stdout=self.inside,
            stderr=self.inside,
            env=environment,
        )
        self.screen = pyte.Screen(80, 24)
        self.raw = b""
        self._stream = pyte.ByteStream(self.screen)

    def read(self, limit_s: float) -> bool:
        ready, _, _ = select.select([self.controller], [], [], limit_s)
        if not ready:
            return False
        data = os.read(self.controller, 65536)
        self.raw += data
        self._stream.feed(data)
        return True

    def until(self, met: Callable[[], bool]) -> None:
        deadline = time.monotonic() + BOUND_S
        while not met():
            assert self.read(deadline - time.monotonic()), "\n".join(self.screen.display)

    def press(self, data: bytes) -> None:
        os.write(self.controller, data)

    def line(self, number: int) -> str:
        return self.screen.display[number].rstrip()

    def body(self) -> list[str]:
        lines = [line.rstrip() for line in self.screen.display]
        return lines[lines.index("") + 1 : -1]

    def end(self) -> int:
        """The exit code, once all that it wrote is read."""
        code = self.process.wait(BOUND_S)
        while self.read(0):
            pass
        return code

    def is_given_back(self) -> bool:
        return self.raw.endswith(LEAVE) and termios.tcgetattr(self.inside) == self.attributes


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with barnabas.Broker(topics={"t": 40}) as broker:
        yield broker.bootstrap_servers


@contextmanager
def terminal(server: str) -> Iterator[Terminal]:
    seen = Terminal(server)
    try:
        seen.until(lambda: "Tab next section" in seen.line(23))
        yield seen
    finally:
        seen.process.kill()
        seen.process.wait()
        os.close(seen.controller)
        os.close(seen.inside)


def test_every_section_is_reached_on_80_by_24_and_q_gives_the_terminal_back(server: str) -> None:
    heads = ("partition ", "parked ", "nothing is parked", "wheel ", "no timer runs", "connection ")
    with terminal(server) as seen:
        assert seen.raw.startswith(ENTER)
        assert seen.line(0).startswith(f"barnabas {server}: 40 partitions")
        assert seen.line(23).startswith("q quits  arrows PgUp PgDn Home End move  Tab next section  1-")
        lines = seen.body()
        while not is_last(seen.line(23)):
            before = seen.line(23)
            seen.press(b"\x1b[6~")
            seen.until(lambda before=before: seen.line(23) != before)  # type: ignore[misc]
            lines += seen.body()
        assert {f"t-{number}" for number in range(40)} <= {line.split(" ")[0] for line in lines}
        assert len({line for line in lines if line.startswith(heads)}) == 4
        seen.press(b"\x1b[H")
        seen.until(lambda: seen.body()[0].startswith("partition"))
        seen.press(b"\t")
        seen.until(lambda: seen.body()[0].startswith(heads[1:]) or is_last(seen.line(23)))
        seen.press(b"q")
        assert seen.end() == 0
        assert seen.is_given_back()


def is_last(foot: str) -> bool:
    """Whether `... 23-45 of 45` tells that the end is shown."""
    *_, shown, _, count = foot.split(" ")
    return shown.endswith(f"-{count}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_it_and_the_terminal_is_given_back(server: str, number: signal.Signals) -> None:
    with terminal(server) as seen:
        assert termios.tcgetattr(seen.inside) != seen.attributes
        seen.process.send_signal(number)
        assert seen.end() == (130 if number == signal.SIGINT else -number)
        assert seen.is_given_back(), seen.raw[-200:]


def test_one_that_is_stopped_gives_the_terminal_back_and_takes_it_again(server: str) -> None:
    with terminal(server) as seen:
        seen.process.send_signal(signal.SIGTSTP)
        seen.until(seen.is_given_back)
        _, status = os.waitpid(seen.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        seen.process.send_signal(signal.SIGCONT)
        seen.until(lambda: seen.raw.rpartition(LEAVE)[2].startswith(ENTER))
        seen.press(b"q")
        assert seen.end() == 0
        assert seen.is_given_back()


def test_a_broker_that_goes_away_is_told_on_a_terminal_that_is_given_back() -> None:
    with barnabas.Broker() as broker:
        gone = Terminal(broker.bootstrap_servers)
        gone.until(lambda: "Tab next section" in gone.line(23))
    try:
        assert gone.end() == 3
        left, _, told = gone.raw.rpartition(LEAVE)
        assert left
        assert told.startswith(b"barnabas: no broker answers on ")
        assert termios.tcgetattr(gone.inside) == gone.attributes
    finally:
        gone.process.kill()
        gone.process.wait()
        os.close(gone.controller)
        os.close(gone.inside)

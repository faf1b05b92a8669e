"""How long a real broker works before it answers a newcomer, while thousands of others ask for ApiVersions.

Told is the CPU time of its loop's thread, from the newcomer's first packet to its answer, so a busy machine hardly
matters. What comes in one moment is sent while the process is stopped. `python -m tests.hostile.newcomer PORT COUNT` is
the crowd that asks again as soon as it is answered, until a line is said.
"""

from __future__ import annotations

import resource
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from subprocess import PIPE, Popen
from typing import Final

from tests.broker.host.bystander import ask, ask_anew, exactly, threads
from tests.broker.host.fake_core import api_versions_request
from tests.cli.process import Process, broker

COUNT: Final = 4_900
"""One address may have 5,000."""
PAUSE_S: Final = 0.05
_TIMES: Final = 10
_VERSIONS: Final = api_versions_request(1)


def behind_one_moment_ms(*, asked_before: bool) -> float:
    """All ask in one moment, for the first time or again; who connects comes behind them."""
    with _many_files(), broker("--port", "0", "--memory") as process, ExitStack() as stack:
        crowd = _crowd(stack, process.port, COUNT)
        for sock in crowd if asked_before else ():
            ask(sock, _VERSIONS, 0)
        process.popen.send_signal(signal.SIGSTOP)
        for sock in crowd:
            sock.sendall(_VERSIONS)
        newcomer = stack.enter_context(socket.create_connection(("127.0.0.1", process.port), 60))
        newcomer.sendall(_VERSIONS)
        before_s = _ran_s(process)
        process.popen.send_signal(signal.SIGCONT)
        exactly(newcomer, int.from_bytes(exactly(newcomer, 4), "big"))
        return (_ran_s(process) - before_s) * 1e3


def behind_those_that_ask_again_ms() -> float:
    """All ask again as soon as they are answered; the longest of some who connect meanwhile."""
    with _many_files(), broker("--port", "0", "--memory") as process:
        words = [sys.executable, "-m", "tests.hostile.newcomer", str(process.port), str(COUNT)]
        with Popen(words, stdin=PIPE, stdout=PIPE, text=True) as crowd:
            assert crowd.stdout is not None
            assert crowd.stdout.readline(), "it was not let in"
            found = []
            for _ in range(_TIMES):
                time.sleep(PAUSE_S)
                before_s = _ran_s(process)
                ask_anew(process.port, _VERSIONS, 0)
                found.append((_ran_s(process) - before_s) * 1e3)
            crowd.communicate("over\n", 60)
        return max(found)


def _ran_s(process: Process) -> float:
    return threads(process.popen.pid)[process.popen.pid].ran_s


def _crowd(stack: ExitStack, port: int, count: int) -> list[socket.socket]:
    return [stack.enter_context(socket.create_connection(("127.0.0.1", port), 60)) for _ in range(count)]


@contextmanager
def _many_files() -> Iterator[None]:
    """As many open files as the system lets us have, for the broker, too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def main(port: int, count: int) -> None:
    """Ask, and ask again when answered, until a line is said."""
    with ExitStack() as stack, select.epoll() as looks:
        crowd = {sock.fileno(): sock for sock in _crowd(stack, port, count)}
        for number, sock in crowd.items():
            looks.register(number, select.EPOLLIN)
            sock.sendall(_VERSIONS)
        looks.register(sys.stdin.fileno(), select.EPOLLIN)
        print("ready", flush=True)
        while True:
            for number, _ in looks.poll():
                if number == sys.stdin.fileno():
                    return
                crowd[number].recv(65536)
                crowd[number].sendall(_VERSIONS)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

"""What the commands print: results to standard output, what is wrong to standard error in one sentence."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

DEFAULT_SERVER: Final = "localhost:9092"
_WHICH: Final = "host:port (localhost:9092), or the data directory of a broker on this machine (./DIRECTORY)"


class Options(argparse.ArgumentParser):
    """Options whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end with 2."""
        self.exit(fail(f"{message} ({self.prog} --help says more)"))


def say(text: str = "") -> None:
    """One result."""
    print(text, flush=True)


def fail(message: str, code: int = 2) -> int:
    """What is wrong; the exit code for it (2: the call, 1: the other side)."""
    print(f"barnabas: {message}", file=sys.stderr)
    return code


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as their widest cell; numbers to the right (`-` stands for one that is not known)."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max([len(name), *(len(row[index]) for row in cells)]) for index, name in enumerate(head)]
    right = [
        any(isinstance(row[index], (int, float)) for row in rows)
        and all(row[index] == "-" or isinstance(row[index], (int, float)) for row in rows)
        for index in range(len(head))
    ]

    def line(row: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ]
        return "  ".join(padded).rstrip()

    return "\n".join([line(head), *(line(row) for row in cells)])


def server_option(options: argparse.ArgumentParser, default: str = DEFAULT_SERVER) -> None:
    """The option that says which broker."""
    options.add_argument(
        "--server", "-b", metavar="HOST:PORT", type=address, default=default, help=f"the broker: {_WHICH}"
    )


def server_argument(options: argparse.ArgumentParser) -> None:
    """The argument that says which broker, for commands that take no other; the option of all others says it, too."""
    options.add_argument("address", nargs="?", metavar="HOST:PORT", type=address, help=_WHICH)
    options.add_argument("--server", "-b", metavar="HOST:PORT", type=address, help="the same")


def server_of(options: argparse.ArgumentParser, given: argparse.Namespace) -> str:
    """The broker that `server_argument` was given."""
    if given.address and given.server and given.address != given.server:
        options.error(f"{given.address} and --server {given.server} are two brokers; drop one of them")
    return given.address or given.server or DEFAULT_SERVER


def address(text: str) -> str:
    """`host:port` as it is, `PLAINTEXT://` before it or not; a data directory's path as that of the socket in it."""
    if "://" in text:
        protocol, _, rest = text.partition("://")
        if protocol.upper() != "PLAINTEXT":
            raise argparse.ArgumentTypeError(f"{text}: write host:port, without {protocol}://")
        text = rest
    if "/" not in text:
        return text
    path = os.path.abspath(text)
    return os.path.join(path, "barnabas.socket") if os.path.isdir(path) else path

"""Asks a broker's HTTP side, with a socket and nothing else: importing an HTTP client takes longer than the answer."""

from __future__ import annotations

import json
import socket
from typing import Any, Final

from barnabas.protocol.errors import BarnabasError, ConfigError

DEFAULT: Final = "localhost:9092"
_PORT_MAX: Final = 65535
_PORT_DIGITS_MAX: Final = 18
_ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024


class NoBroker(BarnabasError, ConnectionError):
    """Nobody answers there."""


def get(server: str, path: str, timeout_s: float = 5.0) -> tuple[int, str]:
    """Status and body of one page.

    Raises:
        NoBroker: the server cannot be reached.
        BarnabasError: it does not answer like one.
    """
    address = server if server.startswith("/") else split(server)
    data = bytearray()
    try:
        with _connect(address, timeout_s) as sock:
            sock.settimeout(timeout_s)
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            while piece := sock.recv(65536):
                data += piece
                if len(data) > _ANSWER_BYTES_MAX:
                    raise BarnabasError(f"{server} answers {path} with more than {_ANSWER_BYTES_MAX} bytes")
    except OSError as error:
        # Whether a socket is closed before or after the question has come is chance, and told as two things.
        if data or not isinstance(error, ConnectionResetError | BrokenPipeError):
            raise NoBroker(
                f"no broker answers on {server} ({error.strerror or error}); start one: barnabas broker"
            ) from error
    if not data:
        raise BarnabasError(
            f"{server} closed the connection without a word: it is no Barnabas broker, or one that takes no more "
            "(max.connections); on its machine, its data directory's path in place of host:port asks it all the same"
        )
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    words = head.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise BarnabasError(f"{server} does not speak HTTP beside Kafka; this command needs a Barnabas broker")
    return int(words[1]), body.decode()


def _connect(address: str | tuple[str, int], timeout_s: float) -> socket.socket:
    if not isinstance(address, str):
        return socket.create_connection(address, timeout_s)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout_s)
        sock.connect(address)
    except BaseException:
        sock.close()
        raise
    return sock


def state(server: str) -> dict[str, Any]:
    """The broker's snapshot.

    Raises:
        BarnabasError: see `get`.
    """
    status, body = get(server, "/state")
    if status != 200:
        raise BarnabasError(f"{server} answers /state with status {status}")
    found: dict[str, Any] = json.loads(body)
    return found


def split(server: str) -> tuple[str, int]:
    """Host and port of `host:port`.

    Raises:
        ConfigError: it is not of that form, or no port.
    """
    host, colon, port = server.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit()):
        raise ConfigError(f"{server!r} is no address; write host:port such as {DEFAULT}, or a data directory's path")
    number = int(port[:_PORT_DIGITS_MAX])
    if not 0 < number <= _PORT_MAX:
        raise ConfigError(f"{server[:80]!r}: {port[:20]} is no port; ports go from 1 to {_PORT_MAX}")
    return host.strip("[]"), number

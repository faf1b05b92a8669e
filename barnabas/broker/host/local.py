"""The administrator's way in: a Unix socket in the data directory, of mode 0600.

Only the user who runs the broker can open it (and the superuser), so that no flood from outside takes it: neither
limits of connections nor names of hosts are asked of it. It speaks what the other listeners speak, and tells its
clients its own path as the broker's address. The command line takes it as `--server ./DIRECTORY`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from typing import Final

from barnabas.broker.config.listeners import LOCAL, Endpoint
from barnabas.broker.host.disk_calls import FILE_MODE
from barnabas.broker.host.sockets import Listening

NAME: Final = "barnabas.socket"
_PATH_BYTES_MAX: Final = 103
"""What every system takes: 108 bytes on Linux and 104 on macOS, the zero behind it included."""

logger = logging.getLogger(__name__)


def listen_locally(data_dir: str, port: int, backlog: int) -> Listening | None:
    """Listen in a data directory that is ours (locked); None, and a line that says why, where that cannot be.

    `port` is told to clients as the port of this address, and means nothing.
    """
    path = os.path.join(os.path.abspath(data_dir), NAME)
    if not hasattr(socket, "AF_UNIX"):
        return None
    if len(os.fsencode(path)) > _PATH_BYTES_MAX:
        logger.warning(
            "no local socket: %s is longer than the %d bytes a socket's name may have; a data directory with a shorter "
            "path has one",
            path,
            _PATH_BYTES_MAX,
        )
        return None
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        forget_socket(path)
        with contextlib.suppress(OSError):  # on Linux the file is made with the socket's mode; others make it by umask
            os.fchmod(sock.fileno(), FILE_MODE)
        sock.bind(path)
        os.chmod(path, FILE_MODE)
        sock.listen(backlog)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        logger.warning("no local socket: %s: %s", path, error.strerror or error)
        return None
    return Listening(Endpoint(LOCAL, path, port), (sock,))


def forget_socket(path: str) -> None:
    """Remove the socket, which a broker that was killed leaves behind."""
    with contextlib.suppress(OSError):
        os.unlink(path)

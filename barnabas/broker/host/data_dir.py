"""The data directory: where it is unless somebody says so, and one broker in it at a time.

The lock is on the directory itself and leaves no file behind; the system releases it with the process, however that
ends. What lies inside is judged by the core (`DataDirError`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from barnabas.broker.host.disk_calls import DIRECTORY_MODE
from barnabas.protocol.errors import BarnabasError


class DataDirUnusable(BarnabasError):
    """A data directory that cannot be served from: says which, why, and what to do."""


def default_data_dir(environment: Mapping[str, str], platform: str = sys.platform) -> str:
    """`$XDG_DATA_HOME/barnabas`, or what the platform has in its place.

    Source: XDG Base Directory Specification; a relative $XDG_DATA_HOME is to be ignored.
    """
    named = environment.get("XDG_DATA_HOME", "")
    if named and os.path.isabs(named):
        return os.path.join(named, "barnabas")
    home = environment.get("HOME") or os.path.expanduser("~")
    if platform == "darwin":
        return os.path.join(home, "Library", "Application Support", "barnabas")
    if platform == "win32":
        return os.path.join(environment.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local"), "barnabas")
    return os.path.join(home, ".local", "share", "barnabas")


class DataDirLock:
    """Holds a data directory for this process.

    Raises:
        DataDirUnusable: it cannot be made or written, or another broker serves from it.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._handle: int | None = None
        try:
            os.makedirs(path, DIRECTORY_MODE, exist_ok=True)
        except OSError as error:
            raise DataDirUnusable(f"data directory {path} cannot be made: {error.strerror}; name another") from error
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise DataDirUnusable(
                f"data directory {path} is not writable for this user; change its owner, or name another"
            )
        self._lock()

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # a platform without flock: nothing keeps a second broker out
            return
        handle = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(handle)
            raise DataDirUnusable(
                f"another broker serves from {self.path}; stop it, or name another directory"
            ) from error
        except OSError:  # a file system without locks (some network ones)
            os.close(handle)
            return
        self._handle = handle

    def release(self) -> None:
        """Let the next broker in. In the child of a fork, which shares the lock: let go of it, the parent keeps it."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

"""The system calls of the real disk that need more than one line: what each system has, and in which order.

Split from `disk_file.py`; nothing here knows of names or completions.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Sequence
from typing import Final

from barnabas.broker.pages import Copied
from barnabas.protocol.ids import Buffer

NOWAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)
TEMPORARY: Final = ".tmp"
FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
"""Records are their owner's to read, whatever the umask says."""
NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""A file of ours that is a link was put there by somebody else: opening it fails (ELOOP). So was a pipe: opening it
would wait for another end, for good; without waiting it is an empty file, or refused (ENXIO)."""
_HANDLES_MAX: Final = 4096
_SPARE_MAX: Final = 1500


def open_files_max() -> int:
    """How many files and sockets this process may have open."""
    try:
        import resource
    except ImportError:  # Windows: what its C runtime allows
        return 8192
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft if soft >= 0 else 2**31 - 1


def raise_open_files_max() -> None:
    """Let this process open as many files as its system allows it (the Java of Apache Kafka does so, too)."""
    try:
        import resource
    except ImportError:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS calls it unlimited and allows less
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def spare_handles() -> int:
    """Handles of neither connections nor files: those just accepted, those of threads, and the process' own."""
    return min(open_files_max() // 4, _SPARE_MAX)


def default_handles_max() -> int:
    """How many files, and as many maps of files, may be open: connections have half of what the process may have."""
    files_max = open_files_max()
    return max(32, min((files_max - files_max // 2 - spare_handles()) // 2, _HANDLES_MAX))


def read_now(fd: int, count: int, position: int) -> Buffer | None:
    """Bytes that are in the page cache; None if some are not."""
    if NOWAIT is None:
        return os.pread(fd, count, position)
    data = Copied(count)
    try:
        got = os.preadv(fd, [data], position, NOWAIT)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
            raise
        return os.pread(fd, count, position)
    return data if got == count else None


def read_whole(fd: int, count: int, position: int) -> bytes:
    """Up to `count` bytes, waiting for the device; fewer only at the end of the file."""
    parts = []
    while count > 0:
        data = os.pread(fd, count, position)
        if not data:
            break
        parts.append(data)
        position += len(data)
        count -= len(data)
    return b"".join(parts)


def write_many(fd: int, buffers: Sequence[Buffer], position: int) -> int:
    """Write buffers one after the other; returns the bytes written, which may be fewer."""
    if hasattr(os, "pwritev") and len(buffers) <= 1024:
        return os.pwritev(fd, buffers, position)
    return os.pwrite(fd, b"".join(buffers), position)


def sync_handle(fd: int) -> None:
    """fdatasync; on macOS the command that makes the drive write its own cache too."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
        return
    try:
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # type: ignore[attr-defined]
    except (ImportError, AttributeError, OSError):
        os.fsync(fd)


def named(error: OSError, path: str, position: int | None = None) -> OSError:
    """The same error, which says of which file it speaks (calls on a handle do not), and of which byte."""
    where = "" if position is None else f" at byte {position}"
    return OSError(error.errno, f"{error.strerror or error}{where}", path)


def copy(source: int, target: int, size: int) -> None:
    """Copy the first `size` bytes from one file to another."""
    position = 0
    while position < size:
        data = os.pread(source, min(1 << 20, size - position), position)
        if not data:
            raise OSError(errno.EIO, "file is shorter than it was")
        count = os.pwrite(target, data, position)
        if not count:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        position += count  # what a short write left is read again

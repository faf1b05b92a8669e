"""The data directory as a handle: every call of the real disk goes relative to it.

Whoever renames the directory under a living broker takes it along: the broker goes on in its own directory, and another
of the old name is another's. No link inside it is followed, be it to a file or to a directory. Where the system has no
such calls (Windows, which renames nothing that is in use) paths are whole. Calls on an open file, and the order of
several calls, are in `disk_calls`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import Final

from barnabas.broker.host.disk_calls import (
    DIRECTORY_MODE,
    FILE_MODE,
    NO_LINK,
    TEMPORARY,
    named,
    read_whole,
    sync_handle,
)

_RELATIVE: Final = {os.open, os.stat, os.mkdir, os.rename, os.unlink, os.rmdir} <= os.supports_dir_fd
_DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
_READ: Final = os.O_RDONLY | NO_LINK
_WRITE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | NO_LINK


class Root:
    """A data directory that is held open. Paths are relative to it, with `/`; errors are OSError and name the path.

    Raises:
        OSError: there is none.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.path.abspath(path)
        self._fd = os.open(self.path, _DIRECTORY) if _RELATIVE else None

    def close(self) -> None:
        """Release the handle: every later call fails."""
        if self._fd is not None and self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def within(self, directory: str) -> Root:
        """A directory of this one, held for itself: whoever renames it takes along what is done in it.

        Raises:
            OSError: there is none, or a link is in its place.
        """
        inner = Root.__new__(Root)
        inner.path = f"{self.path}/{directory}"
        if self._fd is None:
            self._pass(f"{directory}/")
            inner._fd = None
        else:
            inner._fd = self.open(directory or ".", _DIRECTORY | NO_LINK)
        return inner

    def room(self) -> tuple[int, int]:
        """Bytes of the volume, and those that may still be written; -1 for both where the system does not say."""
        try:
            found = os.statvfs(self.path if self._fd is None else self._fd)
        except (AttributeError, OSError):
            return -1, -1
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def _at(self, path: str) -> str:
        """The path as the system's calls take it.

        Raises:
            OSError: ELOOP, see `_pass`.
        """
        self._pass(path)
        return self._whole(path)

    def _pass(self, path: str) -> None:
        """Look at the directories on the way of a path, up to its last `/`: the system follows links to them.

        Raises:
            OSError: ELOOP, one of them is a link, which somebody else put there.
        """
        end = path.find("/")
        while end > 0:
            if self._is_link(path[:end]):
                raise OSError(errno.ELOOP, f"{path[:end]} is a link, and none is followed", path)
            end = path.find("/", end + 1)

    def _whole(self, path: str) -> str:
        if self._fd is None:
            return f"{self.path}/{path}" if path else self.path
        return path or "."

    def _is_link(self, path: str) -> bool:
        try:
            return stat.S_ISLNK(os.lstat(self._whole(path), dir_fd=self._fd).st_mode)
        except OSError:  # whoever goes on says what is wrong
            return False

    def open(self, path: str, flags: int) -> int:
        """A handle of a file."""
        return os.open(self._at(path), flags, FILE_MODE, dir_fd=self._fd)

    def size(self, path: str) -> int:
        """Bytes of a file."""
        return os.stat(self._at(path), dir_fd=self._fd).st_size

    def exists(self, path: str) -> bool:
        """Whether a file or directory of that name is there."""
        try:
            os.stat(self._at(path), dir_fd=self._fd)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def names(self, path: str) -> Iterator[str]:
        """Names in a directory, one by one."""
        if path:
            self._pass(f"{path}/")
        if self._fd is None:
            yield from _names(self._whole(path))
            return
        fd = os.open(self._whole(path), _DIRECTORY | NO_LINK, dir_fd=self._fd)
        try:
            yield from _names(fd)
        finally:
            os.close(fd)

    def make_dir(self, path: str) -> None:
        """Make a directory and those above it; those that are there stay."""
        for end in [at for at, letter in enumerate(path) if letter == "/"] + [len(path)]:
            try:
                os.mkdir(self._at(path[:end]), DIRECTORY_MODE, dir_fd=self._fd)
            except FileExistsError:
                if end == len(path) and not self._is_directory(path):
                    raise

    def _is_directory(self, path: str) -> bool:
        try:
            os.close(self.open(path, _DIRECTORY | NO_LINK))
        except NotADirectoryError:
            return False
        return True

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory, replacing a file of that name."""
        os.replace(self._at(old), self._at(new), src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def unlink(self, path: str) -> None:
        """Remove a file."""
        os.unlink(self._at(path), dir_fd=self._fd)

    def remove(self, path: str) -> None:
        """Remove a file or a directory tree; nothing happens when it is absent."""
        try:
            self.unlink(path)
        except FileNotFoundError:
            return
        except (IsADirectoryError, PermissionError):  # the latter is what macOS says of a directory
            if not self._is_directory(path):
                raise
            import shutil

            shutil.rmtree(self._at(path), dir_fd=self._fd)

    def load(self, path: str) -> bytes:
        """The whole of a small file."""
        fd = self.open(path, _READ)
        try:
            return read_whole(fd, os.fstat(fd).st_size, 0)
        except OSError as error:
            raise named(error, path) from error
        finally:
            os.close(fd)

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""
        fd = self.open(path, _DIRECTORY | (NO_LINK if path else 0))
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def replace(self, *files: tuple[str, bytes], durable: bool = True) -> None:
        """Replace files of one directory, each as a whole: temporary file, sync, rename, one sync of the directory.

        With `durable` false without the syncs.
        """
        try:
            for path, data in files:
                self._write(path + TEMPORARY, data, durable)
            for path, _ in files:
                self.rename(path + TEMPORARY, path)
        except OSError:
            for path, _ in files:  # what is left of them only takes room, of which there may be none
                with contextlib.suppress(OSError):
                    self.unlink(path + TEMPORARY)
            raise
        if durable:
            self.sync_directory(os.path.dirname(files[0][0]))

    def _write(self, path: str, data: bytes, durable: bool) -> None:
        fd = self.open(path, _WRITE)
        try:
            view = memoryview(data)
            while len(view):
                view = view[os.write(fd, view) :]
            if durable:
                sync_handle(fd)
        finally:
            os.close(fd)


def _names(where: int | str) -> Iterator[str]:
    with os.scandir(where) as entries:
        for entry in entries:
            yield entry.name

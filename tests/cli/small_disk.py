"""A small file system for tests of a full disk: filled to the last byte, or to the last name, and freed."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
from pathlib import Path

BLOCK = bytes(256 * 1024)


class SmallDisk:
    """Some memory as a file system of its own, in a namespace of its own: `inside` runs a command there.

    `size` bytes and `names` of files, in the words of tmpfs. `data` is a directory of it, as commands inside call it;
    `seen` is the same, as everybody does.

    Raises:
        OSError: this machine gives no such thing.
    """

    def __init__(self, where: Path, size: str, names: str) -> None:
        where.mkdir()
        self.data = where / "data"
        mount = f"mount -t tmpfs -o size={size},nr_inodes={names} tmpfs '{where}' && mkdir '{self.data}'"
        mount += " && echo mounted && exec sleep 600"
        self.holder = subprocess.Popen(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.holder.stdout is not None
        if self.holder.stdout.readline() != "mounted\n":
            self.end()
            raise OSError("no user namespaces here: a small file system cannot be made")
        pid = self.holder.pid
        self.inside = ("nsenter", f"--target={pid}", "--user", "--mount", "--preserve-credentials", "--wd=/")
        self.seen = Path(f"/proc/{pid}/root{self.data}")
        self._ballast = self.seen.with_name("ballast")
        self._names = self._ballast.with_name("names")

    def fill(self) -> None:
        """Leave not one byte."""
        with self._ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            size = len(BLOCK)
            while size:
                try:
                    file.write(BLOCK[:size])
                except OSError:
                    size //= 2
        assert os.statvfs(self._ballast.parent).f_bavail < 64, "what the broker gives back meanwhile is little"

    def fill_names(self) -> None:
        """Leave room for bytes, and for not one file more."""
        self._names.mkdir()
        with contextlib.suppress(OSError):
            for number in itertools.count():
                (self._names / str(number)).touch()

    def free(self) -> None:
        """Give the room back."""
        self._ballast.unlink(missing_ok=True)
        shutil.rmtree(self._names, ignore_errors=True)

    def end(self) -> None:
        self.holder.kill()
        self.holder.wait()
        assert self.holder.stdout is not None
        self.holder.stdout.close()

"""Small programs of our own in a directory that nobody else can write: a Java and a Python for Spark to start."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from barnabas.protocol.errors import BarnabasError


class ForeignDirectory(BarnabasError):
    """The directory for our programs belongs to another user."""


def own_dir(name: str) -> Path:
    """A directory of this user under the system's temporary one."""
    return Path(tempfile.gettempdir()) / f"barnabas-{name}-{os.getuid()}"


def write_script(directory: Path, name: str, text: str) -> Path:
    """Puts a program into `directory/bin`, at once or not at all; one that is there already is left alone.

    Raises:
        ForeignDirectory: the directory belongs to somebody else.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    if directory.is_symlink() or directory.stat().st_uid != os.getuid():
        raise ForeignDirectory(f"{directory} belongs to somebody else")
    script = directory / "bin" / name
    script.parent.mkdir(exist_ok=True)
    if not script.exists() or script.read_text() != text:
        fresh = script.with_name(f"{name}.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o700)
        fresh.replace(script)
    return script

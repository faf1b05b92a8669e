"""The Python that Spark starts: the one that runs now, without the detour over PySpark's zip files.

Spark puts its own `pyspark.zip` first on the path of every Python it starts. A zip holds no bytecode: each new process
compiles PySpark anew, half a second for every streaming query and twice that for the first worker. Where the package
that is installed for this Python is the one in use here (not that of a `SPARK_HOME`, say), it has its bytecode: a small
script drops the zips from the path and runs Python.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from importlib.util import find_spec
from pathlib import Path

from barnabas.spark_bridge.scripts import ForeignDirectory, own_dir, write_script

_SECONDS_MAX = 20
_PACKAGES = ("pyspark", "py4j")
_PLACES = f"from importlib.util import find_spec; print([s and s.origin for s in map(find_spec, {_PACKAGES})])"

# Spark asks a shell whether there is such a Python, with its path unquoted: that of the script must be a plain one.
_SCRIPT = """#!/bin/sh
rest=; set -f; IFS=:
for each in $PYTHONPATH; do
    case "$each" in */pyspark.zip|*/py4j-*-src.zip) ;; *) rest="$rest${rest:+:}$each" ;; esac
done
unset IFS
PYTHONPATH=$rest exec "%s" "$@"
"""


def python_for_spark(directory: Path | None = None) -> str:
    """A program that is this Python with a faster start, or this Python itself where that cannot be had.

    Args:
        directory: where the script is put; a directory of this user under the system's temporary one unless given.
    """
    if not hasattr(os, "getuid") or any(letter in sys.executable for letter in '"$`\\'):  # no POSIX shell, or too much
        return sys.executable
    try:
        # A directory for each Python: sessions of several environments may run at once.
        own = own_dir(f"python-{zlib.crc32(sys.executable.encode()):08x}")
        script = str(write_script(directory or own, "python", _SCRIPT % sys.executable))
        # A temporary directory may forbid programs, or another checkout's script may just have gone.
        done = subprocess.run(  # noqa: S603
            [script, "-c", _PLACES], capture_output=True, text=True, timeout=_SECONDS_MAX, check=False
        )
    except (ForeignDirectory, OSError, subprocess.TimeoutExpired):
        return sys.executable
    here = [spec and spec.origin for spec in map(find_spec, _PACKAGES)]
    return script if done.returncode == 0 and done.stdout.strip() == str(here) else sys.executable

"""The Python that Spark starts: the one that runs now, without the detour over PySpark's zip files.

Spark puts its own `pyspark.zip` first on the path of every Python it starts. A zip holds no bytecode: each new process
compiles PySpark anew, half a second for every streaming query and twice that for the first worker. The installed
package is the same one and has its bytecode, so a two-line script drops the zips from the path and runs Python.
"""

from __future__ import annotations

import subprocess
import sys
import zlib
from pathlib import Path

from barnabas.spark_bridge.scripts import ForeignDirectory, own_dir, write_script

_SECONDS_MAX = 20

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
    if any(letter in sys.executable for letter in '"$`\\'):
        return sys.executable
    try:
        # A directory for each Python: sessions of several environments may run at once.
        own = own_dir(f"python-{zlib.crc32(sys.executable.encode()):08x}")
        script = str(write_script(directory or own, "python", _SCRIPT % sys.executable))
        # A temporary directory may forbid programs, or another checkout's script may just have gone.
        done = subprocess.run([script, "-c", ""], capture_output=True, timeout=_SECONDS_MAX, check=False)  # noqa: S603
    except (ForeignDirectory, OSError, subprocess.TimeoutExpired):
        return sys.executable
    return script if done.returncode == 0 else sys.executable

"""A program that imports the bridge is looked after by its own Python.

Spark looks formats up, plans and works in the first `python3` of the path, unless PYSPARK_PYTHON names another. A
program that is started as `venv/bin/python job.py` has the path of the shell, where another Python comes first, which
knows no format of this environment: DATA_SOURCE_NOT_FOUND. Spark starts its JVM with the environment of the program, so
what is set before the first session counts.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

_CHOSEN = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")


def prefer_this_python() -> None:
    """Sets PYSPARK_PYTHON to this Python where nobody chose one and the path's `python3` is another."""
    if any(name in os.environ for name in _CHOSEN) or not sys.executable:
        return
    first = shutil.which("python3")
    # Not the files: those of all environments may be links to one Python. An environment is where its links are.
    if first is None or not Path(first).parent.samefile(Path(sys.executable).parent):
        os.environ["PYSPARK_PYTHON"] = sys.executable

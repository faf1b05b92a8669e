"""Rows of the PySpark source against Spark's own Kafka connector, on our broker and in one session.

The connector comes through Maven and is kept in `~/.cache/barnabas` (`$XDG_CACHE_HOME` counts). Where it cannot be had,
our figures stand alone and say why.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks import load, servers
from tests.benchmarks.peers.clients import PARTITIONS
from tests.benchmarks.report import Row
from tests.benchmarks.servers import Peers, Server

COUNTS = {100: 3_000_000, 1024: 600_000}
LABELS = {100: "100 B", 1024: "1 KB"}
BARS = {100: (2.0, 3.0), 1024: (1.2, 2.0)}
LATENCY_MS_BARS = (150.0, 90.0)
SECONDS_MAX = 200
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


def connector() -> str:
    """The jars of Spark's own Kafka connector as a comma list, fetched by Maven the first time.

    Raises:
        ConnectorUnavailable: no Maven, or Maven failed.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "barnabas"
    done = cache / f"spark-kafka-{JARS[0].rsplit(':', 1)[1]}"
    if not done.is_dir():
        _fetch(cache, done)
    return ",".join(sorted(map(str, done.glob("*.jar"))))


def _fetch(cache: Path, done: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ConnectorUnavailable("Spark's connector comes through Maven: install mvn (Debian: apt install maven)")
    parts = [
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
        for group, name, version in (jar.split(":") for jar in JARS)
    ]
    project = (
        "<modelVersion>4.0.0</modelVersion><groupId>bench</groupId><artifactId>bench</artifactId><version>1</version>"
    )
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as work:
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
            jars.rename(done)


def _fill(server: Server, size: int) -> str:
    topic = f"spark-{size}"
    load.create_topic(server, topic, PARTITIONS)
    subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.peers.clients", "ours_produce", server.bootstrap, topic,
         str(COUNTS[size] - 1), str(size)],  # the client sends one before it counts
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    return f"{topic}:{COUNTS[size]}"


def _measured(server: Server, jars: str) -> list[dict[str, Any]]:
    """All figures of one session, as far as it came, and what went wrong if anything did."""
    topics = [_fill(server, size) for size in COUNTS]
    command = [sys.executable, "-m", "tests.benchmarks.peers.spark", server.bootstrap, jars, *topics]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired as error:
        said, trouble = error.stdout or b"", f"Spark took longer than {SECONDS_MAX} s"
        lines = said.decode() if isinstance(said, bytes) else said
    else:
        lines, trouble = run.stdout, "" if run.returncode == 0 else (run.stderr.strip().splitlines() or ["?"])[-1]
    figures = [json.loads(line) for line in lines.splitlines()]
    return [*figures, *([{"trouble": trouble}] if trouble else [])]


def rows(_peers: Peers) -> Iterator[Row]:
    """Batch and streaming reads of 100-byte and 1 KB records, and one record to `foreachBatch`."""
    notes = []
    try:
        jars = connector()
    except ConnectorUnavailable as error:
        jars, notes = "", [str(error)]  # our figures stand alone then
    with servers.barnabas() as server:
        figures = _measured(server, jars)
    notes += [figure["trouble"] for figure in figures if "trouble" in figure]
    rates = {(each["read"], each["topic"], each["format"]): each["rows_per_s"] for each in figures if "read" in each}
    for size, label in LABELS.items():
        for way in ("batch", "stream"):
            ours, theirs = (rates.get((way, f"spark-{size}", name)) for name in ("barnabas", "kafka"))
            must, aim = BARS[size]
            yield Row(
                f"Spark {way} read {label}", "rows/s", ours, "Spark's connector", theirs, must, aim, notes=list(notes)
            )
    waits = {each["format"]: each["latency_ms"] for each in figures if "latency_ms" in each}
    must, aim = LATENCY_MS_BARS
    told = [f"{name}: p50 {statistics.median(found):.0f} ms, p90 {statistics.quantiles(found, n=10)[-1]:.0f} ms, "
            f"slowest {max(found):.0f} ms" for name, found in waits.items()]  # fmt: skip
    ours = statistics.median(waits["barnabas"]) if "barnabas" in waits else None
    yield Row(
        "one record to foreachBatch p50, tuned session", "ms", ours, must=must, aim=aim, better="less",
        notes=[*told, *notes],
    )  # fmt: skip

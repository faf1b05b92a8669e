"""The two brokers that scenarios are played against, as child processes with the same settings."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Protocol

from tests.oracle.kafka import Kafka, answers_api_versions, free_port

# Both brokers look at their logs often, so that retention and compaction come within a scenario's patience.
SETTINGS = {
    "auto.create.topics.enable": "true",
    "log.cleaner.backoff.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "500",
}

# Apache Kafka walks every record of every batch; ours does so when told to.
OUR_SETTINGS = {"barnabas.validate.records": "full"}

START_SECONDS_MAX = 20.0
STOP_SECONDS_MAX = 10.0


class Target(Protocol):
    """A broker that can be started, stopped cleanly and killed; a restart keeps its port and its data."""

    name: str
    port: int
    data_dir: Path

    def start(self) -> None:
        """Start, and return once it serves."""

    def stop(self) -> None:
        """Stop cleanly."""

    def kill(self) -> None:
        """SIGKILL."""


class ApacheKafka:
    """Apache Kafka 4.3.0."""

    name = "Apache Kafka"

    def __init__(self, directory: Path) -> None:
        self._kafka = Kafka(directory, SETTINGS, quick=True)
        self.port, self.data_dir = self._kafka.port, self._kafka.data_dir
        self.start, self.stop, self.kill = self._kafka.start, self._kafka.stop, self._kafka.kill


class Barnabas:
    """Our broker, `python -m barnabas.broker`, in a process of its own."""

    name = "Barnabas"

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        self.port = free_port()
        self.data_dir = directory / "data"
        self._directory = directory
        self._settings = {**SETTINGS, **OUR_SETTINGS, **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and return once ApiVersions is answered.

        Raises:
            RuntimeError: it ended instead; the text is what it printed.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        config = self._directory / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))
        arguments = ["--port", str(self.port), "--data-dir", str(self.data_dir), "--config", str(config)]
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("BARNABAS_", "KAFKA_"))}
        with (self._directory / "broker.out").open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "barnabas.broker", *arguments],
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=environment,
            )
        deadline = time.monotonic() + START_SECONDS_MAX
        while not answers_api_versions(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the broker did not start:\n{self.output()[-3000:]}")
            threading.Event().wait(0.02)

    def output(self) -> str:
        """What the process printed."""
        return (self._directory / "broker.out").read_text(errors="replace")

    def stop(self) -> None:
        """Stop cleanly (SIGTERM)."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(number)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

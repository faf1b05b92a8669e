"""What the workload does its deeds to: a broker that can be asked, killed at any moment, and started again."""

from __future__ import annotations

from typing import Any, Protocol

from tests.durability.model import Broken

SETTINGS = {
    "log.initial.task.delay.ms": 50,
    "log.flush.offset.checkpoint.interval.ms": 200,
    "log.flush.start.offset.checkpoint.interval.ms": 150,
    "replica.high.watermark.checkpoint.interval.ms": 100,
    "log.retention.check.interval.ms": 250,
    "log.cleaner.backoff.ms": 100,
    "metadata.log.max.record.bytes.between.snapshots": 4000,
}
"""In a hasty life everything that is due from time to time is due many times in a second."""


class Gone(Exception):
    """The broker is no more, or does not answer: nobody knows what became of what was asked."""


class Refused(Broken):
    """The broker did not start; `sentence` is what it said."""

    def __init__(self, sentence: str) -> None:
        super().__init__(f"the broker does not start: {sentence}")
        self.sentence = sentence


class Target(Protocol):
    """One broker on one data directory.

    `patience` is how long something is waited for until the broker is killed or the caller goes on: in steps of the
    core in memory, in half milliseconds for a process; None waits for it whatever it takes.

    Attributes:
        said: what the broker's log said since the last start, a line each.
        hasty: whether the next life is one of `SETTINGS`, else of the defaults: only a clean stop writes checkpoints.
    """

    said: list[str]
    hasty: bool

    def start(self, patience: int | None = None) -> bool:
        """Start it; with a patience, kill it after that. Whether it serves.

        Raises:
            Refused: it ended by itself.
        """

    def kill(self) -> None:
        """End the process at once."""

    def stop(self, patience: int | None = None) -> bool:
        """Ask it to stop, and kill it when patience ends. Whether it came to its end by itself."""

    def send(self, request: Any, version: int) -> int:
        """Send a request; the number that its answer will carry."""

    def collect(self, patience: int | None = None) -> tuple[int, Any] | None:
        """The next answer and its number; None when patience ends.

        Raises:
            Gone: none will come.
        """

    def rest(self, ms: int) -> None:
        """Let it keep house for so long."""

    def fill(self, full: bool) -> None:
        """Let the disk be full, or have room again."""

    def wall_ms(self) -> int:
        """Time of day at the broker."""

    def files(self) -> list[str]:
        """Every file below the data directory."""

    def load(self, path: str) -> bytes:
        """A file's bytes, as they lie there."""

    def put(self, path: str, data: bytes | None) -> None:
        """Replace a file's bytes behind the broker's back; None removes it."""


def ask(target: Target, request: Any, version: int) -> Any:
    """Send one request and wait for its answer; nothing else may be under way.

    Raises:
        Gone: none came.
    """
    number = target.send(request, version)
    answer = target.collect()
    assert answer is not None
    if answer[0] != number:
        raise Broken(f"request {number} was asked, {answer[0]} is answered")
    return answer[1]

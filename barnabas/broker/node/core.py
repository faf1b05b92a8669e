"""The core: one whole broker without sockets, threads, clocks or chance.

    core = Core(config, disk=disk, clock=clock, entropy=entropy)
    core.set_endpoints(advertised_endpoints(config, bound))
    core.start(now_ms)
    while core.run_job_step(): ...           # recovery, one bounded step at a time
    core.handle(request, context, now_ms)    # context.respond(...) is called now or later
    core.tick(now_ms)                        # whenever core.next_deadline_ms() has come

All times are monotonic whole ms, given by the caller and never going back. Every method must be called on one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from barnabas.broker.config import BrokerConfig
from barnabas.broker.config.listeners import Endpoint
from barnabas.broker.context import Connection, RequestContext
from barnabas.broker.ports import Controller, Disk, Entropy, WallClock


class Core:
    """Assembles all rooms of one broker. `registry` is the metrics registry (a fresh one when None)."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        disk: Disk,
        clock: WallClock,
        entropy: Entropy,
        registry: Any | None = None,
        controller: Controller | None = None,
    ) -> None:
        self.config = config
        self.on_jobs: Callable[[], None] = lambda: None
        """Called when a job can be stepped again (also from within other methods): arrange for `run_job_step`."""

    @property
    def ready(self) -> bool:
        """Whether all logs are recovered and the broker leads its partitions."""
        raise AssertionError

    def set_endpoints(self, endpoints: Sequence[Endpoint]) -> None:
        """Say what clients are to connect to; before `start`."""

    def start(self, now_ms: int) -> None:
        """Read the metadata log and recover all logs, as jobs. Requests may come at once.

        Raises:
            DataDirError: the data directory is foreign, or of a newer format.
        """

    def handle(self, request: Any, context: RequestContext, now_ms: int) -> None:
        """Serve one request; never raises. The answer goes to `context.respond`, now or later."""

    def tick(self, now_ms: int) -> None:
        """Run what is due: expired operations, scheduled work."""

    def next_deadline_ms(self) -> int | None:
        """When `tick` must be called next (monotonic ms), or None when nothing is scheduled."""
        raise AssertionError

    def run_job_step(self, now_ms: int) -> bool:
        """One bounded step of the next job. True while a further step can be run at once."""
        raise AssertionError

    def wake(self, now_ms: int) -> None:
        """To be called after completions of the disk (tokens, syncs) have run: drains what they left to do."""

    def connected(self, connection: Connection) -> None:
        """A connection was accepted."""

    def disconnected(self, connection: Connection) -> None:
        """A connection is gone. Its parked operations stay until they complete; their answers go nowhere."""

    def snapshot(self, now_ms: int) -> dict[str, Any]:
        """All that can be looked at, as plain values that JSON can hold."""
        raise AssertionError

    def stop(self, now_ms: int, done: Callable[[], None]) -> None:
        """Flush all logs, write the checkpoints and the clean shutdown marker, then call `done`."""

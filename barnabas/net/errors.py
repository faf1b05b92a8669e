"""What goes wrong on the client's side of the wire. What a broker answered is a `KafkaError` (protocol floor)."""

from __future__ import annotations

from typing import Final

from barnabas.protocol.errors import BarnabasError, ConfigError, ErrorCode, KafkaError

__all__ = [
    "NOT_STARTED",
    "ClientClosed",
    "ClientTimeout",
    "ConfigError",
    "Disconnected",
    "FeatureMissing",
    "MalformedAnswer",
    "WaitRefused",
    "raise_it",
]


class ClientTimeout(BarnabasError, TimeoutError):
    """The deadline the caller gave passed first (Kafka's TimeoutException)."""

    @property
    def retriable(self) -> bool:
        """Yes: the cluster may answer later."""
        return True


NOT_STARTED: Final = "not started: await start() first, or use it with `async with`"
"""Why an asyncio client that nobody started is of no use."""


class ClientClosed(BarnabasError, RuntimeError):
    """The producer, consumer or admin client was closed before, or while, the call was made, or was never started."""


def raise_it(error: BaseException) -> None:
    """What becomes of a callback's `sys.exit` where nobody says otherwise: the same."""
    raise error


class WaitRefused(BarnabasError, RuntimeError):
    """A wait on the very thread that would bring what is waited for: it would never end."""


class FeatureMissing(BarnabasError):
    """The broker serves no version of the request that this release speaks."""


class Disconnected(KafkaError):
    """The connection went before the answer came; `timed_out` when the client itself closed it for want of one."""

    def __init__(self, detail: str, *, timed_out: bool = False) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, detail)
        self.timed_out = timed_out


class MalformedAnswer(Disconnected):
    """The answer broke the protocol or was none to the request, so the connection was closed."""

"""What goes wrong on the client's side of the wire. What a broker answered is a `KafkaError` (protocol floor)."""

from __future__ import annotations

from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError


class ConfigError(BarnabasError, ValueError):
    """A setting that is unknown, malformed, or at odds with another one."""


class ClientTimeout(BarnabasError, TimeoutError):
    """The deadline the caller gave passed first (Kafka's TimeoutException)."""


class ClientClosed(BarnabasError, RuntimeError):
    """The producer, consumer or admin client was closed before, or while, the call was made."""


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

"""Producer interceptors: a chain that sees each record before it is serialised and each outcome (KIP-42)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from barnabas.client.produce.records import OnDelivery, ProducerRecord, RecordMetadata
from barnabas.net.errors import ConfigError
from barnabas.protocol.errors import BarnabasError

log = logging.getLogger(__name__)


class ProducerInterceptor:
    """Base for interceptors; override what you need. An exception is logged and changes nothing else."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Called in the sending thread before serialisers; returns the record to go on with."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        """Called on the sender's side when a record was acknowledged or failed."""

    def close(self) -> None:
        """Called when the producer closes."""


class Interceptors:
    """The chain in the order it was given. A record that an interceptor fails on goes on as the one before left it."""

    __slots__ = ("_chain",)

    def __init__(self, chain: Sequence[Any]) -> None:
        self._chain = tuple(chain)

    @classmethod
    def of(cls, setting: Any) -> Interceptors:
        """From a setting: interceptors, or classes of them to be constructed without arguments.

        Raises:
            ConfigError: an item has no `on_send`.
        """
        items: Iterable[Any] = setting if isinstance(setting, (list, tuple)) else (setting,)
        chain = [item() if isinstance(item, type) else item for item in items if item is not None]
        for each in chain:
            if not hasattr(each, "on_send"):
                raise ConfigError(f"interceptor.classes: {each!r} has no on_send")
        return cls(chain)

    def __bool__(self) -> bool:
        return bool(self._chain)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Pass a record down the chain."""
        for each in self._chain:
            try:
                record = each.on_send(record)
            except Exception:
                log.exception("interceptor %r failed on a record for topic %s", each, record.topic)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        """Tell every interceptor of an outcome."""
        self._each("on_acknowledgement", lambda each: each.on_acknowledgement(metadata, error))

    def before(self, on_delivery: OnDelivery | None) -> OnDelivery:
        """A callback that tells every interceptor, and then `on_delivery`."""

        def told(metadata: RecordMetadata | None, error: BarnabasError | None) -> None:
            self.on_acknowledgement(metadata, error)
            if on_delivery is not None:
                on_delivery(metadata, error)

        return told

    def close(self) -> None:
        """Close every interceptor."""
        self._each("close", lambda each: each.close())

    def _each(self, what: str, call: Callable[[Any], None]) -> None:
        for each in self._chain:
            try:
                call(each)
            except Exception:
                log.exception("interceptor %r failed in %s", each, what)

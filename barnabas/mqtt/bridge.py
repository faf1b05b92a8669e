"""A bridge: the producer, the two directions, and what can be looked at."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from barnabas.aio import Producer
from barnabas.broker.metrics import MetricsRegistry
from barnabas.mqtt.figures import TYPE, Figures, Side, register, register_side
from barnabas.mqtt.inward import Inward
from barnabas.mqtt.link import first
from barnabas.mqtt.mapping import Rule
from barnabas.mqtt.outward import Outward
from barnabas.mqtt.producing import Producing
from barnabas.mqtt.settings import OutRule, Settings, address
from barnabas.mqtt.web import Web
from barnabas.net.backoff import Backoff
from barnabas.protocol.errors import BarnabasError, ConfigError, ErrorCode

STUCK_MS: Final = 30_000
"""A message that is open for so long says that Kafka takes nothing."""
DRAIN_SECONDS_MAX: Final = 10.0

log = logging.getLogger(__name__)


def now_ms() -> int:
    """Monotonic, whole ms."""
    return time.monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """Since the epoch."""
    return time.time_ns() // 1_000_000


class Bridge:
    """Everything of one bridge on the running loop. `start`, `serve` until cancelled, `stop`."""

    def __init__(self, settings: Settings, now_ms: Callable[[], int] = now_ms) -> None:
        self.settings = settings
        self._now_ms = now_ms
        self.figures = Figures()
        self.registry = MetricsRegistry()
        self.port = 0
        self.looking_in = ""  # address of the pages
        self._kafka = "Kafka has not answered yet"
        self._began_ms = now_ms()
        self._producing = Producing(lambda: Producer(settings.producer()))
        self.inward = Inward(settings, self._producing, self.figures, now_ms, wall_ms, random.random)
        self.outward = Outward(settings, self._producing, self.figures, now_ms, random.random)
        self._web = Web(self.registry, self.why_not, self.state, now_ms, settings.hosts)
        self._register()

    def _register(self) -> None:
        registry, inward = self.registry, self.inward
        register(registry, self.figures)
        for side in self._sides():
            register_side(registry, side)
        registry.counter(TYPE, "AcknowledgedMessages", None, lambda: inward.ledger.acknowledged)
        registry.gauge(TYPE, "OpenMessages", None, lambda: len(inward.ledger))
        registry.gauge(TYPE, "OpenBytes", None, lambda: inward.open_bytes)
        registry.gauge(TYPE, "OldestOpenMs", None, inward.oldest_ms)
        rules: list[Rule | OutRule] = [*self.settings.rules.all_rules, *self.settings.out]
        for rule in rules:
            registry.counter(TYPE, "RuleMessages", {"rule": rule.place}, partial(getattr, rule, "count"))

    def _sides(self) -> list[Side]:
        sides = [self.inward.side] if self.settings.rules.all_rules else []
        return [*sides, self.outward.side] if self.settings.out else sides

    async def start(self) -> None:
        """Listen for those who look in.

        Raises:
            ConfigError: the address cannot be had.
        """
        listen = self.settings.listen
        host, port = address(listen)
        if listen:
            try:
                self.port = await self._web.listen(host or "0.0.0.0", port)  # noqa: S104
            except OSError as error:
                told = error.strerror or str(error)
                raise ConfigError(f"[web]: listen: {listen}: {told}; --listen HOST:PORT takes another") from None
            self.looking_in = f"{listen.rpartition(':')[0] or '127.0.0.1'}:{self.port}"
        await self._producing.now.start()

    async def serve(self) -> None:
        """Carry messages until this is cancelled."""
        await self._reach_kafka()
        directions = []
        if self.settings.rules.all_rules:
            directions.append(self.inward.run())
        if self.settings.out:
            directions.append(self.outward.run())
        await first(*directions)

    async def _reach_kafka(self) -> None:
        """Messages are let in once there is somewhere to put them; the dead letters' topic says whether there is."""
        backoff, failures = Backoff(100, 10_000, random.random), 0
        while self._kafka:
            try:
                await self._producing.now.partitions_for(self.settings.dead_letter)
                self._kafka = ""
            except BarnabasError as error:
                self._producing.renew()
                dead_letter, unknown = self.settings.dead_letter, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name
                create = f"; create it: barnabas topics create {dead_letter}" if unknown in str(error) else ""
                self._kafka = f"{error}{create}"
                log.warning("Kafka: %s", self._kafka)
                await asyncio.sleep(backoff.wait_ms(failures) / 1000)
                failures += 1

    async def stop(self, serving: asyncio.Task[None]) -> None:
        """Let what is open come to its end, for a bounded time, and end; the rest comes again to the next bridge."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.inward.drain(), DRAIN_SECONDS_MAX)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await self._producing.close(1.0)
        self._web.close()

    # ---- what can be looked at ------------------------------------------------------------------------------------

    def why_not(self) -> str:
        """Why nothing is carried; empty when it is."""
        if self._kafka:
            return self._kafka
        for side in self._sides():
            if not side.connected:
                return f"not connected to the MQTT broker ({side.name}): {side.why}{self._waits_for_kafka(side)}"
        oldest_ms = self.inward.oldest_ms()
        if oldest_ms > STUCK_MS:
            why = next(iter(self.figures.retrying.values()), "its record is not acknowledged")
            return f"a message has been open for {oldest_ms} ms: {why}"
        return ""

    def _waits_for_kafka(self, side: Side) -> str:
        """What keeps the way in from its next connection, as the end of a sentence: what came over the last one."""
        unsettled = self.inward.unsettled if side is self.inward.side else 0
        if not unsettled:
            return ""
        why = next(iter(self.figures.retrying.values()), "their records are not acknowledged")
        return f"; {unsettled} messages that came before wait for Kafka: {why}"

    def state(self) -> dict[str, Any]:
        """The inside, as plain values."""
        inward, figures, mqtt = self.inward, self.figures, self.settings.mqtt
        ledger = inward.ledger
        return {
            "mqtt_bridge": mqtt.client_id,
            "why_not": self.why_not(),
            "up_ms": self._now_ms() - self._began_ms,
            "mqtt": {
                "address": f"{mqtt.host}:{mqtt.port}",
                "version": mqtt.version,
                "subscribed": list(mqtt.subscribe),
                "share": mqtt.share,
                "receive_maximum": mqtt.receive_maximum if mqtt.five else None,
            },
            "kafka": str(self.settings.kafka["bootstrap.servers"]),
            "sides": [
                {
                    "direction": side.name,
                    "connected": side.connected,
                    "connections": side.connections,
                    "sessions_lost": side.sessions_lost,
                    "why": side.why,
                }
                for side in self._sides()
            ],
            "open": {
                "messages": len(ledger),
                "bytes": inward.open_bytes,
                "held": inward.held,
                "oldest_ms": inward.oldest_ms(),
                "unsettled": inward.unsettled,
                "retrying": len(figures.retrying),
            },
            "counts": {
                "received_qos0": figures.received_qos0,
                "received_qos1": figures.received_qos1,
                "acknowledged": ledger.acknowledged,
                "forwarded": figures.forwarded,
                "dead_lettered": figures.dead_lettered,
                "duplicates": figures.duplicates,
                "lost_qos0": figures.lost_qos0,
                "lost_dead_letters": figures.lost_dead_letters,
                "retained_skipped": figures.retained_skipped,
                "retried": figures.retried,
                "published": figures.published,
                "out_skipped": figures.out_skipped,
                "out_refused": figures.out_refused,
            },
            "took_ms": figures.took_ms.read(0),
            "rules": [
                {"place": rule.place, "takes": rule.told, "to": rule.topic, "messages": rule.count}
                for rule in self.settings.rules.all_rules
            ],
            "out": [
                {"place": rule.place, "takes": f"topic {rule.topic}", "to": rule.to, "messages": rule.count}
                for rule in self.settings.out
            ],
        }

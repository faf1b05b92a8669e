"""From Kafka to MQTT: an offset is committed once the MQTT broker has acknowledged all messages before it.

Records are read in a group, published a window at a time, and committed. What the MQTT broker refuses for good is in
the dead letters before that; what it refuses for now ends the connection, and comes again on the next. What a crash or
a lost connection leaves uncommitted, a window at most, is published again. What came from MQTT (it has the header
`mqtt.topic`) is skipped unless its rule says otherwise, so that nothing goes round in circles.

An MQTT broker may answer what it cannot take with the end of the connection (a topic of too many levels, a payload
above its limit), and would do so for ever. So a window that has failed comes again one record at a time, and one at
which the connection has ended each of `ENDS_MAX` times goes to the dead letters.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from paho.mqtt.properties import Properties

from barnabas.aio import Consumer
from barnabas.client.consume.record import ConsumerRecord
from barnabas.mqtt.figures import Figures, Side
from barnabas.mqtt.filters import TOPIC_BYTES_MAX
from barnabas.mqtt.link import Link, LinkFailed, keep
from barnabas.mqtt.mapping import Refused
from barnabas.mqtt.producing import Producing
from barnabas.mqtt.properties import NO_TEXT, of_record
from barnabas.mqtt.reconnect import Reconnect
from barnabas.mqtt.refusals import of_the_record, reason
from barnabas.mqtt.settings import OutRule, Settings
from barnabas.net.backoff import Random
from barnabas.protocol.errors import BarnabasError

WINDOW: Final = 100
"""So many records are published, and may be published again, at once."""
ENDS_MAX: Final = 3
"""So often in a row may the connection end while one message is out, alone: no accident any more."""
_OVERHEAD_BYTES: Final = 64
"""What an MQTT packet has beside topic and payload, at most, as the bridge makes them."""
_LASTING: Final = frozenset({0x87, 0x90, 0x99})
"""Not authorized, topic name invalid, payload format invalid (MQTT 5.0, section 3.4.2.1): it would say so again."""

log = logging.getLogger(__name__)


class Message(NamedTuple):
    """What a rule makes of a record."""

    record: ConsumerRecord
    rule: OutRule
    topic: str
    payload: bytes
    properties: Properties | None

    @property
    def where(self) -> tuple[str, str, int, int]:
        """Which one it is, also when it was read again."""
        return self.rule.place, self.record.topic, self.record.partition, self.record.offset


class Outward:
    """The direction out. `run` serves until it is cancelled."""

    def __init__(
        self, settings: Settings, producing: Producing, figures: Figures, now_ms: Callable[[], int], random: Random
    ) -> None:
        self.settings = settings
        self.figures = figures
        self.side = Side("out")
        self._producing = producing
        self._now_ms = now_ms
        self._policy = Reconnect(random)
        self._by_topic: dict[str, list[OutRule]] = {}
        for rule in settings.out:
            self._by_topic.setdefault(rule.topic, []).append(rule)
        self._singly = 0  # so many records more are published one by one
        self._alone: tuple[str, str, int, int] | None = None
        self._ends = 0  # of the connection, while that one was out

    async def run(self) -> None:
        """Connect and serve, until this is cancelled."""
        await keep(self.side, _at_once, self._make_link, self._serve, self._policy, self._now_ms)

    def _make_link(self) -> Link:
        return Link(self.settings.mqtt, f"{self.settings.mqtt.client_id}-out", None)

    async def _serve(self, link: Link) -> None:
        async with Consumer(*self._by_topic, config=self.settings.consumer()) as consumer:
            ended, singly = self.side.why, self._singly
            self.side.up()
            while True:
                records = await consumer.poll(None, max_records=1 if singly else WINDOW)
                self._singly = WINDOW  # when it comes again
                if singly:
                    await self._one(link, records, ended)
                else:
                    await self._window(link, records)
                await consumer.commit()
                self._singly = singly = max(singly - 1, 0)

    async def _window(self, link: Link, records: Sequence[ConsumerRecord]) -> None:
        """Publish records; each is with the MQTT broker or in the dead letters when this returns.

        Raises:
            BarnabasError: not all are.
        """
        begun: list[asyncio.Task[str]] = []
        messages: list[Message] = []
        try:
            for record in records:
                for message in await self._messages(link, record):
                    messages.append(message)
                    begun.append(asyncio.ensure_future(self._publish(link, message)))
            refusals = await asyncio.gather(*begun)
        finally:
            for task in begun:
                task.cancel()
            await asyncio.gather(*begun, return_exceptions=True)
        for message, why in zip(messages, refusals, strict=True):
            if why:
                await self._bury(message.record, why)

    async def _one(self, link: Link, records: Sequence[ConsumerRecord], ended: str) -> None:
        """As `_window`, one message after the other; `ended` says how the last connection did."""
        for record in records:
            for message in await self._messages(link, record):
                if message.where != self._alone:
                    self._alone, self._ends = message.where, 0
                if self._ends < ENDS_MAX:
                    self._ends += 1  # unless it is answered
                    try:
                        why = await self._publish(link, message)
                    except LinkFailed:
                        self._ends -= 1
                        raise
                else:
                    why = f"{message.rule.place}: {ENDS_MAX} connections ended when this was published alone: {ended}"
                if why:
                    await self._bury(record, why)

    async def _messages(self, link: Link, record: ConsumerRecord) -> list[Message]:
        """What the rules make of a record; what they cannot is in the dead letters."""
        made = []
        for rule in self._by_topic[record.topic]:
            if not rule.from_mqtt and any(name == "mqtt.topic" for name, _ in record.headers):
                self.figures.out_skipped += 1
                continue
            try:
                topic = mqtt_topic(rule, record)
                payload = record.value or b""
                properties = of_record(record) if self.settings.mqtt.five else None
                fits(link.server.get("MaximumPacketSize"), topic, payload, properties)
            except Refused as refused:
                await self._bury(record, f"{rule.place}: {refused}")
                continue
            made.append(Message(record, rule, topic, payload, properties))
        return made

    async def _publish(self, link: Link, message: Message) -> str:
        """Publish one message; why the MQTT broker will never take it, or nothing.

        Raises:
            LinkFailed: it does not take it now, or did not answer.
        """
        _, rule, topic, payload, properties = message
        refusal = await link.publish(topic, payload, rule.qos, rule.retain, properties)
        if refusal is None:
            rule.count += 1
            self.figures.published += 1
            return ""
        told = f"the MQTT broker refuses a message to {topic[:200]!r}: {refusal} (0x{refusal.value:02x})"
        if refusal.value not in _LASTING:
            raise LinkFailed(told)
        return f"{rule.place}: {told}"

    async def _bury(self, record: ConsumerRecord, why: str) -> None:
        """To the dead letters, or without key and value, or counted as lost; for ever refused is none of these.

        Raises:
            BarnabasError: Kafka does not take it now.
        """
        self.figures.out_refused += 1
        where = f"{record.topic}-{record.partition}:{record.offset}".encode()
        headers = (("kafka.record", where), ("mqtt.refused", reason(why)))
        self._producing.renew()
        producer, topic, value = self._producing.now, self.settings.dead_letter, record.value
        try:
            await producer.send_and_wait(topic, value, record.key, headers=headers)
            return
        except BarnabasError as error:
            if not of_the_record(error):
                raise
        try:
            size = ("mqtt.payload-bytes", b"%d" % len(value or b""))
            await producer.send_and_wait(topic, b"", None, headers=(*headers, size))
        except BarnabasError as error:
            if not of_the_record(error):
                raise
            self.figures.lost_dead_letters += 1
            log.error(
                "%s is lost: Kafka refuses even its dead letter: %s; it was one for: %s", where.decode(), error, why
            )


async def _at_once() -> None:
    """Nothing has to be waited for before a connection."""


def mqtt_topic(rule: OutRule, record: ConsumerRecord) -> str:
    """The MQTT topic of a record.

    Raises:
        Refused: it would be none.
    """
    try:
        key = "" if record.key is None else bytes(record.key).decode()
    except UnicodeDecodeError:
        raise Refused("its key is no UTF-8 text") from None
    values = {"topic": record.topic, "key": key, "partition": str(record.partition), "offset": str(record.offset)}
    topic = rule.make(values)
    if not topic or re.search("[+#]", topic) or NO_TEXT.search(topic) or len(topic.encode()) > TOPIC_BYTES_MAX:
        raise Refused(f"{topic[:200]!r} is no MQTT topic to publish to")
    return topic


def fits(bytes_max: int | None, topic: str, payload: bytes, properties: Properties | None = None) -> None:
    """Refuse what the MQTT broker said it would not take: it would end the connection for it.

    Raises:
        Refused: the packet would be too large.
    """
    if bytes_max is None:
        return
    size = len(topic.encode()) + len(payload) + _OVERHEAD_BYTES
    if properties is not None:
        size += len(properties.pack())  # type: ignore[no-untyped-call]
    if size > bytes_max:
        raise Refused(f"a packet of {size} bytes is more than the {bytes_max} that the MQTT broker takes")

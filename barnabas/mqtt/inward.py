"""From MQTT to Kafka: a message is acknowledged once its record is, and not before.

    received --> queue --> pump: rule, record, send --> acknowledged by all replicas --> ledger --> PUBACKs, in order
                              |                                     |
                              | refused by the rules                | fails for now: sent again, later and later
                              +--> dead letters <-------------------+ refused for good

What is open is bounded: by the receive maximum (MQTT 5) or the MQTT broker's own limit (3.1.1), of QoS 0 by ours (what
comes beyond is dropped and counted), and in bytes by `open_bytes_max`: from there on nothing is read until half is
settled. A lost connection is made again only when all that came over it is settled, so that neither a Kafka nor an MQTT
broker that comes and goes makes it grow.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from paho.mqtt.client import MQTTMessage

from barnabas.client.produce.partitioner import murmur2
from barnabas.mqtt.figures import Figures, Side
from barnabas.mqtt.items import Item, Record
from barnabas.mqtt.ledger import Ledger
from barnabas.mqtt.link import Link, first, keep
from barnabas.mqtt.mapping import DUP, Headers, Message, Refused, headers_of, value_of
from barnabas.mqtt.producing import Producing
from barnabas.mqtt.properties import HEADERS_MAX, to_headers
from barnabas.mqtt.reconnect import Reconnect
from barnabas.mqtt.refusals import of_the_record, of_the_topic, reason
from barnabas.mqtt.settings import Settings
from barnabas.net.backoff import Backoff, Random
from barnabas.net.errors import ClientClosed, ClientTimeout
from barnabas.protocol.errors import BarnabasError, ErrorCode

RETAIN_HANDLING: Final = {"once": 1, "start": 0, "never": 2}
_UNKNOWN: Final = f"{ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name}({int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)})"
"""As Kafka's word stands in an error's text; no topic is called so, for none has parentheses."""
_UNKNOWN_MS: Final = 30_000
"""A topic that Kafka does not know, and does not make, keeps nobody else waiting for so long."""

log = logging.getLogger(__name__)


class Inward:
    """The direction in. `run` serves until it is cancelled; `drain` lets what is open come to its end."""

    def __init__(
        self,
        settings: Settings,
        producing: Producing,
        figures: Figures,
        now_ms: Callable[[], int],
        wall_ms: Callable[[], int],
        random: Random,
    ) -> None:
        self.settings = settings
        self.figures = figures
        self.side = Side("in")
        self._bytes_max = settings.open_bytes_max
        self.ledger = Ledger()
        self.unsettled = 0  # of all connections, QoS 0 too
        self.open_bytes = 0  # of these
        self.held = False  # nothing is read, for they are as many as may be
        self._open_qos0: dict[Item, None] = {}  # what came first comes first
        self._producing = producing
        self._now_ms, self._wall_ms = now_ms, wall_ms
        self._policy = Reconnect(random)
        self._again = Backoff(100, 10_000, random)
        self._queue: deque[Item] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._link: Link | None = None
        self._acknowledging = False
        self._stopping = False
        self._unknown: dict[str, int] = {}
        self._known: set[str] = set()
        self._parked: dict[str, deque[Record]] = {}  # by topics that are looked up; bounded by what is open
        self._lookups: set[asyncio.Task[None]] = set()
        self._fault: BaseException | None = None
        self._subscribed = False
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._timer = 0

    async def run(self) -> None:
        """Connect and serve, until this is cancelled."""
        connecting = keep(self.side, self._ready, self._make_link, self._serve, self._policy, self._now_ms)
        try:
            await first(self._pump(), connecting)
        finally:
            for timer in self._timers.values():
                timer.cancel()
            for lookup in list(self._lookups):
                lookup.cancel()

    async def drain(self) -> None:
        """Take nothing more, and wait until all that came is settled and acknowledged."""
        self._stopping = True
        await self._idle.wait()
        self._acknowledge()

    def oldest_ms(self) -> int:
        """How long the oldest message has been open, of whatever QoS."""
        now_ms = self._now_ms()
        oldest = next(iter(self._open_qos0), None)
        return max(self.ledger.oldest_ms(now_ms), 0 if oldest is None else now_ms - oldest.at_ms)

    # ---- the connection -------------------------------------------------------------------------------------------

    async def _ready(self) -> None:
        """Wait until all of the last connection is settled; end an earlier session first, where that was asked for."""
        await self._idle.wait()
        mqtt = self.settings.mqtt
        if mqtt.fresh:
            async with Link(mqtt, mqtt.client_id, None):  # a clean session of the same name, which ends with it
                mqtt.fresh = False

    def _make_link(self) -> Link:
        """Begin a connection. Messages may come on it before whoever waits for it has his turn."""
        self.ledger.renew()
        self.held = False
        self._link = Link(self.settings.mqtt, self.settings.mqtt.client_id, self._received)
        return self._link

    async def _serve(self, link: Link) -> None:
        mqtt = self.settings.mqtt
        try:
            if self._subscribed and not link.session_present:
                self.side.sessions_lost += 1
                log.warning("the MQTT broker has lost the session: what it kept for this bridge is gone with it")
            if mqtt.five or not (self._subscribed and link.session_present):
                again = self._subscribed and mqtt.retained == "start"
                await link.subscribe(mqtt.subscribe, 1 if again else RETAIN_HANDLING[mqtt.retained])
            self._subscribed = True
            self.side.up()
            await asyncio.Event().wait()
        finally:
            self._link = None
            left = self.ledger.renew()
            if left:
                log.info("%d messages were open; the MQTT broker delivers them again", left)

    def _acknowledge(self) -> None:
        self._acknowledging = False
        mids = self.ledger.leaving()
        if self._link is not None:
            self._link.acknowledge(mids)
        if self.held:
            self._read_on()

    def _read_on(self) -> None:
        """Where reading was held: when less is open."""
        few = len(self.ledger) <= self.settings.mqtt.receive_maximum and self.open_bytes <= self._bytes_max // 2
        if few and self._link is not None:
            self.held = False
            self._link.hold(False)

    # ---- messages -------------------------------------------------------------------------------------------------

    def _received(self, came: MQTTMessage) -> None:
        """A message came. Nothing here may fail: paho would leave the connection half open."""
        figures, mqtt = self.figures, self.settings.mqtt
        if self._stopping:
            if not came.qos:
                figures.received_qos0 += 1
                figures.lost_qos0 += 1
            return  # of QoS 1 it is not acknowledged, and comes again
        unread = ""
        try:
            topic = came.topic
        except UnicodeDecodeError as error:
            topic, unread = error.object.decode(errors="backslashreplace"), f"its topic is no UTF-8: {error.reason}"
        more = to_headers(came.properties)
        message = Message(topic, bytes(came.payload), came.qos, came.retain, came.dup, came.mid, more)
        now_ms = self._now_ms()
        opened = None
        if message.qos:
            figures.received_qos1 += 1
            figures.duplicates += message.dup
            opened = self.ledger.arrived(message.mid, now_ms)
        else:
            figures.received_qos0 += 1
            if len(self._open_qos0) >= mqtt.receive_maximum or self.open_bytes >= self._bytes_max // 2:
                figures.lost_qos0 += 1
                return
        self.unsettled += 1
        self._idle.clear()
        item = Item(message, opened, now_ms)
        if opened is None:
            self._open_qos0[item] = None
        item.why = unread
        if len(message.payload) > mqtt.payload_bytes_max:
            item.too_large(mqtt.payload_bytes_max)
        self.open_bytes += item.kept
        if (self.open_bytes >= self._bytes_max or len(self.ledger) > mqtt.receive_maximum) and self._link is not None:
            self.held = True  # Kafka is slower than it, or it does not keep to the receive maximum
            self._link.hold(True)
        if message.retain and mqtt.retained == "never":
            figures.retained_skipped += 1
            self._settled(item)
            return
        self._queue.append(item)
        self._wake.set()

    async def _pump(self) -> None:
        queue = self._queue
        while True:
            while queue:
                await self._forward(queue.popleft())
            self._wake.clear()
            if self._fault is not None:
                raise self._fault
            await self._wake.wait()

    async def _forward(self, item: Item) -> None:
        if item.why:
            await self._bury(item)
            return
        message = item.said
        try:
            route = self.settings.rules.route(message.topic)
            value = value_of(route.rule, message, self._wall_ms())
            if len(message.more) > HEADERS_MAX:
                raise Refused(f"it has {len(message.more)} properties, and {HEADERS_MAX} may become headers")
        except Refused as refused:
            item.why = str(refused)
            await self._bury(item)
            return
        if not item.tries:
            route.rule.count += 1
        if self._unknown.get(route.topic, 0) > self._now_ms():
            item.why = f"Kafka does not know the topic {route.topic}, and makes none; create it"
            await self._bury(item)
            return
        await self._send(item, route.topic, value, route.key, headers_of(route, message), route.device)

    async def _bury(self, item: Item) -> None:
        """To the dead letters: the payload as it came, or its size; the MQTT topic as key, and the reason."""
        message, topic = item.said, item.message.topic.encode()
        headers: Headers = (
            ("mqtt.topic", topic),
            ("mqtt.qos", b"%d" % message.qos),
            ("mqtt.refused", reason(item.why)),
        )
        if message.dup:
            headers = (*headers, DUP)
        payload = message.payload
        if not item.bare:
            headers = (*headers, *message.more[:HEADERS_MAX])
        else:
            headers, payload = (*headers, ("mqtt.payload-bytes", b"%d" % item.size)), b""
        await self._send(item, self.settings.dead_letter, payload, topic, headers, None)

    async def _send(
        self, item: Item, topic: str, value: bytes, key: bytes | None, headers: Headers, device: bytes | None
    ) -> None:
        """Hand a record over, or park it while its topic is looked up: a topic that is not there holds up no other."""
        record = Record(item, topic, value, key, headers, device)
        if topic in self._known:
            await self._hand_over(record)
        elif topic in self._parked:
            self._parked[topic].append(record)
        else:
            self._parked[topic] = deque((record,))
            task = asyncio.get_running_loop().create_task(self._look_up(topic))
            self._lookups.add(task)
            task.add_done_callback(self._looked_up)

    def _looked_up(self, task: asyncio.Task[None]) -> None:
        self._lookups.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fault = error  # by accident: what is parked would wait for ever
            self._wake.set()

    async def _look_up(self, topic: str) -> None:
        """Wait for a topic's metadata (max.block.ms at most), and hand over what is parked for it, in its order."""
        parked = self._parked[topic]
        try:
            await self._producing.now.partitions_for(topic)
        except BarnabasError as error:
            del self._parked[topic]
            for record in parked:
                self._failed(record.item, topic, error)
            return
        while parked:
            await self._hand_over(parked.popleft())
        del self._parked[topic]
        self._known.add(topic)

    async def _hand_over(self, record: Record) -> None:
        item, topic, value, key, headers, device = record
        producer, partition = self._producing.now, None
        try:
            if device is not None:
                partition = (murmur2(device) & 0x7FFFFFFF) % len(await producer.partitions_for(topic))
            future = await producer.send(topic, value, key, headers=headers, partition=partition)
        except BarnabasError as error:
            self._failed(item, topic, error)
        else:
            future.add_done_callback(partial(self._done, item, topic))

    def _done(self, item: Item, topic: str, future: Any) -> None:
        _, error = future.outcome()
        if error is not None:
            self._failed(item, topic, error)
            return
        if item.why:
            self.figures.dead_lettered += 1
        else:
            self.figures.forwarded += 1
        self.figures.took_ms.update(self._now_ms() - item.at_ms)
        self._settled(item)

    def _settled(self, item: Item) -> None:
        if item.open is None:
            del self._open_qos0[item]
        elif self.ledger.settle(item.open) and not self._acknowledging:
            self._acknowledging = True
            asyncio.get_running_loop().call_soon(self._acknowledge)
        self.unsettled -= 1
        self.open_bytes -= item.kept
        if self.held and item.open is None:
            self._read_on()
        if not self.unsettled:
            self._idle.set()

    def _failed(self, item: Item, topic: str, error: BarnabasError) -> None:
        """A record is not there: it is for the dead letters, or lost (QoS 0), or sent again after a while."""
        if isinstance(error, ClientClosed) and self._stopping:
            if item.open is None:
                self._lost_qos0(item)
            return  # of QoS 1 it stays open, and comes again
        self._producing.renew()
        if isinstance(error, ClientTimeout):
            self._known.discard(topic)  # it may have been waited for in vain: the next time nobody waits along
        unknown = _UNKNOWN in str(error)
        if unknown:
            self._unknown[topic] = self._now_ms() + _UNKNOWN_MS
        for_good = of_the_record(error)
        if for_good and item.bare:
            self.figures.lost_dead_letters += 1
            log.error(
                "a message of MQTT topic %.200s is lost: Kafka refuses even its dead letter: %s; it was one for: %s",
                item.message.topic,
                error,
                item.why,
            )
            self._settled(item)
        elif for_good or (not item.why and (unknown or of_the_topic(error))):
            item.bare = bool(item.why)
            item.why = item.why or str(error)
            self._queue.append(item)
            self._wake.set()
        elif item.open is None:
            self._lost_qos0(item)
        else:
            self._try_again(item, topic, error)

    def _lost_qos0(self, item: Item) -> None:
        self.figures.lost_qos0 += 1
        self._settled(item)

    def _try_again(self, item: Item, topic: str, error: BarnabasError) -> None:
        wait_ms = self._again.wait_ms(item.tries)
        if not self.figures.retrying:
            log.warning("a record for %s failed, and is sent again in %d ms: %s", topic, wait_ms, error)
        item.tries += 1
        self.figures.retried += 1
        self._timer += 1
        self.figures.retrying[self._timer] = f"{topic}: {error}"
        self._timers[self._timer] = asyncio.get_running_loop().call_later(
            wait_ms / 1000, self._again_now, self._timer, item
        )

    def _again_now(self, timer: int, item: Item) -> None:
        del self._timers[timer], self.figures.retrying[timer]
        self._queue.append(item)
        self._wake.set()

"""One connection to the MQTT broker: `aiomqtt`, with what it has no call for done by the paho client beneath it.

Beneath: `manual_ack` (a message is acknowledged when its record is), `on_message` (it has the mark of a
duplicate, which aiomqtt leaves out, and there is no queue that could be full), `publish` (with the MQTT broker's
answer, which aiomqtt takes for a yes), and the answer to CONNECT. All of these are public names of paho; two are not:
aiomqtt keeps it in `_client`, and `_packet_queue` takes all acknowledgements of a turn as one write, where `ack` is a
system call for each message. Both are held by tests/mqtt/test_link.py and the pins in pyproject.toml. Each connection
is a client of its own, so nothing of an earlier one can leave on it.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import struct
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import aiomqtt
from paho.mqtt import client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from barnabas.mqtt import remedies, tls
from barnabas.mqtt.figures import Side
from barnabas.mqtt.properties import make_tables_once, read_any_text
from barnabas.mqtt.reconnect import Reconnect
from barnabas.mqtt.settings import Mqtt
from barnabas.protocol.errors import BarnabasError

ANSWER_SECONDS_MAX: Final = 15.0
_PUBACK: Final = struct.Struct("!BBH")
"""Type, remaining length, packet id; without a reason code it is success (MQTT 5.0, section 3.4.2.1)."""
WATCH_SECONDS: Final = 0.5
LOGGED_MS: Final = 60_000
PACKETS_MAX: Final = 50
"""So many are read in one turn of the loop; then it is others' turn."""
BRIEF_MANY: Final = 3
"""So many connections in a row that were taken, and ended soon: somebody may throw us out."""
OnMessage = Callable[[paho.MQTTMessage], None]

log = logging.getLogger(__name__)


class LinkFailed(BarnabasError):
    """The connection to the MQTT broker went, or could not be made or used; the text is the reason."""


class SubscriptionRefused(LinkFailed):
    """The MQTT broker refuses what was asked for over a connection that stands."""


def beneath(client: aiomqtt.Client) -> paho.Client:
    """The paho client that an aiomqtt client stands on.

    Raises:
        LinkFailed: this release of aiomqtt has none there.
    """
    found = getattr(client, "_client", None)
    if not isinstance(found, paho.Client):
        raise LinkFailed("this aiomqtt stands on no paho client: install aiomqtt>=2.3,<3 and paho-mqtt>=2.1,<3")
    return found


class Link:
    """A connection; a context manager that makes and ends it.

    Args:
        mqtt: where to, and how.
        identifier: the client id; the MQTT broker's session belongs to it.
        on_message: is called with each message, on the loop; None for a link that only publishes, whose session ends
            with it.

    Raises:
        LinkFailed: what the MQTT broker or the way to it said.
    """

    def __init__(self, mqtt: Mqtt, identifier: str, on_message: OnMessage | None) -> None:
        self._mqtt = mqtt
        lasting = on_message is not None
        self.session_present = False
        self.server: dict[str, Any] = {}
        properties = None
        if mqtt.five:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.ReceiveMaximum = mqtt.receive_maximum
            properties.SessionExpiryInterval = mqtt.session_expiry_s if lasting else 0
        self.client = aiomqtt.Client(
            mqtt.host,
            mqtt.port,
            identifier=identifier,
            username=mqtt.username or None,
            password=mqtt.password or None,
            keepalive=mqtt.keepalive_s,
            protocol=aiomqtt.ProtocolVersion.V5 if mqtt.five else aiomqtt.ProtocolVersion.V311,
            clean_session=None if mqtt.five else not lasting,
            clean_start=not lasting if mqtt.five else paho.MQTT_CLEAN_START_FIRST_ONLY,
            properties=properties,
            tls_context=None if mqtt.tls is None else tls.context(mqtt.tls),
            tls_insecure=None if mqtt.tls is None else not mqtt.tls.verify,
            timeout=ANSWER_SECONDS_MAX,
        )
        self._paho = beneath(self.client)
        self._paho.manual_ack_set(True)
        self._paho.disable_logger()  # two calls for each packet
        read_any_text()
        make_tables_once()
        self._told, self._came, self._held = on_message, 0, False
        if on_message is not None:
            self._paho.on_message = self._on_message
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._paho.on_publish = self._on_publish
        self._connected: Any = self._paho.on_connect
        self._paho.on_connect = self._on_connect
        self._answered, self._why, self._over = False, "", asyncio.Event()
        self._disconnected: Any = self._paho.on_disconnect
        self._paho.on_disconnect = self._on_disconnect
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._paho.on_socket_register_write = self._on_register_write

    def _on_connect(self, client: Any, userdata: Any, flags: Any, reason: Any, properties: Any = None) -> None:
        self._answered = True
        self.session_present = flags.session_present
        self.server = {} if properties is None else properties.json()
        self._connected(client, userdata, flags, reason, properties)

    def _on_disconnect(self, client: Any, userdata: Any, flags: Any, reason: Any, properties: Any = None) -> None:
        with suppress(asyncio.CancelledError):  # nobody waits for aiomqtt; its reason would be one that nobody reads
            self._disconnected(client, userdata, flags, paho.MQTT_ERR_SUCCESS, properties)
        if self._held:
            self._end(f"nothing was read for {self._mqtt.keepalive_s} s, for what came before waits for Kafka")
        by_broker = flags.is_disconnect_packet_from_server
        said = getattr(properties, "ReasonString", "") if by_broker else ""
        self._end(remedies.ended(self._mqtt, reason, said, by_broker=by_broker))

    def _end(self, why: str) -> None:
        """It is over; paho may say so on the thread that connects."""
        self._why = self._why or why
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(self._over.set)

    def _on_message(self, client: Any, userdata: Any, message: paho.MQTTMessage) -> None:
        self._came += 1
        if self._told is not None:  # it ends: what comes now belongs to no connection any more
            self._told(message)

    # ---- the socket -----------------------------------------------------------------------------------------------

    def _on_register_write(self, client: Any, userdata: Any, sock: Any) -> None:
        """In aiomqtt's place, which asks in a later turn, when the socket's number may be another connection's."""
        if threading.get_ident() == self._thread:
            self._want_to_write(sock)
        else:  # it connects, on a thread of its own
            self._loop.call_soon_threadsafe(self._want_to_write, sock)

    def _want_to_write(self, sock: Any) -> None:
        current: Any = self._paho.socket()
        if current is sock:
            with suppress(RuntimeError, OSError):  # uvloop has given it up: `_watch` sees why
                self._loop.add_writer(sock.fileno(), self._write)

    def _write(self) -> None:
        with suppress(OSError):  # as above
            self._paho.loop_write()

    def _read(self) -> None:
        """In aiomqtt's place, which reads one packet in a turn of the loop: a turn costs as much as a message."""
        try:
            for _ in range(PACKETS_MAX):
                if self._held:
                    return
                before = self._came
                self._paho.loop_read()
                if self._came == before and not self._pending():
                    return  # no message: most likely there is nothing; if there is, the loop comes back
            if self._pending():
                self._loop.call_soon(self._read)
        except Exception as error:
            self._end(str(error) or repr(error))

    def hold(self, held: bool) -> None:
        """Read nothing more, or go on. What is held so long that no ping comes through ends the connection."""
        self._held = held
        sock: Any = self._paho.socket()
        if sock is None:
            return  # it has ended
        with suppress(RuntimeError, OSError, ValueError):  # it is about to: `_watch` sees why
            if held:
                self._loop.remove_reader(sock.fileno())
            else:
                self._loop.add_reader(sock.fileno(), self._read)
                self._loop.call_soon(self._read)  # TLS may have more, which no loop sees

    def _pending(self) -> bool:
        """Whether TLS has more that it has read and decrypted already, which no loop sees."""
        sock: Any = self._paho.socket()
        return isinstance(sock, ssl.SSLSocket) and sock.pending() > 0

    async def _watch(self) -> None:
        """Look whether the connection still is one.

        uvloop stops to watch a socket whose peer has reset the connection, and tells nobody: it would be noticed by
        the keep-alive, a minute later.
        """
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            sock: Any = self._paho.socket()
            try:
                if sock is not None:
                    sock.getpeername()
            except OSError as error:
                self._paho.disconnect()
                self._write()  # this fails, and closes the socket
                raise LinkFailed(f"the connection ended: {error.strerror}") from None

    # ---- what is done over it -------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Connect."""
        try:
            await first(self.client.__aenter__(), self._closed_unanswered())
        except (aiomqtt.MqttError, OSError, ValueError) as error:
            why = self._unconnected(error)
            with suppress(Exception):
                self._paho.disconnect()  # after a CONNECT that was not answered the socket is open still
            raise LinkFailed(f"{self._mqtt.host}:{self._mqtt.port}: {why}") from None
        sock: Any = self._paho.socket()
        if sock is not None and not self._held:
            self._loop.add_reader(sock.fileno(), self._read)
        return self

    async def _closed_unanswered(self) -> None:
        """Wait for the end of a connection that was not answered; aiomqtt waits for the answer alone."""
        await self._over.wait()
        if self._answered:
            await asyncio.Event().wait()  # the answer says more
        raise aiomqtt.MqttError

    def _unconnected(self, error: Exception) -> str:
        if isinstance(error, aiomqtt.MqttCodeError):
            return remedies.refused(self._mqtt, error.rc)
        if self._over.is_set() or self._paho.socket() is not None:
            return f"CONNECT was not answered; {remedies.unanswered(self._mqtt)}"
        return remedies.unreached(self._mqtt, error.__context__ or error)  # aiomqtt keeps the text alone

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Disconnect; the session of a lasting link stays with the MQTT broker."""
        self._told = None
        with suppress(aiomqtt.MqttError, OSError):
            await self.client.__aexit__(kind, error, trace)

    async def ended(self) -> None:
        """Wait for the end of the connection, which is an error."""
        await first(self._over.wait(), self._watch())
        raise LinkFailed(f"the connection ended: {self._why}")

    async def subscribe(self, filters: Iterable[str], retained: int) -> None:
        """Subscribe to all filters at once; `retained` is MQTT 5's retain handling (0 send, 1 if new, 2 do not).

        Raises:
            SubscriptionRefused: one is refused, or was granted at a lower QoS than the settings ask for.
            LinkFailed: the connection went.
        """
        mqtt = self._mqtt
        if mqtt.share and self.server.get("SharedSubscriptionAvailable") == 0:
            raise SubscriptionRefused("this MQTT broker has no shared subscriptions; leave share out")
        names = [f"$share/{mqtt.share}/{one}" if mqtt.share else one for one in filters]
        given: Any
        if mqtt.five:
            given = [(name, SubscribeOptions(qos=mqtt.qos, retainHandling=retained)) for name in names]
        else:
            given = [(name, mqtt.qos) for name in names]
        try:
            codes: Any = await self.client.subscribe(given)
        except (aiomqtt.MqttError, ValueError) as error:
            raise LinkFailed(f"subscribing: {error}") from None
        if len(codes) != len(names):
            raise SubscriptionRefused(
                f"the MQTT broker answers {len(names)} subscriptions with {len(codes)} reason codes"
            )
        for name, code in zip(names, codes, strict=True):
            granted = code if isinstance(code, int) else code.value  # 3.1.1 has numbers, MQTT 5 reasons
            if granted >= 0x80:
                raise SubscriptionRefused(f"the MQTT broker refuses a subscription to {name}: {code}")
            if granted < mqtt.qos:
                raise SubscriptionRefused(
                    f"the MQTT broker grants QoS {granted} for {name}, and {mqtt.qos} is asked for"
                )

    def acknowledge(self, mids: Iterable[int]) -> None:
        """Acknowledge messages of QoS 1 that came on this connection."""
        packets = b"".join([_PUBACK.pack(paho.PUBACK, 2, mid) for mid in mids])
        if packets:
            self._paho._packet_queue(paho.PUBACK, packets, 0, 1)

    async def publish(
        self, topic: str, payload: bytes, qos: int, retain: bool, properties: Properties | None = None
    ) -> Any:
        """Publish, and wait until the MQTT broker has it (QoS 0: until it is written).

        Returns:
            None, or the reason code with which the MQTT broker refuses it (MQTT 5 alone can).

        Raises:
            LinkFailed: it is not known whether the MQTT broker has it.
        """
        try:
            info = self._paho.publish(topic, payload, qos, retain, properties)
        except ValueError as error:
            raise LinkFailed(f"publishing: {error}") from None
        if info.rc != paho.MQTT_ERR_SUCCESS:
            raise LinkFailed(f"publishing: {paho.error_string(info.rc)}")
        if info.is_published():
            return None
        answer = self._answers[info.mid] = self._loop.create_future()
        try:
            return await asyncio.wait_for(answer, ANSWER_SECONDS_MAX)
        except TimeoutError:
            raise LinkFailed(f"publishing: no answer within {ANSWER_SECONDS_MAX:.0f} s") from None
        finally:
            self._answers.pop(info.mid, None)

    def _on_publish(self, client: Any, userdata: Any, mid: int, reason: Any, properties: Any = None) -> None:
        answer = self._answers.pop(mid, None)
        if answer is not None and not answer.done():
            answer.set_result(reason if getattr(reason, "is_failure", False) else None)


async def keep(
    side: Side,
    ready: Callable[[], Awaitable[object]],
    make: Callable[[], Link],
    serve: Callable[[Link], Awaitable[None]],
    policy: Reconnect,
    now_ms: Callable[[], int],
) -> None:
    """Connect once `ready`, serve, and again after each loss, until this is cancelled.

    What goes wrong is told in `side`, and logged; the same again is logged once a minute.
    """
    logged, logged_ms = "", 0
    while True:
        try:
            await ready()
            async with make() as link:
                policy.connected(now_ms())
                side.connections += 1
                await first(link.ended(), serve(link))
        except BarnabasError as error:
            side.why = str(error)
            if isinstance(error, SubscriptionRefused):
                policy.refused()
        finally:
            if side.connected:
                logged = ""  # it has carried messages: its end is news
            side.connected = False
        side.failures += 1
        wait_ms = policy.lost(now_ms())
        why = side.why
        if policy.brief >= BRIEF_MANY:
            side.why += f"; {policy.brief} connections did not hold: does another client have the same client_id?"
        if why != logged or policy.brief == BRIEF_MANY or now_ms() - logged_ms >= LOGGED_MS:
            logged, logged_ms = why, now_ms()
            log.warning("%s: %s; again in %d ms, then later and later", side.name, side.why, wait_ms)
        await asyncio.sleep(wait_ms / 1000)


async def first(*waits: Awaitable[object]) -> None:
    """Wait until one of them ends, and end the others."""
    tasks = [asyncio.ensure_future(one) for one in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    del ends
    for task in done:
        task.result()

"""The MQTT half of `./dev demo --mqtt`, on a thread of its own.

An embedded MQTT broker (amqtt), this machine as a device that publishes what it does, and the bridge to our broker.
"""

from __future__ import annotations

import asyncio
import json
import platform
import re
import socket
import threading
import time
from contextlib import suppress
from typing import Any, Final

import aiomqtt

from barnabas.broker.host.assemble import new_loop
from barnabas.demo.machine import Machine
from barnabas.mqtt.bridge import Bridge
from barnabas.mqtt.reading import read
from barnabas.mqtt.settings import Settings
from barnabas.mqtt.tables import File
from barnabas.protocol.errors import BarnabasError

TOPIC: Final = "machine"
LOOK_SECONDS: Final = 0.2
START_SECONDS_MAX: Final = 30.0
_SETTINGS: Final = """
[mqtt]
host = "127.0.0.1"
port = {port}
version = "3.1.1"       # what amqtt speaks
client_id = "demo-bridge"
[kafka]
"bootstrap.servers" = "{servers}"
[[rules]]
filter = "machine/+/+"
topic = "machine"
key = "$2"
payload = "json"
[rules.headers]
host = "$1"
[web]
listen = "127.0.0.1:0"
"""


class Live:
    """`start` returns once messages are carried; `hush` ends the publishing, `close` all of it."""

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self.published = 0
        self.state: dict[str, Any] = {}
        self.address = ""
        self.looking_in = ""
        self._failure: BaseException | None = None
        self._ready = threading.Event()
        self._loop = new_loop()
        self._hush, self._end = asyncio.Event(), asyncio.Event()
        self._hushed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-mqtt", daemon=True)

    def start(self) -> None:
        """Begin.

        Raises:
            BarnabasError: it did not come up.
        """
        self._thread.start()
        if not self._ready.wait(START_SECONDS_MAX) or self._failure is not None:
            raise BarnabasError(f"the MQTT side did not start: {self._failure or 'it took too long'}")

    def hush(self) -> None:
        """Publish no more; what was published is acknowledged when this returns.

        Raises:
            BarnabasError: it is not; or all of it ended early.
        """
        with suppress(RuntimeError):  # the loop is closed: `check` says why
            self._loop.call_soon_threadsafe(self._hush.set)
        if not self._hushed.wait(START_SECONDS_MAX):
            raise BarnabasError(f"the MQTT side still has messages open after {START_SECONDS_MAX:.0f} s")
        self.check()

    def check(self) -> None:
        """Look whether it still works.

        Raises:
            BarnabasError: it ended early; the text is why.
        """
        if self._failure is not None:
            raise BarnabasError(f"the MQTT side ended early: {str(self._failure) or repr(self._failure)}")

    def close(self) -> None:
        """End it all; nothing happens when it never began."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(START_SECONDS_MAX)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()
            self._hushed.set()
            self._loop.close()

    async def _serve(self) -> None:
        port = free_port()
        broker = await start_broker(port)
        self.address = f"127.0.0.1:{port}"
        bridge = Bridge(settings(port, self._servers))
        await bridge.start()
        self.looking_in = f"127.0.0.1:{bridge.port}"
        serving = asyncio.ensure_future(bridge.serve())
        publishing = asyncio.ensure_future(self._publish(port, bridge))
        ending = asyncio.ensure_future(self._end.wait())
        try:
            await asyncio.wait((serving, publishing, ending), return_when=asyncio.FIRST_COMPLETED)
            if publishing.done():
                publishing.result()
                await asyncio.wait((serving, ending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (publishing, ending):
                task.cancel()
            await bridge.stop(serving)
            await broker.shutdown()
        if not self._end.is_set():
            serving.result()

    async def _publish(self, port: int, bridge: Bridge) -> None:
        machine, host = Machine(), re.sub(r"[^\w.-]", "-", platform.node()) or "here"
        machine.look()
        while bridge.why_not():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        self._ready.set()
        async with aiomqtt.Client("127.0.0.1", port, identifier="demo-machine") as client:
            while not self._hush.is_set():
                for name, value in machine.look().items():
                    told = {"value": round(value, 3), "sent_ms": time.time_ns() // 1_000_000}
                    await client.publish(f"{TOPIC}/{host}/{name}", json.dumps(told), qos=1)
                    self.published += 1
                self.state = bridge.state()
                try:
                    await asyncio.wait_for(self._hush.wait(), LOOK_SECONDS)
                except TimeoutError:
                    continue
        while bridge.inward.unsettled or bridge.figures.forwarded < self.published:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        self.state = bridge.state()
        self._hushed.set()


def settings(port: int, servers: str) -> Settings:
    """The bridge's settings."""
    return read(File("demo", _SETTINGS.format(port=port, servers=servers)), {})


async def start_broker(port: int) -> Any:
    """An MQTT broker in this process.

    Raises:
        BarnabasError: amqtt is not installed.
    """
    try:
        from amqtt.broker import Broker
    except ImportError:
        needed = "the demo's MQTT broker needs amqtt: run pip install '.[mqtt-demo]' in a checkout of Barnabas"
        raise BarnabasError(needed) from None
    config = {
        "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
        "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
    }
    broker = Broker(config)
    await broker.start()
    return broker


def free_port() -> int:
    """A port that was free just now; amqtt does not tell which one it was given for 0."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port

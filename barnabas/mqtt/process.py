"""`barnabas mqtt` as a process: its loop, its signals, its exit code."""

from __future__ import annotations

import asyncio
import logging

from barnabas.broker.host import logs
from barnabas.broker.host.assemble import new_loop
from barnabas.broker.host.process import asked_to_end
from barnabas.mqtt.bridge import Bridge
from barnabas.mqtt.settings import Settings

log = logging.getLogger(__name__)


def run(settings: Settings) -> int:
    """Carry messages until SIGTERM, SIGINT or SIGHUP (but not under `nohup`); a second one ends the process at once.

    Raises:
        BarnabasError: it could not start.
    """
    logs.set_up(others=("asyncio", "mqtt"))  # topics and reasons in the lines are peers'; the latter is aiomqtt's name
    loop = new_loop()
    if slow := without_uvloop(loop):
        log.warning("%s", slow)
    try:
        loop.run_until_complete(_serve(settings))
    finally:
        loop.close()
    return 0


def without_uvloop(loop: asyncio.AbstractEventLoop) -> str:
    """What to say of the loop that a bridge runs on: nothing of uvloop's."""
    if type(loop).__module__.partition(".")[0] == "uvloop":
        return ""
    return "uvloop is not installed: asyncio's own loop carries fewer messages a second; pip install uvloop"


async def _serve(settings: Settings) -> None:
    loop = asyncio.get_running_loop()
    asked = asked_to_end(loop)
    bridge = Bridge(settings)
    await bridge.start()
    mqtt, looking = settings.mqtt, f"; looking in: {bridge.looking_in}" if bridge.looking_in else ""
    between = f"{mqtt.host}:{mqtt.port} and {settings.kafka['bootstrap.servers']}"
    print(f"barnabas: {mqtt.client_id} between {between}{looking}", flush=True)
    serving = loop.create_task(bridge.serve())
    leaving = loop.create_task(asked.wait())
    await asyncio.wait((serving, leaving), return_when=asyncio.FIRST_COMPLETED)
    leaving.cancel()
    await bridge.stop(serving)
    if not asked.is_set():
        serving.result()  # it ended by itself: what went wrong

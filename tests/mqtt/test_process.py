"""A bridge as a process: which loop it runs on, and that it says so where that is the slower one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable

import pytest

from barnabas.broker.host.assemble import new_loop
from barnabas.mqtt.process import without_uvloop
from tests.mqtt.servers import Bridge, Mosquitto, needs_mosquitto
from tests.mqtt.test_inward import publish, read

PEERS = """
from barnabas.mqtt import process

async def serve(settings):
    topic = "a\\n2026-01-01 ERROR forged\\x1b[2J\\u202e" + 3000 * "x"
    for name in ("barnabas.mqtt.inward", "barnabas.net.network", "mqtt", "asyncio"):
        process.logging.getLogger(name).warning("of topic %s", topic)

process._serve = serve
process.run(None)
"""
WITHOUT = "import sys; sys.modules['uvloop'] = None; from barnabas.cli import main; sys.exit(main())"
TEXT = '[mqtt]\nclient_id = "NAME"\n[[rules]]\nfilter = "NAME/#"\ntopic = "NAME"\n'


def test_only_of_uvloop_there_is_nothing_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for missing in (False, True):
        if missing:
            monkeypatch.setitem(sys.modules, "uvloop", None)
        loop = new_loop()
        told.append(without_uvloop(loop))
        loop.close()
    assert told[0] == ""
    assert told[1].endswith("pip install uvloop")


@needs_mosquitto
@pytest.mark.slow
@pytest.mark.parametrize("missing", [True, False])
async def test_without_uvloop_it_carries_messages_all_the_same_and_says_so(
    mosquitto: Mosquitto, kafka: str, bridge: Callable[..., Bridge], missing: bool
) -> None:
    name = f"plain{missing}"
    one = bridge(TEXT.replace("NAME", name), mosquitto.port)
    if missing:
        one.barnabas = (sys.executable, "-c", WITHOUT)
    await one.start()
    sent = [b"%d" % number for number in range(300)]
    await publish(mosquitto, f"{name}/a", *sent)
    assert [record.value for record in await read(kafka, name, 300)] == sent
    await one.counted("acknowledged", 300)
    assert ("uvloop is not installed" in one.said()) is missing
    await asyncio.to_thread(one.end)


def test_what_a_peer_calls_a_topic_is_one_line_that_is_cut_and_moves_no_cursor() -> None:
    done = subprocess.run([sys.executable, "-c", PEERS], capture_output=True, check=True)
    lines = [line for line in done.stderr.decode().split("\n") if "forged" in line]
    assert len(lines) == 4, done.stderr
    for line in lines:
        assert "of topic a" in line
        assert line.isprintable()
        assert len(line) < 2300

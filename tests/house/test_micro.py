"""The bench of layers measures what it says: each event's request is served before the next one comes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.broker.host import channel as channels
from barnabas.broker.host.states import State
from tests.benchmarks import frames
from tests.benchmarks.micro import Bench

EVENTS = 5


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.mark.parametrize("patient", [False, True])
def test_every_event_is_served_also_where_the_loop_has_to_go_round_for_it(
    tmp_path: Path, loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, patient: bool
) -> None:
    """The first of its kind loads its messages, a busy machine is slow: such a request is a step of its own."""
    if patient:
        monkeypatch.setattr(channels, "DECODING_MS_MAX", -1)
    bench = Bench(str(tmp_path))
    loop.run_until_complete(bench.assembly.start())
    try:
        channel = bench.channel()
        frame = frames.produce("bulk", 0, frames.batch(64, 1000))
        for number in range(EVENTS):
            bench.event(channel, frame)
            assert bench.log("bulk").log_end_offset >= number * 64, "all but this one"
        bench.rest(channel)
        assert bench.log("bulk").log_end_offset == EVENTS * 64
        assert channel.receiver.unread_bytes == 0
    finally:
        bench.stop()
    assert channel.state is State.GONE
    assert bench.core.logs.losses.failed_reads == 0

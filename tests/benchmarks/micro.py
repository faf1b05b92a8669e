"""What one request costs the broker, by layer, in µs of CPU: `python -m tests.benchmarks.micro [--only WORD]`.

A whole broker on a real disk runs inside this process, without sockets: frames go into a `Channel` as the loop would
hand them over, answers go to a transport that drops them. Figures are the best of several rounds of thread CPU time, so
that a busy machine hardly moves them. What a socket costs is not in them.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from barnabas.broker.config import load
from barnabas.broker.context import RequestContext
from barnabas.broker.host.assemble import Assembly
from barnabas.broker.host.channel import Channel
from barnabas.broker.log.types import Isolation
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.kafka import codec
from barnabas.protocol.primitives import crc32c
from barnabas.protocol.requests.produce import ProduceRequest, ProduceResponse
from tests.benchmarks import frames, micro_groups

ROUNDS = 9
MB = 1_048_576
DEPTH = 8

Row = tuple[str, float]


class Drop:
    """A transport whose peer takes everything at once."""

    def write(self, data: Any) -> None:
        """Gone."""

    def writelines(self, buffers: Any) -> None:
        """Gone."""

    def pause_reading(self) -> None:
        """Its turn is over."""

    def resume_reading(self) -> None:
        """Its turn has come."""

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        """Never reached."""

    def get_extra_info(self, name: str) -> tuple[str, int] | None:
        """Its address; nothing else is known."""
        return ("127.0.0.1", 1) if name == "peername" else None

    def get_write_buffer_size(self) -> int:
        """Always empty."""
        return 0

    def abort(self) -> None:
        """The end."""


def best_us(step: Callable[[], Any], count: int, per_call: int = 1) -> float:
    """CPU µs of one call, the least of `ROUNDS` rounds."""
    step()
    least = float("inf")
    for _ in range(ROUNDS):
        start = time.thread_time_ns()
        for _ in range(count):
            step()
        least = min(least, (time.thread_time_ns() - start) / count)
    return least / 1000 / per_call


class Kept(RequestContext):
    """A request whose answer is kept."""

    def __init__(self, bench: Bench, api_key: int, api_version: int) -> None:
        super().__init__(bench.connection, api_key, api_version, "bench")
        self._answers = bench.answers

    def respond(self, response: Any) -> None:
        """One more."""
        self._answers.append(response)

    def close(self, reason: str) -> None:
        """Nobody is there."""


class Bench:
    """One broker in this process, with a topic for each kind of load."""

    def __init__(self, data_dir: str) -> None:
        settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "barnabas.topics": "small:1, bulk:1, read:1, wake:1"}
        self.assembly = Assembly(load(overrides=settings).config, data_dir)
        self.host = self.assembly.host
        self.core = self.host.core
        self.answers: list[Any] = []

    def channel(self) -> Channel:
        """A connection, introduced."""
        channel = Channel(self.host, "PLAINTEXT")
        channel.connection_made(Drop())  # type: ignore[arg-type]  # as much of a transport as is used
        self.event(channel, frames.api_versions())
        return channel

    def event(self, channel: Channel, data: bytes) -> None:
        """Bytes as the loop hands them over: copied into the buffer, then told, once those before are served."""
        self.rest(channel)
        at = 0
        while at < len(data):
            target = memoryview(channel.get_buffer(-1))
            size = min(len(target), len(data) - at)
            target[:size] = data[at : at + size]
            target.release()
            del target
            channel.buffer_updated(size)
            at += size
        if self.host.turns.look_due:  # no loop runs that could look at sockets
            self.host.turns.looked()

    def rest(self, channel: Channel) -> None:
        """Let the loop go round until a channel's requests are served: one that took long to decode is a step apart.

        Whoever went on sending would have them collect, and measure how they are copied.
        """
        loop = self.host.loop
        while channel.outstanding is not None or channel.paused or channel.receiver.unread_bytes:
            loop.call_soon(loop.stop)
            loop.run_forever()

    def stop(self) -> None:
        """The channels first, of which no transport tells the host when they end."""
        for channel in list(self.host.channels.values()):
            channel.abort()
            channel.connection_lost(None)
        self.host.loop.run_until_complete(self.assembly.stop())

    def handle(self, frame: bytes) -> None:
        """Decode and serve, the answer is kept."""
        header, request = codec.decode_request(memoryview(bytearray(frame))[4:])
        self.core.handle(request, Kept(self, header.api_key, header.api_version), self.host.now_ms())

    @property
    def connection(self) -> Any:
        """Somebody."""
        return next(iter(self.host.channels.values())).connection

    def log(self, topic: str) -> Any:
        """The log of a topic's only partition."""
        partition = self.core.replicas.partition(TopicPartition(topic, 0))
        assert partition is not None
        return partition.log


def _append(log: Any, records: memoryview, *, validate_full: bool = False) -> None:
    records[:8] = bytes(8)
    log.append_as_leader(records, 0, now_ms=1_700_000_000_000, validate_full=validate_full)


def small(bench: Bench) -> Iterator[Row]:
    """One record of 100 bytes, acks=all: by the short way through the layers, and by the common one."""
    batch = frames.batch(1, 100)
    frame = frames.produce("small", 0, batch)
    body = memoryview(bytearray(frame))[4:]
    channel = bench.channel()
    yield "small produce: decode", best_us(lambda: codec.decode_request(body), 2000)
    common = bytes(body)  # the short way is for views
    yield "small produce: decode, common way", best_us(lambda: codec.decode_request(common), 2000)
    _, request = codec.decode_request(body)
    records = request.records
    nested = ProduceRequest(None, request.acks, request.timeout_ms, request.topic_data)
    context = Kept(bench, 0, 7)

    def handle(asked: Any) -> None:
        records[:8] = bytes(8)
        bench.core.handle(asked, context, 1)
        bench.answers.clear()

    now_ms = bench.host.now_ms
    bench.core.handle(request, context, 1)
    response = bench.answers.pop()
    yield "small produce: core.handle", best_us(partial(handle, request), 2000)
    yield "small produce: core.handle, common way", best_us(partial(handle, nested), 2000)
    log = bench.log("small")

    yield "small produce: log.append", best_us(partial(_append, log, records), 2000)
    yield "small produce: file.append", best_us(lambda: log.active.file.append((records,)), 2000)
    log.active.file.truncate(log.active.size)
    yield "small produce: encode", best_us(lambda: codec.encode_response(0, 7, 1, response), 2000)
    told = ProduceResponse(response.responses)
    yield "small produce: encode, common way", best_us(lambda: codec.encode_response(0, 7, 1, told), 2000)
    yield "small produce: a clock", best_us(now_ms, 2000)
    yield "small produce: event of 1", best_us(lambda: bench.event(channel, frame), 2000)
    many = frame * DEPTH
    yield f"small produce: event of {DEPTH}, each", best_us(lambda: bench.event(channel, many), 400, DEPTH)


def bulk(bench: Bench) -> Iterator[Row]:
    """Batches of 64 KB and almost 1 MB."""
    channel = bench.channel()
    for name, count in (("64 KB", 64), ("1 MB", 1000)):
        batch = frames.batch(count, 1000)
        frame = frames.produce("bulk", 0, batch)
        copy = bytearray(batch)
        yield f"{name} produce: sum", best_us(partial(crc32c, copy), 100)
        yield f"{name} produce: log.append", best_us(partial(_append, bench.log("bulk"), memoryview(copy)), 50)
        walked = partial(_append, bench.log("bulk"), memoryview(copy), validate_full=True)
        yield f"{name} produce: log.append, every record walked", best_us(walked, 20)
        yield f"{name} produce: event", best_us(partial(bench.event, channel, frame), 50)


def fetch(bench: Bench) -> Iterator[Row]:
    """1 MB from the middle of a log, and a small one at its end."""
    channel = bench.channel()
    produce = frames.produce("read", 0, frames.batch(64, 1000))
    codec.decode_request(memoryview(bytearray(produce))[4:])  # loads its messages: who takes long for that has to wait
    for _ in range(400):
        bench.event(channel, produce)
    template, offset_at = frames.fetch("read", MB)
    frame = template[:offset_at] + (6400).to_bytes(8, "big") + template[offset_at + 8 :]
    body = memoryview(bytearray(frame))[4:]
    yield "1 MB fetch: decode", best_us(lambda: codec.decode_request(body), 2000)
    log = bench.log("read")
    yield "1 MB fetch: log.read", best_us(lambda: log.read(6400, MB, Isolation.HIGH_WATERMARK), 1000)
    file = log.segments[0].file
    yield "1 MB fetch: file.read", best_us(lambda: file.read(6_500_000, MB), 1000)

    def touch() -> None:
        bytes(file.read(6_500_000, MB))

    yield "1 MB fetch: file.read and copy", best_us(touch, 50)
    descriptor = file.handle()
    yield "1 MB fetch: pread instead", best_us(lambda: os.pread(descriptor, MB, 6_500_000), 50)
    bench.handle(frame)
    response = bench.answers[-1]
    yield "1 MB fetch: encode", best_us(lambda: codec.encode_response(1, 4, 1, response), 2000)
    yield "1 MB fetch: event", best_us(lambda: bench.event(channel, frame), 500)


def wake(bench: Bench) -> Iterator[Row]:
    """A fetch that parks, and the produce that completes it."""
    consumer, producer = bench.channel(), bench.channel()
    template, offset_at = frames.fetch("wake", MB, max_wait_ms=5000)
    produce = frames.produce("wake", 0, frames.batch(1, 100))
    log = bench.log("wake")

    def turn() -> None:
        offset: bytes = log.log_end_offset.to_bytes(8, "big")
        bench.event(consumer, template[:offset_at] + offset + template[offset_at + 8 :])
        bench.event(producer, produce)

    yield "parked fetch, produce, both answers", best_us(turn, 1000)


def groups(bench: Bench) -> Iterator[Row]:
    """Commits and heartbeats, and the steps of a generation of a thousand members."""
    return micro_groups.rows(bench, best_us)


GROUPS = {each.__name__: each for each in (small, bulk, fetch, wake, groups)}


def main() -> None:
    """Run the chosen groups."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(GROUPS), help=f"comma list of {', '.join(GROUPS)}")
    chosen = parser.parse_args().only.split(",")
    loop = asyncio.new_event_loop()
    with tempfile.TemporaryDirectory(prefix="barnabas-micro-") as data_dir:
        bench = Bench(data_dir)
        loop.run_until_complete(bench.assembly.start())
        gc.freeze()
        gc.set_threshold(50_000, 50, 100)
        for name in chosen:
            for row, figure in GROUPS[name](bench):
                bench.answers.clear()
                print(f"{row:<44} {figure:9.2f} µs", flush=True)
        bench.stop()
    loop.close()


if __name__ == "__main__":
    main()

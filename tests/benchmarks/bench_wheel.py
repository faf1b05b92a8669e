"""The wheel against asyncio's timers, uvloop's, and a heap with lazy deletion; and the purgatory on top of it.

    python -m tests.benchmarks.bench_wheel

"Cancel and add" is the steady state of a broker: `outstanding` timers wait, deadlines spread over a minute; again and
again the oldest is cancelled and another added. The clock or loop moves on every thousand operations, and the garbage
collector is on: what a heap of cancelled timers costs to clean, by the loop's own rule, is part of the price. A delayed
operation is its own timer entry, so the wheel allocates nothing; a loop makes a handle for each.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from barnabas.broker.delayed import CallbackTask, DelayedOperation, Purgatory, Timer

SPREAD_MS = 60_000
CHUNK = 1000
SIZES = (1_000, 100_000, 1_000_000)
Row = dict[str, Any]


def nothing(now_ms: int) -> None:
    """What a timer of this benchmark does."""


class Wheel:
    name = "wheel"

    def __init__(self) -> None:
        self.timer = Timer(0)
        self.now_ms = 0

    def add(self, delay_ms: int) -> CallbackTask:
        task = CallbackTask(nothing)
        self.timer.add(task, self.now_ms + delay_ms)
        return task

    def cancel(self, task: CallbackTask) -> None:
        self.timer.cancel(task)

    def replace(self, live: deque[CallbackTask], wanted: list[int]) -> None:
        add, cancel, now_ms = self.timer.add, self.timer.cancel, self.now_ms
        for delay_ms in wanted:
            task = live.popleft()
            cancel(task)
            add(task, now_ms + delay_ms)
            live.append(task)

    def turn(self) -> None:
        self.now_ms += 1
        self.timer.advance(self.now_ms)
        self.timer.run_due(self.now_ms)

    def expire_all(self) -> None:
        while self.timer.size:
            self.now_ms += 100
            self.timer.advance(self.now_ms)
            self.timer.run_due(self.now_ms)

    def close(self) -> None: ...


class LazyHeap:
    """A heap of tasks; a cancelled one stays until it reaches the top."""

    name = "heap, lazy deletion"

    def __init__(self) -> None:
        self.heap: list[list[Any]] = []
        self.now_ms = 0
        self.count = 0

    def add(self, delay_ms: int) -> list[Any]:
        self.count += 1
        entry = [self.now_ms + delay_ms, self.count, nothing]
        heapq.heappush(self.heap, entry)
        return entry

    def cancel(self, entry: list[Any]) -> None:
        entry[2] = None

    def replace(self, live: deque[list[Any]], wanted: list[int]) -> None:
        for delay_ms in wanted:
            live.popleft()[2] = None
            live.append(self.add(delay_ms))

    def turn(self) -> None:
        self.now_ms += 1
        self._pop()

    def expire_all(self) -> None:
        while self.heap:
            self.now_ms += 100
            self._pop()

    def _pop(self) -> None:
        heap = self.heap
        while heap and heap[0][0] <= self.now_ms:
            run = heapq.heappop(heap)[2]
            if run is not None:
                run(self.now_ms)

    def close(self) -> None: ...


class LoopTimers:
    """An event loop's `call_later`. Nothing waits for real time: what is to expire is due when it is added."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop) -> None:
        self.name = name
        self.loop = loop
        self.left = 0

    def add(self, delay_ms: int) -> asyncio.TimerHandle:
        # An hour later than asked: none may fire while others are added.
        return self.loop.call_later(3600 + delay_ms / 1000, nothing, 0)

    def cancel(self, handle: asyncio.TimerHandle) -> None:
        handle.cancel()

    def replace(self, live: deque[asyncio.TimerHandle], wanted: list[int]) -> None:
        add = self.loop.call_later
        for delay_ms in wanted:
            live.popleft().cancel()
            live.append(add(3600 + delay_ms / 1000, nothing, 0))

    def turn(self) -> None:
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()

    def add_due(self, delay_ms: int) -> None:
        self.left += 1
        self.loop.call_at(delay_ms / 1e6, self._fired)  # long ago by the loop's clock, in the order of the delays

    def _fired(self) -> None:
        self.left -= 1
        if not self.left:
            self.loop.stop()

    def expire_all(self) -> None:
        self.loop.run_forever()

    def close(self) -> None:
        self.loop.close()


def contenders() -> list[Callable[[], Any]]:
    made: list[Callable[[], Any]] = [
        Wheel,
        LazyHeap,
        lambda: LoopTimers("asyncio", asyncio.SelectorEventLoop()),
    ]
    try:
        import uvloop
    except ImportError:
        return made
    return [*made, lambda: LoopTimers("uvloop", uvloop.new_event_loop())]


def delays(count: int) -> list[int]:
    rng = random.Random(7)
    return [rng.randrange(1_000, SPREAD_MS) for _ in range(count)]


def cancel_and_add(make: Callable[[], Any], outstanding: int) -> Row:
    timers = make()
    live = deque([timers.add(delay_ms) for delay_ms in delays(outstanding)])
    probes = delays(max(100_000, min(2 * outstanding, 300_000)))
    gc.collect()
    begin = time.perf_counter()
    for start in range(0, len(probes), CHUNK):
        timers.replace(live, probes[start : start + CHUNK])
        timers.turn()
    seconds = time.perf_counter() - begin
    for task in live:
        timers.cancel(task)
    timers.close()
    return row("cancel and add", timers.name, outstanding, seconds, len(probes))


def insert(make: Callable[[], Any], outstanding: int) -> Row:
    timers = make()
    wanted = delays(outstanding)
    gc.collect()
    begin = time.perf_counter()
    kept = [timers.add(delay_ms) for delay_ms in wanted]
    seconds = time.perf_counter() - begin
    for task in kept:
        timers.cancel(task)
    timers.close()
    return row("insert", timers.name, outstanding, seconds, outstanding)


def expire(make: Callable[[], Any], outstanding: int) -> Row:
    timers = make()
    add = timers.add_due if isinstance(timers, LoopTimers) else timers.add
    for delay_ms in delays(outstanding):
        add(delay_ms)
    gc.collect()
    begin = time.perf_counter()
    timers.expire_all()
    seconds = time.perf_counter() - begin
    timers.close()
    return row("expire", timers.name, outstanding, seconds, outstanding)


def complete(make: Callable[[], Any], outstanding: int) -> Row:
    """An event on each key, on which ten operations wait: in the purgatory, and in a dict of lists beside timers."""
    timers = make()
    keys = range(outstanding // 10)
    if isinstance(timers, Wheel):
        parked = Purgatory("bench", timers.timer)
        for number in range(outstanding):
            operation = Parked()
            parked.try_complete_else_watch(operation, (number % len(keys),), 0)
            operation.ready = True
        gc.collect()
        begin = time.perf_counter()
        for key in keys:
            parked.check_and_complete(key, 0)
        seconds = time.perf_counter() - begin
        assert not parked.num_delayed
    else:
        waiting: dict[int, list[Any]] = {}
        for number, delay_ms in enumerate(delays(outstanding)):
            waiting.setdefault(number % len(keys), []).append(timers.add(delay_ms))
        gc.collect()
        begin = time.perf_counter()
        for key in keys:
            for handle in waiting.pop(key):
                timers.cancel(handle)
                nothing(0)
        seconds = time.perf_counter() - begin
    timers.close()
    return row("complete", timers.name, outstanding, seconds, outstanding)


def row(what: str, name: str, outstanding: int, seconds: float, count: int) -> Row:
    return {
        "bench": "wheel",
        "what": what,
        "contender": name,
        "outstanding": outstanding,
        "us_per_operation": seconds / count * 1e6,
    }


class Parked(DelayedOperation):
    """Completes when it is ready; a high timeout."""

    __slots__ = ("ready",)

    def __init__(self) -> None:
        DelayedOperation.__init__(self, SPREAD_MS)
        self.ready = False

    def try_complete(self, now_ms: int) -> bool:
        return self.ready and self.force_complete(now_ms)

    def on_complete(self, now_ms: int) -> None: ...


def purgatory(what: str, count: int = 300_000) -> Row:
    """Requests per second of one core, each on 3 of 100 keys, parked a thousand at a time and completed or expired."""
    keys: Sequence[tuple[str, int]] = [("topic", number) for number in range(100)]
    parked = Purgatory("bench", Timer(0))
    now_ms = 0
    gc.collect()
    begin = time.perf_counter()
    for start in range(0, count, CHUNK):
        batch = [Parked() for _ in range(CHUNK)]
        for number, operation in enumerate(batch, start):
            at = number * 7
            parked.try_complete_else_watch(
                operation, (keys[at % 100], keys[(at + 1) % 100], keys[(at + 2) % 100]), now_ms
            )
        if what == "complete":
            for operation in batch:
                operation.ready = True
            for key in keys:
                parked.check_and_complete(key, 0)
        now_ms += SPREAD_MS // 60
        parked.advance(now_ms)
    while parked.num_delayed:
        now_ms += 1000
        parked.advance(now_ms)
    seconds = time.perf_counter() - begin
    parked.purge()
    assert parked.watched == 0
    return {
        "bench": "purgatory",
        "what": f"park and {what}",
        "contender": "purgatory",
        "requests_per_s": count / seconds,
    }


def run(sizes: Sequence[int] = SIZES) -> list[Row]:
    """All rows: microseconds per operation and requests per second; then the ratios with their bars."""
    rows = []
    for outstanding in sizes:
        for make in contenders():
            rows.append(
                min((cancel_and_add(make, outstanding) for _ in range(2)), key=lambda row: row["us_per_operation"])
            )
            rows += [insert(make, outstanding), expire(make, outstanding), complete(make, outstanding)]
    for what in ("complete", "expire"):
        best = max((purgatory(what) for _ in range(3)), key=lambda row: row["requests_per_s"])
        rows.append(best | {"must": 150_000, "aim": 300_000})
    return rows + ratios(rows, sizes)


def ratios(rows: list[Row], sizes: Sequence[int]) -> list[Row]:
    cost = {
        (row["contender"], row["outstanding"]): row["us_per_operation"]
        for row in rows
        if row["what"] == "cancel and add"
    }
    made = []
    for outstanding in sizes:
        for peer, must, aim in (("asyncio", 8, 13), ("uvloop", 1.1, 1.5)):
            if (peer, outstanding) in cost:
                ratio = cost[peer, outstanding] / cost["wheel", outstanding]
                bars = {"must": must, "aim": aim} if outstanding == 100_000 else {}
                made.append(
                    {"bench": "wheel", "what": f"times faster than {peer}", "outstanding": outstanding, "ratio": ratio}
                    | bars
                )
    growth = cost["wheel", sizes[-1]] / cost["wheel", sizes[0]]
    made.append(
        {"bench": "wheel", "what": f"cost at {sizes[-1]} against {sizes[0]}", "ratio": growth, "must": 1.5, "aim": 1.1}
    )
    return made


def main() -> None:
    for line in run():
        value = line.get("us_per_operation") or line.get("requests_per_s") or line["ratio"]
        unit = "µs" if "us_per_operation" in line else "/s" if "requests_per_s" in line else "x"
        bars = f"must {line['must']}, aim {line['aim']}" if "must" in line else ""
        outstanding = line.get("outstanding", "")
        print(f"{line['what']:<28} {line.get('contender', ''):<20} {outstanding:>9} {value:>12,.2f} {unit:<3} {bars}")


if __name__ == "__main__":
    main()

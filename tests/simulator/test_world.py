"""Time, clocks and the loop of a process."""

from __future__ import annotations

import asyncio
import gc
import sys

import pytest

from barnabas.simulator.clock import BEGINNING_MS, Clock
from barnabas.simulator.faults import JUMP
from barnabas.simulator.loop import ProcessLoop, new_loop
from barnabas.simulator.machine import Machine
from barnabas.simulator.network import Network
from barnabas.simulator.plan import draw
from barnabas.simulator.workload import ClientProcess
from barnabas.simulator.world import MS, SECOND, Broken, World


def process(world: World, clock: Clock | None = None) -> ProcessLoop:
    return new_loop(world, clock or Clock(world), Network(world), "10.0.0.1", "one")


def test_what_is_due_first_happens_first_and_equals_in_the_order_of_asking() -> None:
    world, seen = World("1"), list[tuple[str, int]]()
    for name, delay_ns in (("late", 9), ("b", 5), ("a", 5), ("early", 1)):
        world.after(delay_ns, lambda name=name: seen.append((name, world.now_ns)))  # type: ignore[misc]
    assert not world.run(7)
    assert seen == [("early", 1), ("b", 5), ("a", 5)]
    assert world.now_ns == 7
    assert world.run(100, lambda: len(seen) == 4)
    assert world.now_ns == 9


def test_chance_is_the_seeds_and_everybody_has_his_own() -> None:
    one, same, other = World("1"), World("1"), World("2")
    assert one.chance("disk").random() == same.chance("disk").random() != other.chance("disk").random()
    one.chance("network").random()
    assert one.chance("disk").random() != one.chance("network").random()


def test_a_clock_runs_fast_jumps_and_starts_anew() -> None:
    world = World("1")
    clock = Clock(world, fast_ppm=50_000, skew_ms=-3000, base_ns=7 * SECOND)
    assert (clock.mono_ns(), clock.now_ms()) == (7 * SECOND, BEGINNING_MS - 3000)
    world.run(100 * SECOND)
    assert (clock.mono_ns(), clock.now_ms()) == (112 * SECOND, BEGINNING_MS - 3000 + 105_000)
    clock.jump(60_000)
    clock.restart(2 * SECOND)
    assert (clock.mono_ns(), clock.now_ms()) == (2 * SECOND, BEGINNING_MS - 3000 + 165_000)


def test_seeds_draw_clocks_up_to_five_percent_off_and_jumps_of_up_to_two_hours() -> None:
    gained = []
    for seed in range(60):
        world = World(str(seed))
        clock = Machine(world, Network(world), "one", "10.0.0.1").clock
        before = clock.mono_ns()
        world.run(100 * SECOND)
        gained.append(round((clock.mono_ns() - before - 100 * SECOND) / SECOND, 2))
    assert 0 in gained
    assert -5 <= min(gained) < -4
    assert 4 < max(gained) <= 5
    jumps = [fault.jump_ms for seed in range(200) for fault in draw(str(seed)).faults if fault.kind == JUMP]
    assert -7_200_000 <= min(jumps) < -6_000_000
    assert 6_000_000 < max(jumps) <= 7_200_000


@pytest.mark.parametrize("fast_ppm", [-50_000, -1, 0, 7, 50_000])
def test_a_timer_never_fires_before_its_time(fast_ppm: int) -> None:
    world = World("1")
    clock = Clock(world, fast_ppm=fast_ppm, base_ns=123_456_789)
    for mono_ns in (123_456_789, 123_456_790, 5 * SECOND + 1, 77 * SECOND + 3):
        world.run(clock.when(mono_ns))
        assert mono_ns <= clock.mono_ns() <= mono_ns + 2


def test_a_machine_that_lost_power_is_in_another_boot_and_one_whose_process_ended_is_not() -> None:
    world = World("1")
    machine = Machine(world, Network(world), "one", "10.0.0.1")
    machine.boot()
    assert machine.boots == 1
    machine.lose_power()
    machine.boot()
    assert machine.boots == 2


def test_looking_at_the_clock_takes_time_where_work_does() -> None:
    world = World("1")
    clock = Clock(world, work_ns=MS)
    assert [clock.mono_ms() for _ in range(3)] == [1, 2, 3]


def test_a_loop_keeps_asyncios_contract() -> None:
    world, seen = World("1"), list[str]()
    loop = process(world, Clock(world, fast_ppm=40_000))

    async def work() -> None:
        assert asyncio.get_running_loop() is loop
        began_s = loop.time()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(loop.create_future(), 3)
        assert 3 <= loop.time() - began_s < 3.001
        await asyncio.gather(asyncio.sleep(1), asyncio.sleep(2))
        seen.append("done")

    def begin() -> None:
        loop.create_task(work())

    loop.call_soon(begin)
    loop.call_later(0.5, seen.append, "cancelled").cancel()
    assert world.run(60 * SECOND, lambda: bool(seen))
    assert seen == ["done"]


def test_a_killed_process_does_nothing_more_and_a_paused_one_later() -> None:
    world, seen = World("1"), list[str]()
    killed, paused = process(world), process(world)
    for loop in (killed, paused):
        loop.call_later(2, seen.append, loop.name)
    world.after(SECOND, killed.kill)
    world.after(SECOND, paused.pause)
    world.after(9 * SECOND, paused.resume)
    world.run(5 * SECOND)
    assert not seen
    world.run(9 * SECOND)
    assert seen == ["one"]


def test_an_error_that_nobody_catches_ends_the_run() -> None:
    world = World("1")
    process(world).call_soon(lambda: 1 // 0)
    with pytest.raises(Broken, match="ZeroDivisionError"):
        world.run(SECOND)


class Stubborn(ClientProcess):
    """Would wait at its end."""

    async def _run(self) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(1)


def test_of_a_client_that_does_not_come_to_its_end_nothing_runs_later(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World("0")
    client = Stubborn(Machine(world, Network(world), "client1", "10.0.1.1"), lambda event: None)
    client.start()
    world.run(MS)
    assert client.runs
    complained: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", complained.append)
    client.end_process()
    del client
    gc.collect()
    assert complained == []

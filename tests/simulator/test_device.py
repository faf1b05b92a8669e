"""The disk of a machine: its answers take time, and what is not answered may not be done."""

from __future__ import annotations

import pytest

from barnabas.broker.ports import NotYet
from barnabas.simulator.device import Device
from barnabas.simulator.world import SECOND, World


def device(seed: str = "1", *, late: bool = False) -> tuple[World, Device]:
    world = World(seed)
    made = Device(world, "one")
    made.late = late
    made.post = lambda completion: completion()
    return world, made


def test_a_sync_takes_its_time_and_then_holds() -> None:
    world, disk = device()
    file = disk.open("f", create=True)
    file.append([b"abc"])
    done: list[OSError | None] = []
    file.sync(done.append)
    assert not done
    assert world.run(3 * SECOND, lambda: bool(done))
    assert done == [None]
    assert world.now_ns > 0
    disk.lose_power()
    assert disk.load("f") == b"abc"
    assert world.reached["unsynced bytes lost"] == 0


def test_power_takes_what_no_sync_covered() -> None:
    lost = 0
    for seed in range(20):
        world, disk = device(str(seed))
        done: list[OSError | None] = []
        file = disk.open("f", create=True)
        file.sync(done.append)
        world.run(3 * SECOND, lambda done=done: bool(done))  # type: ignore[misc]
        file.append([bytes(1000)])
        disk.lose_power()
        lost += world.reached["unsynced bytes lost"]
        assert len(disk.load("f")) == 1000 - world.reached["unsynced bytes lost"]
    assert 0 < lost < 20 * 1000


def test_a_late_read_is_answered_and_nobody_is_told_of_one_that_died() -> None:
    world, disk = device(late=True)
    disk.write_atomic("f", b"abc")
    with pytest.raises(NotYet) as caught:
        disk.open("f").read(0, 3)
    disk.post = None
    disk.kill()
    world.run(3 * SECOND)
    disk.post = lambda completion: completion()
    file = disk.open("f")
    with pytest.raises(NotYet) as again:
        file.read(0, 3)
    assert again.value.token is not caught.value.token
    fired: list[bool] = []
    again.value.token.on_ready(lambda: fired.append(True))
    assert world.run(9 * SECOND, lambda: bool(fired))
    assert bytes(file.read(0, 3)) == b"abc"


def test_a_full_disk_has_room_again() -> None:
    _, disk = device()
    file = disk.open("f", create=True)
    disk.fill(full=True)
    with pytest.raises(OSError, match="no space"):
        file.append([bytes(10_000)])
    disk.fill(full=False)
    file.append([bytes(10_000)])

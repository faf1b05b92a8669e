"""A short run, and that what it holds against what was told can fail; at length: `./dev soak --only kills`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.cluster_kills.brokers import Brokers
from tests.cluster_kills.load import Sender, Wrong
from tests.cluster_kills.run import Run


@pytest.mark.slow
def test_whoever_is_killed_or_held_nothing_is_lost_or_there_twice(tmp_path: Path) -> None:
    run = Run(tmp_path / "trio", 0, small_disk=False, members=False)
    try:
        run.load.goes_on()
        for name in ("after healed", "in turn"):
            run.blow(name)
            run.load.goes_on(1)
        run.ends()
    finally:
        run.close()
    assert all(one.acknowledged or one.present for one in run.load.senders)
    assert all(one.acknowledged for one in run.load.committers)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({(0, 0): 0, (0, 2): 2}, "1 at 0-1 is lost, None is there"),
        ({(0, 0): 0, (0, 1): 2, (0, 2): 1}, "1 at 0-1 is lost, 2 is there"),
        ({(0, 0): 0, (0, 1): 1, (0, 2): 2, (0, 3): 2}, "twice or out of order"),
        ({(0, 0): 0, (0, 1): 1, (0, 2): 2, (1, 0): 9}, "what nobody sent"),
    ],
)
def test_a_history_that_breaks_a_promise_is_refused(found: dict[tuple[int, int], int], why: str) -> None:
    sender = Sender("t")
    sender.number = 4
    sender.told(0, 0, 0)
    sender.told(0, 1, 1)
    sender.check({(0, 0): 0, (0, 1): 1, (0, 2): 2, (0, 5): 3})  # what was not acknowledged may be there, or not
    with pytest.raises(Wrong, match=why):
        sender.check(found)


def test_who_tells_no_offsets_is_missed_too() -> None:
    sender = Sender("t")
    sender.number = 2
    sender.present.add((0, 1))
    with pytest.raises(Wrong, match=r"\(0, 1\).* are lost"):
        sender.check({(0, 0): 0})


def test_no_offset_is_acknowledged_twice() -> None:
    sender = Sender("t")
    sender.told(0, 0, 0)
    with pytest.raises(Wrong, match="0 and 1 are both acknowledged at 0-0"):
        sender.told(0, 0, 1)


def test_what_a_controller_cannot_lose_is_not_damaged(tmp_path: Path) -> None:
    class Stopped(Brokers):
        def __init__(self) -> None:
            self.directory, self.disk = tmp_path, None

    kept = ("__cluster_metadata-0/0.log", "meta.properties", "quorum-state", "barnabas-ledger")
    for name in (*kept, "t-0/0.log", "barnabas-life"):
        file = tmp_path / "broker-1" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"some bytes")
    assert len(Stopped().damage(1, random.Random(0), 10, records=False)) == 1
    told = Stopped().damage(1, random.Random(0), 10, records=True)
    assert any("t-0/0.log" in one for one in told)
    assert [(tmp_path / "broker-1" / name).read_bytes() for name in kept] == [b"some bytes"] * 4
    Stopped().wipe(1)
    assert sorted(each.name for each in (tmp_path / "broker-1").iterdir()) == sorted(
        {name.partition("/")[0] for name in kept}
    )

"""A voter's log on a disk whose reads take their time. What else it is: `tests/broker/raft/real_log.py`."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.quorum_log import QuorumLog
from barnabas.broker.memory_disk import Faults, MemoryDisk
from barnabas.broker.raft.world import Mark, NotInstalled
from tests.broker.raft.quorum import Entry
from tests.broker.raft.real_log import Snapshot, run


class Clock:
    def now_ms(self) -> int:
        return 1_700_000_000_000


def test_a_cut_that_must_read_first_is_made_when_it_is_asked_for_again() -> None:
    later: list[Callable[[int], None]] = []
    told: list[Exception | None] = []
    disk = MemoryDisk()
    log = QuorumLog(disk, Clock(), later.append, 1 << 20)
    for token in log.load():
        assert token is None or disk.deliver()
    for epoch in (1, 1, 2):
        log.begin_epoch(epoch, 7)
    disk.late = True

    def cut() -> Mark:
        log.cut(1, lambda error, now_ms: told.append(error))
        assert not told, "nothing calls back from inside the call"
        while not later:
            assert disk.deliver()
        while later:
            later.pop(0)(5)
        assert told == [None]
        told.clear()
        return log.end

    assert cut() == Mark(3, 2), "the bytes were not there, and it was told of them"
    assert cut() == Mark(1, 1)
    log.begin_epoch(3, 7)
    assert log.end == Mark(2, 3)


def test_a_snapshot_for_which_there_is_no_room_leaves_the_log_as_it_was() -> None:
    told: list[Exception | None] = []

    def fresh() -> tuple[MemoryDisk, QuorumLog]:
        disk, later = MemoryDisk(faults=Faults(lambda below: 0)), []
        log = QuorumLog(disk, Clock(), lambda each: later.append(each), 1 << 20)
        laters[id(log)] = later
        run(disk, log.load())
        return disk, log

    def settle(disk: MemoryDisk, log: QuorumLog) -> None:
        while disk.deliver() or laters[id(log)]:
            while laters[id(log)]:
                laters[id(log)].pop(0)(5)

    laters: dict[int, list[Callable[[int], None]]] = {}
    leaders_disk, leader = fresh()
    for _ in range(3):
        leader.begin_epoch(1, 7)
    leader.commit(3)
    run(leaders_disk, leader.snapshot(Snapshot((Entry(1, 1),)), Mark(3, 1)))  # type: ignore[arg-type]
    assert leader.held is not None
    disk, log = fresh()
    log.begin_epoch(1, 7)
    for has_room in (False, True):
        log.take_piece(Mark(3, 1), 0, leader.held.data, whole=True)
        if not has_room:
            disk.faults.refuse(1)
        log.install(Mark(3, 1), lambda error, now_ms: told.append(error))
        log.sync(1, lambda error, now_ms: told.append(error))
        assert not told, "nothing calls back from inside the call"
        settle(disk, log)
        if has_room:
            assert told == [None, None]
            assert (log.start, log.end) == (Mark(3, 1), Mark(3, 1))
        else:
            refused = [each for each in told if each is not None]
            assert [type(each) for each in refused] == [NotInstalled]
            assert len(told) == 2
            assert "no space left" in str(refused[0]).lower()
            assert (log.start, log.end) == (Mark(0, 0), Mark(1, 1))
        told.clear()


def test_no_snapshot_is_written_of_nothing_which_a_start_would_take_for_broken() -> None:
    disk = MemoryDisk()
    log = QuorumLog(disk, Clock(), lambda each: None, 1)
    run(disk, log.load())
    log.begin_epoch(1, 7)
    log.commit(1)
    assert log.snapshot_due, "much has come since, of which nothing is committed"
    run(disk, log.snapshot(Image(), Mark(1, 1)))
    assert log.held is None
    run(disk, QuorumLog(disk, Clock(), lambda each: None, 1).load())

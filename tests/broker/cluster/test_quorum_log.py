"""A voter's log on a disk whose reads take their time. What else it is: `tests/broker/raft/real_log.py`."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.cluster.quorum_log import QuorumLog
from barnabas.broker.memory_disk import MemoryDisk
from barnabas.broker.raft.world import Mark


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

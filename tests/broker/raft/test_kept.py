"""The file of what a voter must never forget."""

from __future__ import annotations

import json

import pytest

from barnabas.broker.memory_disk import MemoryDisk
from barnabas.broker.raft.kept import FILE, Kept, QuorumStateError, check_there, dump, load, parse

VOTERS = [1, 2, 3]


def disk_with(data: bytes) -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_dir(FILE.rpartition("/")[0])
    disk.write_atomic(FILE, data)
    return disk


def test_who_has_no_file_has_promised_nothing():
    assert load(MemoryDisk(), VOTERS) == Kept(0, -1, -1)


@pytest.mark.parametrize("kept", [Kept(), Kept(7, 2, -1), Kept(2**31 - 1, 1, 3)])
def test_what_was_written_is_read(kept):
    assert load(disk_with(dump(kept, (3, 1, 2))), VOTERS) == kept


def test_it_has_the_fields_of_kafkas():
    told = json.loads(dump(Kept(7, 2, 3), VOTERS))
    del told["sum"]
    assert list(told.items()) == [
        ("clusterId", ""),
        ("leaderId", 3),
        ("leaderEpoch", 7),
        ("votedId", 2),
        ("appliedOffset", 0),
        ("currentVoters", [{"voterId": 1}, {"voterId": 2}, {"voterId": 3}]),
        ("data_version", 0),
    ]


def test_any_flipped_bit_is_refused():
    data = dump(Kept(7, 2, 3), VOTERS)
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            try:
                assert parse(bytes(flipped)) == parse(data)  # within the sum's own digits: A for a
            except QuorumStateError:
                continue


def test_another_set_of_voters_is_refused_in_one_sentence():
    disk = disk_with(dump(Kept(7, 2, 3), VOTERS))
    with pytest.raises(QuorumStateError, match=r"names nodes 1, 4, and this data directory is of a quorum of 1, 2, 3"):
        load(disk, [4, 1])


def test_a_newer_version_is_refused():
    with pytest.raises(QuorumStateError, match="is of version 1, which this release cannot read"):
        parse(b'{"data_version":1,"sum":"0"}')


def test_a_file_that_is_gone_beside_a_log_with_records_is_told():
    check_there(Kept(), 0)
    check_there(Kept(1), 5)
    with pytest.raises(QuorumStateError, match="quorum-state is gone, and the metadata log has 5 records"):
        check_there(Kept(), 5)

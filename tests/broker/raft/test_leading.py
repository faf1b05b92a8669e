"""What a leader counts as committed, and when its lease is over."""

from __future__ import annotations

import pytest

from barnabas.broker.raft.leading import Leading

FETCH_MS = 2000


def leading(*voters: int, epoch_start: int = 7) -> Leading:
    return Leading(1, voters or (1, 2, 3), epoch_start, FETCH_MS, 0)


@pytest.mark.parametrize(
    ("ends", "committed"),
    [
        ({}, -1),
        ({1: 9}, -1),
        ({1: 9, 2: 7}, -1),  # what a majority has is of an earlier epoch
        ({1: 9, 2: 8, 3: 4}, 8),
        ({1: 9, 2: 9, 3: 9}, 9),
        ({2: 9, 3: 8}, 8),  # the followers are a majority, though the leader's own sync is late
    ],
)
def test_committed_is_what_a_majority_has_with_a_record_of_the_leaders_epoch(ends, committed):
    one = leading()
    for voter, end in ends.items():
        if voter == 1:
            one.synced(end)
        else:
            one.fetched(voter, end, 10)
    assert one.committed() == committed


def test_a_voter_that_has_less_than_it_had_counts_for_that_and_it_is_told(caplog):
    """Its directory was restored from an older copy: what it said before is on no device any more."""
    one = leading()
    one.synced(8)
    one.fetched(2, 12, 10)
    one.fetched(3, 8, 10)
    assert one.committed() == 8
    one.fetched(2, 5, 20)
    one.synced(12)
    assert one.committed() == 8
    (told,) = caplog.messages
    assert told.startswith("voter 2 has the metadata up to offset 5, and had it up to 12")
    one.fetched(2, 12, 30)
    assert one.committed() == 12


def test_a_leader_alone_commits_what_it_has_synced():
    one = leading(1)
    one.synced(9)
    assert one.committed() == 9
    assert one.lease_ends_ms is None


def test_of_four_voters_three_must_have_it():
    one = leading(1, 2, 3, 4)
    one.synced(9)
    one.fetched(2, 9, 0)
    assert one.committed() == -1
    one.fetched(3, 8, 0)
    assert one.committed() == 8


def test_the_lease_goes_on_with_a_majority_and_not_with_less():
    one = leading(1, 2, 3, 4, 5)
    assert one.lease_ends_ms == 3000
    one.fetched(2, 0, 1000)
    one.fetched(2, 0, 1500)
    assert one.lease_ends_ms == 3000  # two of five
    one.fetched(3, 0, 2000)
    assert one.lease_ends_ms == 5000


def test_who_does_not_fetch_hears_again_who_leads():
    one = leading()
    assert one.to_be_told(0) == [2, 3]
    one.fetched(2, 0, 500)
    assert one.to_be_told(999) == []
    assert one.to_be_told(1000) == [3]
    assert one.next_deadline_ms() == 1500


def test_who_has_most_comes_next():
    one = leading()
    one.fetched(2, 7, 0)
    one.fetched(3, 9, 0)
    assert one.successors() == [3, 2]

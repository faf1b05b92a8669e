"""One quorum in virtual time, event by event: who is elected, who is refused, what is cut."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.raft import calls
from barnabas.broker.raft.kept import Kept
from barnabas.broker.raft.raft import Role
from barnabas.broker.raft.world import Mark, NotInstalled
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.fetch import FetchPartition
from tests.broker.raft.quorum import CLUSTER, Contents, Entry, MemoryLog, Quorum


@pytest.fixture
def three():
    quorum = Quorum()
    quorum.until(lambda: quorum.agreed)
    return quorum


def ask(voter, request):
    """A request's answer, once what it rests on is kept."""
    answers: list[Any] = []
    voter.arrived(calls.speaker(request), request, answers.append)
    voter.quorum.until(lambda: bool(answers))
    return answers[0]


def vote(voter, epoch, candidate, end, *, pre=False, cluster=CLUSTER):
    answer = ask(voter, calls.vote(cluster, voter.node_id, candidate, epoch, end, pre))
    if answer.error_code:
        return answer.error_code
    (part,) = answer.topics[0].partitions
    return part.error_code or part.vote_granted


def followers(quorum):
    return [one for one in quorum.lives.values() if one is not quorum.leader]


def test_three_voters_elect_one_and_follow_it(three):
    assert three.now_ms < 4000
    assert sorted(one.raft.role.value for one in three.lives.values()) == ["follower", "follower", "leader"]
    assert three.committed == [Entry(1, -three.leader.node_id)]


def test_one_voter_leads_as_soon_as_its_vote_is_kept():
    one: Any = Quorum(1)
    assert one.until(lambda: one.leader is not None) < 100
    value = one.propose(one.leader)
    one.until(lambda: one.acknowledged == [value])
    one.crash(1)
    one.start(1)
    assert one.until(lambda: one.leader is not None) < 100
    assert one.leader.raft.epoch > 1


def test_what_is_proposed_is_committed_by_a_majority(three):
    dead = followers(three)[0].node_id
    three.crash(dead)
    value = three.propose(three.leader)
    three.until(lambda: three.acknowledged == [value])
    three.crash(followers(three)[0].node_id)
    three.propose(three.leader)
    three.run(1000)
    assert three.acknowledged == [value]


def test_another_leads_when_the_leader_is_gone(three):
    value = three.propose(three.leader)
    three.until(lambda: bool(three.acknowledged))
    old = three.leader.node_id
    three.crash(old)
    timing = three.timing
    assert three.until(lambda: three.leader is not None) < timing.fetch_ms + 3 * timing.election_ms
    assert value in {entry.value for entry in three.leader.log.entries}
    three.start(old)
    three.until(lambda: three.agreed)
    assert three.lives[old].raft.role is Role.FOLLOWER


def test_evidence_of_its_death_is_faster_than_the_fetch_timeout(three):
    old = three.leader.node_id
    three.crash(old)
    for one in three.lives.values():
        one.raft.suspect(old, three.now_ms)
    assert three.until(lambda: three.leader is not None) < 1000


@pytest.mark.parametrize("seed", range(10))
def test_two_that_see_it_at_once_do_not_stand_against_each_other(seed):
    quorum = Quorum(1, 2, 3, seed=seed)
    quorum.until(lambda: quorum.agreed)
    old = quorum.leader
    assert old is not None
    quorum.crash(old.node_id)
    for one in quorum.lives.values():
        one.raft.suspect(old.node_id, quorum.now_ms)
    quorum.until(lambda: quorum.leader is not None)
    new = quorum.leader
    assert new is not None
    assert new.raft.epoch == old.raft.epoch + 1


def test_a_leader_that_goes_has_the_next_begin_at_once(three):
    three.leader.raft.resign(three.now_ms)
    assert three.until(lambda: three.leader is not None) < 500


def test_a_leader_that_is_cut_off_resigns_and_comes_back_as_a_follower(three):
    old = three.leader
    three.cut = {frozenset((old.node_id, one.node_id)) for one in followers(three)}
    three.propose(old)
    three.until(lambda: old.raft.role is Role.RESIGNED, 4000)
    three.until(lambda: three.leader not in (None, old))
    assert three.acknowledged == []
    three.cut.clear()
    three.until(lambda: three.agreed)
    assert old.raft.role is Role.FOLLOWER
    assert all(entry.value < 0 for entry in three.committed), "what nobody else had is cut"


def test_a_fetch_that_waited_while_the_leader_was_paused_gives_it_no_new_lease(three):
    """It was sent before others may have been elected; whoever has gone on is not who leads again for it."""
    leader = three.leader
    lease_ms = leader.raft.leading.lease_ends_ms
    asked = FetchPartition(fetch_offset=leader.log.end.end, last_fetched_epoch=leader.log.end.epoch)
    assert not leader.raft.fetch(followers(three)[0].node_id, asked, lease_ms - 1).error_code
    lease_ms = leader.raft.leading.lease_ends_ms
    told = leader.raft.fetch(followers(three)[0].node_id, asked, lease_ms)
    assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert leader.raft.role is Role.RESIGNED


def test_who_is_cut_off_disturbs_nobody(three):
    """Without the pre-vote its epoch would rise all the while, and depose the leader once it is back (KIP-996)."""
    leader, (away, _) = three.leader, followers(three)
    epoch = leader.raft.epoch
    three.cut = {frozenset((away.node_id, one)) for one in three.voters if one != away.node_id}
    three.run(30_000)
    assert away.raft.epoch == epoch
    three.cut.clear()
    three.until(lambda: three.agreed)
    assert (three.leader, three.leader.raft.epoch) == (leader, epoch)


def test_one_vote_in_an_epoch(three):
    voter = followers(three)[0]
    others = [one for one in three.voters if one != voter.node_id]
    end = Mark(99, 5)
    assert vote(voter, 9, others[0], end) is True
    assert vote(voter, 9, others[1], end) is False
    assert vote(voter, 9, others[0], end) is True, "the same again"
    assert vote(voter, 8, others[0], end) == ErrorCode.FENCED_LEADER_EPOCH


def test_a_vote_is_on_the_device_before_it_is_answered(three):
    voter = followers(three)[0]
    other = next(one for one in three.voters if one != voter.node_id)
    assert vote(voter, 9, other, Mark(99, 5)) is True
    assert three.disks[voter.node_id][1] == Kept(9, other, -1)


@pytest.mark.parametrize("end", [Mark(0, 0), Mark(2, 1)])
def test_whose_log_has_less_gets_no_vote(three, end):
    for _ in range(2):
        three.propose(three.leader)
    three.until(lambda: three.agreed)
    voter = followers(three)[0]
    other = next(one for one in three.voters if one != voter.node_id)
    assert vote(voter, 9, other, end) is False
    assert vote(voter, 9, other, Mark(3, 1)) is True


def test_who_hears_from_a_leader_does_not_promise_his_vote(three):
    voter = followers(three)[0]
    other = next(one for one in three.voters if one != voter.node_id)
    epoch = voter.raft.epoch
    assert vote(voter, epoch, other, Mark(99, 1), pre=True) is False
    assert vote(three.leader, epoch, voter.node_id, Mark(99, 1), pre=True) is False
    voter.raft.suspect(three.leader.node_id, three.now_ms)
    assert vote(voter, epoch, other, Mark(99, 1), pre=True) is True, "evidence of its death ends that at once"


def test_what_is_no_voters_request_is_refused(three):
    voter = followers(three)[0]
    assert vote(voter, 9, 7, Mark(9, 5)) == ErrorCode.INCONSISTENT_VOTER_SET
    assert vote(voter, 9, 1, Mark(9, 5), cluster="another") == ErrorCode.INCONSISTENT_CLUSTER_ID
    assert vote(voter, 9, 1, Mark(9, 9)) == ErrorCode.INVALID_REQUEST, "a record of the epoch that is asked for"
    assert vote(voter, 9, 1, Mark(-1, 0)) == ErrorCode.INVALID_REQUEST
    assert voter.raft.epoch == 1, "nothing changed"


def test_who_is_far_behind_is_given_the_snapshot(three):
    away = followers(three)[0].node_id
    three.crash(away)
    for _ in range(20):
        three.propose(three.leader)
    three.until(lambda: len(three.acknowledged) == 20)
    for one in three.lives.values():
        one.log.compact()
    three.propose(three.leader)
    three.start(away)
    three.until(lambda: three.agreed)
    assert three.lives[away].log.start.end == 21


def test_a_snapshot_that_cannot_be_kept_is_asked_for_again(three, monkeypatch):
    """A voter whose disk was full for a moment followed nobody until its next start."""
    install, refused = MemoryLog.install, [NotInstalled("no space left"), NotInstalled("no space left")]

    def full(self, snapshot, done):
        if not refused:
            return install(self, snapshot, done)
        fault = refused.pop()
        return three.at(three.now_ms, lambda: done(fault, three.now_ms))

    monkeypatch.setattr(MemoryLog, "install", full)
    away = followers(three)[0].node_id
    three.crash(away)
    three.propose(three.leader)
    three.until(lambda: three.acknowledged)
    for one in three.lives.values():
        one.log.compact()
    three.propose(three.leader)
    three.start(away)
    three.until(lambda: three.agreed)
    assert three.lives[away].raft.fault is None
    assert three.lives[away].log.start.end == 2
    assert not refused


def test_a_snapshot_takes_the_place_of_records_that_part(three):
    """The one who comes back has records beyond the snapshot that nobody else ever had."""
    away = three.leader.node_id
    three.crash(away)
    three.disks[away] = (
        Contents((), Mark(0, 0), (Entry(1, -away), *(Entry(1, 900 + at) for at in range(40)))),
        Kept(1),
    )
    three.until(lambda: three.leader is not None)
    for _ in range(5):
        three.propose(three.leader)
    three.until(lambda: len(three.acknowledged) == 5)
    for one in three.lives.values():
        one.log.compact()
    three.start(away)
    three.until(lambda: three.agreed)
    assert not any(entry.value >= 900 for entry in three.lives[away].log.whole)


def test_who_cannot_keep_his_vote_gives_none(three):
    voter = followers(three)[0]
    other = next(one for one in three.voters if one != voter.node_id)
    voter.save = lambda kept, done: done(OSError("no space"), three.now_ms)
    voter.raft._keeping._save = voter.save
    answers: list[Any] = []
    voter.arrived(other, calls.vote(CLUSTER, voter.node_id, other, 9, Mark(99, 5), False), answers.append)
    assert voter.raft.fault is not None
    assert not any(part.vote_granted for one in answers for topic in one.topics for part in topic.partitions)
    assert vote(voter, 10, other, Mark(99, 5)) == ErrorCode.KAFKA_STORAGE_ERROR

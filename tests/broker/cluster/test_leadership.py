"""What fencing and unfencing a broker comes to for partitions."""

from __future__ import annotations

import pytest

from barnabas.broker.cluster.elections import PREFERRED, UNCLEAN, all_of, asked, needing
from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.leadership import fenced, judge, nobody_has_all, resigned, unfenced, unproven
from barnabas.broker.cluster.records import BrokerChange, Config, Partition, PartitionChange, RegisterBroker, Topic
from barnabas.broker.cluster.succession import Terms, settle, smaller_minimum
from barnabas.broker.cluster.turns import SMALL_MAX
from barnabas.broker.config import BrokerConfig
from barnabas.broker.jobs import at_once
from barnabas.broker.ports import IsrProposal
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition


def image_of(*partitions, dead=()):
    """Brokers 1 to 3, of which `dead` are fenced; partitions are (replicas, isr, leader) of one topic."""
    image = Image()
    image.apply([RegisterBroker(one, one, bytes(16), (), None, one in dead) for one in (1, 2, 3)])
    image.apply([Topic(b"t" * 16, "t")])
    image.apply([Partition(b"t" * 16, number, *one) for number, one in enumerate(partitions)])
    return image


T = b"t" * 16


def terms(min_isr=1, unclean=False):
    return lambda topic: Terms(min_isr, unclean)


def settled(image, changes, number=0):
    """ISR, eligible ones, the leader, and who led last, after these changes."""
    image.apply(changes)
    state = image.partition("t", number)
    return state.isr, state.elr, state.leader, state.last_known


def test_nobody_is_eligible_where_that_is_off_and_the_last_in_sync_stays():
    off = lambda topic: Terms(2, eligible=False)  # noqa: E731
    image = image_of(((1, 2, 3), (1, 2), 1), dead=(3,))
    assert settled(image, at_once(fenced(image, 1, off))) == ((2,), (), 2, ())
    image.apply([BrokerChange(1, fenced=True), *at_once(fenced(image, 2, off)), BrokerChange(2, fenced=True)])
    assert settled(image, []) == ((2,), (), -1, ()), "who left before waits for it"
    image.apply([BrokerChange(1, fenced=False), *at_once(unfenced(image, 1, off))])
    assert settled(image, []) == ((2,), (), -1, ())
    assert settled(image, at_once(unfenced(image, 2, off))) == ((2,), (), 2, ())
    image = image_of(((1, 2), (2,), -1), dead=(1,))
    assert settled(image, at_once(unproven(image, 2, off))) == ((), (), -1, (2,)), "it may have lost what it had"
    assert settled(image, at_once(unfenced(image, 2, off))) == ((2,), (), 2, ())
    assert image.partition("t", 0).recovering, "which is told"


@pytest.mark.parametrize(
    ("before", "eligible", "expected"), [((), (), ((1,), (), -1, ())), ((2,), (2,), ((), (1, 2), -1, (1,)))]
)
def test_who_was_eligible_as_it_was_put_off_is_so_until_the_isr_is_large_enough(before, eligible, expected):
    image = image_of(((1, 2, 3), (1,), 1), dead=(2, 3))
    image.apply([PartitionChange(T, 0, elr=before)])
    off = lambda topic: Terms(2, eligible=False)  # noqa: E731
    assert settled(image, []) == ((1,), eligible, 1, ())
    assert settled(image, at_once(fenced(image, 1, off))) == expected


@pytest.mark.parametrize(
    ("replicas", "isr", "leader", "dead", "min_isr", "expected"),
    [
        ((1, 2, 3), (1, 2, 3), 1, (), 1, ((2, 3), (), 2, ())),  # the next in assignment order
        ((2, 1, 3), (1, 2, 3), 2, (), 1, ((1, 3), (), 1, ())),
        ((1, 3, 2), (1, 2), 1, (), 1, ((2,), (), 2, ())),  # out of sync: passed over
        ((1, 2, 3), (1, 2, 3), 1, (2,), 1, ((2, 3), (), 3, ())),  # in sync and dead: passed over
        ((1, 2, 3), (1, 2), 1, (2,), 1, ((2,), (), -1, ())),  # nobody is there: it is for who comes back
        ((1, 2, 3), (1, 2), 1, (), 2, ((2,), (1,), 2, ())),  # below the minimum: nothing is committed without it
        ((1, 2, 3), (1, 2, 3), 1, (), 2, ((2, 3), (), 2, ())),
        ((1, 2, 3), (1,), 1, (), 2, ((), (1,), -1, (1,))),  # the last of all
        ((2, 1), (2,), 2, (), 3, ((), (2,), -1, (2,))),  # fewer replicas than the minimum
    ],
)
def test_who_is_fenced_leads_nothing_and_leaves_the_isr(replicas, isr, leader, dead, min_isr, expected):
    image = image_of((replicas, isr, leader), dead=dead)
    assert settled(image, at_once(fenced(image, leader, terms(min_isr)))) == expected


def test_who_leaves_an_isr_below_the_minimum_is_eligible_until_it_is_large_enough_again():
    image, by = image_of(((1, 2, 3), (1, 2, 3), 1)), terms(2)
    for one, expected in (
        (3, ((1, 2), (), 1, ())),
        (2, ((1,), (2,), 1, ())),
        (1, ((), (1, 2), -1, (1,))),
    ):
        assert settled(image, [*at_once(fenced(image, one, by)), BrokerChange(one, fenced=True)]) == expected
    assert settled(image, [*at_once(unfenced(image, 3, by)), BrokerChange(3, fenced=False)])[2] == -1
    assert settled(image, [*at_once(unfenced(image, 2, by)), BrokerChange(2, fenced=False)]) == ((2,), (1,), 2, ())
    copy = Image()
    copy.apply(image.to_records())
    assert copy.partition("t", 0) == image.partition("t", 0)
    change = settle(0, image.partition("t", 0), by("t"), image.is_alive, isr=(2, 3))
    assert settled(image, [change]) == ((2, 3), (), 2, ())


@pytest.mark.parametrize("last", [1, 2])
def test_who_may_have_lost_something_is_in_no_elr_and_leads_only_as_the_last_that_did(last):
    image, by = image_of(((1, 2), (1, 2), 1)), terms(2)
    for one in (2, 1) if last == 1 else (1, 2):
        image.apply([*at_once(fenced(image, one, by)), BrokerChange(one, fenced=True)])
    assert image.partition("t", 0).last_known == (last,)
    lost = at_once(unproven(image, 2, by))
    assert settled(image, lost)[:2] == ((), (1,))
    assert nobody_has_all(image, lost) == []
    assert at_once(unfenced(image, 2, by)) == [], "1 has all of it, and is not there"
    image.apply([BrokerChange(2, fenced=False)])
    doubtful = at_once(unproven(image, 1, by))
    assert settled(image, doubtful) == (((), (), -1, (1,)) if last == 1 else ((2,), (), 2, ()))
    assert (nobody_has_all(image, doubtful) == doubtful) == (last == 1)
    image.apply(at_once(unfenced(image, 1, by)))
    state = image.partition("t", 0)
    assert (state.leader, state.isr, state.recovering) == (last, (last,), True)


@pytest.mark.parametrize(("isr", "says", "code"), [((1,), True, 0), ((1, 2), True, 42), ((1, 2), False, 0)])
def test_who_recovers_has_nobody_in_sync_with_it(isr, says, code):
    image = image_of(((1, 2, 3), (1,), 1))
    image.apply([PartitionChange(T, 0, recovering=True)])
    proposal = IsrProposal(TopicPartition("t", 0), T, 0, 1, isr, recovering=says)
    assert judge(image, proposal, image.partition("t", 0)) == code


def test_a_leader_whose_log_is_damaged_is_followed_by_one_that_has_all_of_it_and_is_not_eligible():
    image = image_of(((1, 2, 3), (1, 2), 1), ((1, 2, 3), (1,), 1), ((1, 2, 3), (1, 2), 1), dead=(3,))
    image.apply([PartitionChange(T, 1, elr=(2,)), PartitionChange(T, 2, isr=(1,), elr=(3,))])
    for number, expected in ((0, ((2,), (), 2, ())), (1, ((2,), (), 2, ()))):
        state = image.partition("t", number)
        isr = tuple(one for one in state.isr if one != 1)
        assert settled(image, [resigned(image, number, state, isr, Terms(2))], number) == expected
    assert resigned(image, 2, image.partition("t", 2), (), Terms(2, unclean=True)) is None, "nobody can"
    assert judge(image, IsrProposal(TopicPartition("t", 2), T, 0, 1, (2,)), image.partition("t", 2)) != 0


@pytest.mark.parametrize(("after", "elr"), [(1, ()), (3, (2,))])
def test_a_minimum_that_the_isr_reaches_leaves_nobody_eligible(after, elr):
    """With it the leader may commit what the eligible have not."""
    image = image_of(((1, 2, 3), (1,), 1), ((1, 2, 3), (), -1))
    image.apply([PartitionChange(T, number, elr=(2,)) for number in (0, 1)])
    records = [Config(2, "t", "min.insync.replicas", str(after))]
    image.apply(at_once(smaller_minimum(image, BrokerConfig(min_insync_replicas=2), records)))
    assert image.partition("t", 0).elr == elr
    assert image.partition("t", 1).elr == (2,), "nothing is committed while nobody leads"
    assert at_once(smaller_minimum(image, BrokerConfig(), [Config(2, "t", "retention.ms", "1")])) == []


def test_a_follower_that_is_fenced_leaves_the_isr_in_the_same_leader_epoch():
    image = image_of(((1, 2, 3), (1, 2, 3), 1))
    image.apply(at_once(fenced(image, 3)))
    state = image.partition("t", 0)
    assert (state.isr, state.leader, state.leader_epoch, state.partition_epoch) == ((1, 2), 1, 0, 1)


def test_who_is_unfenced_leads_what_waits_for_it_and_nothing_else():
    image = image_of(((1, 2, 3), (2,), -1), ((1, 2, 3), (1,), -1), ((2, 3, 1), (2, 3), 3), dead=(1, 2))
    assert at_once(unfenced(image, 2)) == [PartitionChange(T, 0, leader=2)]
    assert at_once(fenced(image, 2))[1:] == [PartitionChange(T, 2, isr=(3,))]


def test_where_nobody_in_sync_is_alive_one_out_of_sync_leads_if_its_topic_lets_it():
    image = image_of(((1, 2, 3), (1,), 1), ((1, 2, 3), (1, 2), 1), ((1,), (1,), 1))
    gone = PartitionChange(T, 0, isr=(), leader=-1, elr=(1,), last_known=(1,))
    kept = at_once(fenced(image, 1))
    assert kept == [
        gone,
        PartitionChange(T, 1, isr=(2,), leader=2),
        gone._replace(partition=2),
    ]
    lets = at_once(fenced(image, 1, terms(unclean=True)))
    assert lets == [PartitionChange(T, 0, isr=(2,), leader=2, recovering=True), *kept[1:]]
    image.apply([BrokerChange(1, fenced=True), BrokerChange(2, fenced=True), BrokerChange(3, fenced=True), *kept])
    assert at_once(unfenced(image, 3)) == []
    change = PartitionChange(T, 0, isr=(3,), leader=3, recovering=True, elr=(), last_known=())
    assert at_once(unfenced(image, 3, terms(unclean=True))) == [change]
    image.apply([change])
    assert image.partition("t", 0).recovering
    copy = Image()
    copy.apply(image.to_records())
    assert copy.partition("t", 0) == image.partition("t", 0)


@pytest.mark.parametrize(
    ("replicas", "isr", "leader", "dead", "election", "expected"),
    [
        ((1, 2), (1, 2), 1, (), PREFERRED, ErrorCode.ELECTION_NOT_NEEDED),
        ((1, 2), (1, 2), 2, (), PREFERRED, PartitionChange(b"t" * 16, 0, leader=1)),
        ((1, 2), (2,), 2, (), PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        ((1, 2), (1, 2), 2, (1,), PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        ((1, 2), (1, 2), 2, (1,), UNCLEAN, ErrorCode.ELECTION_NOT_NEEDED),
        ((1, 2), (1,), -1, (1, 2), UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE),
        ((1, 2, 3), (1,), -1, (1,), UNCLEAN, PartitionChange(b"t" * 16, 0, (2,), 2, recovering=True)),
        ((1, 2, 3), (1, 3), -1, (1,), UNCLEAN, PartitionChange(b"t" * 16, 0, leader=3)),
        ((1, 2), (1, 2), 1, (), 2, ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_election_that_is_asked_for(replicas, isr, leader, dead, election, expected):
    image = image_of((replicas, isr, leader), dead=dead)
    told: dict[TopicPartition, tuple[int, str]] = {}
    key, unknown = TopicPartition("t", 0), TopicPartition("t", 1)
    changes = at_once(asked(image, [key, unknown], election, told))
    code = expected if isinstance(expected, ErrorCode) else 0
    assert told[key][0] == code
    assert changes == ([] if code else [expected])
    if election in (PREFERRED, UNCLEAN):
        assert told[unknown] == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as t-1")
        assert list(needing(image, election)) == ([] if code == ErrorCode.ELECTION_NOT_NEEDED else [key])
        alone = at_once(all_of(image, election))
        assert alone == (changes if election == PREFERRED else []), "nobody is made leader uncleanly unless it may"
        assert at_once(all_of(image, election, terms(unclean=True))) == changes


def test_many_partitions_are_looked_at_a_few_in_each_step():
    image = image_of(*[((1, 2, 3), (1, 2, 3), 2)] * (2 * SMALL_MAX))
    steps = fenced(image, 2)
    assert [next(steps), next(steps)] == [None, None]
    with pytest.raises(StopIteration) as ended:
        next(steps)
    assert len(ended.value.value) == 2 * SMALL_MAX
    image.apply([BrokerChange(2, fenced=True), *ended.value.value])
    assert {state.leader for state in image.topics["t"].partitions.values()} == {1}

"""A disk that cannot be relied on, in virtual time: it costs one replica, and nothing that another in sync has."""

from __future__ import annotations

from functools import partial

import pytest

from barnabas.broker.log import Log
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.requests.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.requests.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.broker.node.cluster import Cluster
from tests.broker.node.group_world import commit_request
from tests.durability.plants import Change

CONTROLLER = 1
LOG = "t-0/00000000000000000000.log"


@pytest.fixture
def three():
    return with_a_topic()


def with_a_topic():
    three = Cluster(auto_leader_rebalance_enable=False)
    three.create(replicas={0: [2, 3, 1]}, min_insync_replicas=2)
    assert three.put(b"first").error_code == 0
    return three


def flip(three, node_id, batch):
    """Turn a bit of the records of a batch."""
    log = three[node_id].log()
    size = log.size_bytes // 3
    three[node_id].disk.flip(LOG, batch * size + size - 2)


def damaged(three):
    """3 is away, two more records are written, and a bit of the second of the three flips at the leader."""
    three.kill(3)
    three.until(lambda: 3 not in three.state().isr)
    for value in (b"secnd", b"third"):
        assert three.put(value).error_code == 0
    assert three.leader() == 2
    before = three[1].values()
    flip(three, 2, 1)
    return before


def healed(three, before):
    three.until(lambda: len(three.state().isr) == 3)
    three.until(lambda: len(set(three.ends().values())) == 1)
    assert three[1].values() == three[2].values() == three[3].values() == before


def test_a_leader_with_a_flipped_bit_gives_up_and_fetches_it_anew_from_the_next(three, caplog):
    before = damaged(three)
    three.start(3)
    three.until(lambda: three.leader() == 1)
    assert "t-0: the batch at offset 1 has a wrong sum, as broker 3 has found; another is to lead" in caplog.text
    assert not three.state().recovering
    healed(three, before)
    told = list(three[2].core.logs.losses.last)
    assert [(one.first_offset, one.end_offset) for one in told] == [(1, 3)]
    assert "what its disk had of it was damaged" in told[0].reason
    assert three.put(b"more").base_offset == 3


@pytest.mark.parametrize("times", [1, 3])
def test_what_is_damaged_is_in_no_isr_before_it_could_be_cut(three, monkeypatch, times):
    before = damaged(three)
    log, cut = three[2].log(), Log.truncate_to
    refused: list[int] = []

    def refuses(one, offset):
        if one is log and len(refused) < times:
            refused.append(offset)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room for the copy of a file that is read from")
        return cut(one, offset)

    monkeypatch.setattr(Log, "truncate_to", refuses)
    three.start(3)
    three.until(lambda: three.leader() == 1)
    assert three.put(b"more").error_code == 0
    whole = three[1].values()
    assert whole[:3] == before
    healed(three, whole)
    assert refused == [1] * times


def consume(three, offset, node_id=0, topic="t"):
    """What a consumer is answered: the error, and the records."""
    part = FetchPartition(0, -1, offset, partition_max_bytes=1 << 20)
    request = FetchRequest(topics=[FetchTopic(topic, ZERO_UUID, [part])])
    data = three.ask(node_id or three.leader(topic=topic), request, 11).responses[0].partitions[0]
    return data.error_code, bytes(data.records)


@pytest.mark.parametrize(("at", "good"), [(-2, 1), (8, 1), (0, 0)], ids=["records", "length", "base offset"])
def test_a_consumer_is_given_nothing_that_is_damaged_where_another_can_lead(three, at, good, caplog):
    """All followers have it: none of them will ever ask for it again. Of two offsets either may be the wrong one."""
    for value in (b"secnd", b"third"):
        assert three.put(value).error_code == 0
    three.until(lambda: len(set(three.high_watermarks().values())) == 1)
    before = three[1].values()
    size = three[2].log().size_bytes // 3
    three[2].disk.flip(LOG, size + at % size)
    code, records = consume(three, 0)
    assert (code, len(records)) == ((0, size) if good else (ErrorCode.KAFKA_STORAGE_ERROR, 0)), "what comes before it"
    assert consume(three, good, 2) == (ErrorCode.KAFKA_STORAGE_ERROR, b"") or three.leader() == 3
    three.until(lambda: three.leader() == 3)
    assert f"the batch at offset {good} is damaged, as a consumer was to be given it; another is to lead" in caplog.text
    whole = b"".join(three[3].disk.load(LOG)[at : at + size] for at in (0, size, 2 * size))
    assert consume(three, 0) == (0, whole)
    healed(three, before)
    told = list(three[2].core.logs.losses.last)
    assert [(one.first_offset, one.end_offset) for one in told] == [(good, 3)]


def test_who_asks_for_what_is_damaged_comes_again_and_asks_the_next_leader(three):
    assert three.put(b"secnd").error_code == 0
    flip(three, 2, 0)
    assert consume(three, 0) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
    three.until(lambda: three.leader() == 3)
    code, records = consume(three, 0)
    assert not code
    assert b"first" in records


def test_what_a_consumer_cannot_be_given_for_the_device_is_led_by_another(three):
    three[2].disk.faults.bad_reads.add(LOG)
    assert consume(three, 0) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
    three.until(lambda: three.leader() == 3)
    assert consume(three, 0)[0] == 0


def test_what_nobody_else_has_is_given_as_it_is(caplog):
    """Whoever sums it up finds it, as with Apache Kafka; and when another has it all it leads."""
    three = Cluster(auto_leader_rebalance_enable=False)
    three.create(replicas={0: [2, 3]})
    assert three.put(b"first").error_code == 0
    three.kill(3)
    three.until(lambda: three.state().isr == (2,))
    size = three[2].log().size_bytes
    three[2].disk.flip(LOG, size - 2)
    code, records = consume(three, 0)
    assert (code, len(records)) == (0, size)
    assert b"first" not in records
    assert three.put(b"secnd").error_code == 0
    assert caplog.text.count("as a consumer was to be given it") == 1


def test_one_bit_in_the_length_of_a_batch_empties_nothing_that_another_has(three):
    before = damaged(three)
    flip(three, 2, 1)
    size = three[2].log().size_bytes // 3
    three[2].disk.flip(LOG, size + 8, 4)
    three.start(3)
    three.until(lambda: three.leader() == 1)
    healed(three, before)


def test_one_that_nobody_else_can_replace_leads_on_and_says_what_is_wrong(caplog):
    three = Cluster(auto_leader_rebalance_enable=False)
    three.create(replicas={0: [2, 3]})
    assert three.put(b"first").error_code == 0
    three.kill(3)
    three.until(lambda: three.state().isr == (2,))
    for value in (b"secnd", b"third"):
        assert three.put(value).error_code == 0
    flip(three, 2, 1)
    three.start(3)
    three.until(lambda: three[3].core.ready)
    three.advance(10_000)
    assert (three.leader(), three.state().isr) == (2, (2,))
    assert caplog.text.count("has a wrong sum, as broker 3 has found") == 1
    assert three.put(b"fourth").base_offset == 3, "what comes is taken"


def test_a_sync_that_fails_costs_the_leadership(three):
    three.create("u", replicas={0: [2, 3, 1]}, min_insync_replicas=2, flush_messages=1)
    assert three.put(b"first", topic="u").error_code == 0
    three[2].disk.faults.bad_syncs.add("u-0/00000000000000000000.log")
    answer = three.produce(b"second", topic="u")
    three.until(lambda: three.leader(topic="u") == 3)
    three.until(lambda: answer.done)
    assert sorted(three.state(topic="u").isr) == [1, 3]
    assert three.put(b"third", topic="u").error_code == 0
    assert three.leader() == 2, "the other log takes records"


def test_what_cannot_be_opened_is_led_by_another():
    """2 and 3 may lead, 2 comes back first, and cannot open its log."""
    four = Cluster(1, 2, 3, 4, auto_leader_rebalance_enable=False)
    four.create(replicas={0: [2, 3, 4]}, min_insync_replicas=2)
    assert four.put(b"first").error_code == 0
    for one in (4, 3, 2):
        four.kill(one)
        four.until(partial(lambda one: not four[CONTROLLER].core.image.is_alive(one), one))
    four.disks[2].faults.bad_reads.add("t-0/partition.metadata")
    four.start(2)
    four.until(lambda: four.leader() == 2)
    four.start(3)
    four.until(lambda: four.leader() == 3)
    assert four.state().isr == (3,)
    assert four.put(b"second", acks=1).base_offset == 1


@pytest.mark.parametrize("replicas", [[2, 3, 1], [2, 3]])
def test_a_log_that_does_not_say_whose_it_is_is_fetched_anew(three, replicas, caplog):
    """As any file that is damaged. Of two that are to be in sync each stays eligible to lead; it lets go of that."""
    three.create("u", replicas={0: replicas}, min_insync_replicas=2)
    assert three.put(b"first", topic="u").error_code == 0
    three.kill(3)
    three.until(lambda: 3 not in three.state(topic="u").isr)
    assert three.state(topic="u").elr == ((3,) if len(replicas) == 2 else ())
    three.disks[3].flip("u-0/partition.metadata", 12)
    three.start(3)
    three.until(lambda: len(three.state(topic="u").isr) == len(replicas))
    assert three.put(b"second", topic="u").base_offset == 1
    assert len(three[3].values(topic="u")) == 2
    assert three[3].values(topic="u") == three[2].values(topic="u")
    assert "u-0 is fetched anew from others" in caplog.text
    assert any(name.endswith("-stray") for name in three.disks[3].list("")), "its bytes stay"


def test_a_log_that_does_not_say_whose_it_is_stays_where_no_other_leads(three):
    """It may be the only one that has all."""
    three.create("u", replicas={0: [3]})
    assert three.put(b"first", topic="u").error_code == 0
    three.kill(3)
    three.disks[3].flip("u-0/partition.metadata", 12)
    three.start(3)
    three.until(lambda: three[3].core.ready)
    three.advance(10_000)
    assert three.disks[3].exists("u-0/partition.metadata")
    assert not any(name.endswith("-stray") for name in three.disks[3].list(""))


def test_one_that_lost_records_from_its_midst_has_them_again_before_it_may_lead():
    """It asks from its end on, as far as the others have come: it would lead, and nobody know what it lacks."""
    three = Cluster(auto_leader_rebalance_enable=False)
    three.create("u", replicas={0: [2, 3, 1]}, segment_ms=1000, message_timestamp_type="LogAppendTime")
    for value in (b"first", b"second", b"third"):
        assert three.put(value, topic="u").error_code == 0
        three.advance(2000)
    assert len(three[3].log(topic="u").segments) == 3
    three.kill(3)
    three.until(lambda: 3 not in three.state(topic="u").isr)
    three.disks[3].remove("u-0/00000000000000000001.log")
    three.start(3)
    three.until(lambda: len(three.state(topic="u").isr) == 3)
    assert three[3].core.logs.losses.count
    assert three[3].values(topic="u") == three[2].values(topic="u")
    assert len(three[3].values(topic="u")) == 3


def in_three_files():
    """A record each, all noted down as synced: after a kill nobody looks at the first two."""
    three = Cluster(auto_leader_rebalance_enable=False)
    three.create("u", replicas={0: [2, 3, 1]}, segment_ms=1000, message_timestamp_type="LogAppendTime")
    for value in (b"first", b"secnd", b"third"):
        assert three.put(value, topic="u").error_code == 0
        three.advance(2000)
    three.advance(120_000)
    return three


def test_a_start_that_is_killed_before_it_has_cut_leaves_a_note_for_the_next():
    """What told of the loss is mended by then: the log looks whole, but for a record from its midst."""
    three = in_three_files()
    three.kill(3)
    three.until(lambda: 3 not in three.state(topic="u").isr)
    three.disks[3].remove("u-0/00000000000000000001.log")
    three.start(3)
    while not three[3].core.logs.losses.count:
        assert any([node.step() for node in three.nodes.values()] + [three._carry(wire) for wire in list(three.wires)])
    assert not three.disks[3].exists("u-0/00000000000000000001.index")
    three.kill(3)
    three.start(3)
    three.until(lambda: len(three.state(topic="u").isr) == 3)
    assert three[3].values(topic="u") == three[2].values(topic="u")
    assert len(three[3].values(topic="u")) == 3
    assert not three.disks[3].exists("u-0/barnabas-lacking")


def test_who_is_killed_before_it_could_give_up_knows_afterwards_what_is_damaged():
    three = in_three_files()
    before = three[1].values(topic="u")
    three[2].disk.flip("u-0/00000000000000000001.log", 71)
    three.cut = {frozenset((2, 1)), frozenset((2, 3))}
    assert consume(three, 1, 2, "u")[0] == ErrorCode.KAFKA_STORAGE_ERROR
    three.kill(2)
    three.cut = set()
    three.until(lambda: three.leader(topic="u") == 3)
    three.start(2)
    three.until(lambda: len(three.state(topic="u").isr) == 3)
    assert three[2].values(topic="u") == before
    assert not three.disks[2].exists("u-0/barnabas-lacking")


def test_what_only_one_broker_is_to_have_is_noted_by_nobody(three):
    three.create("u", replicas={0: [3]}, segment_ms=1000, message_timestamp_type="LogAppendTime")
    for value in (b"first", b"second", b"third"):
        assert three.put(value, topic="u").error_code == 0
        three.advance(2000)
    three.kill(3)
    three.disks[3].remove("u-0/00000000000000000001.log")
    three.start(3)
    three.until(lambda: three[3].core.ready)
    assert three[3].core.logs.losses.count
    assert not three.disks[3].exists("u-0/barnabas-lacking")


def test_what_was_never_committed_is_not_read_again_where_records_were_deleted(three):
    """What is deleted may be readable again after a kill: the records that were there, and no others."""
    three.cut = {frozenset((2, 1)), frozenset((2, 3))}
    assert three.put(b"2 alone has it", acks=1, node_id=2).error_code == 0
    three.kill(2)
    three.cut = set()
    three.until(lambda: three.leader() == 3)
    assert three.put(b"second").base_offset == 1
    deletes = DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 2)])], 0)
    three.send(3, deletes, 2)
    three.until(lambda: three[3].log().log_start_offset == 2)
    for _ in range(2):
        three.start(2)
        three.until(lambda: len(three.state().isr) == 3 and three[2].core.ready)
        three.kill(2)
        three.until(lambda: 2 not in three.state().isr)
    assert not three.disks[2].exists(LOG), "it began anew, at 2"


@pytest.mark.parametrize(
    ("place", "old", "new"),
    [
        ("barnabas.broker.replica.damage:check_given", "if again and records", "if False"),
        ("barnabas.broker.replica.fetch:_respond", "if params.followed and", "if False and"),
        ("barnabas.broker.replica.fetch:_read", "if partition.remotes:", "if False:"),
        ("barnabas.broker.replica.follower:Follower.begin", "if self.partition.damaged >= 0", "if False"),
        ("barnabas.broker.log.manager:LogManager._open", "if 0 <= known <", "if False and 0 <= known <"),
        ("barnabas.broker.log.lacking:before", "if not 0 <= known <= first", "if False"),
        ("barnabas.broker.replica.damage:resign", "lacking.note_later", "(lambda *_: None)"),
        ("barnabas.broker.replica.damage:refused", "is not None", "is None"),
        ("barnabas.broker.replica.damage:never_opened", "state.leader != shared.broker_id", "True"),
        ("barnabas.broker.node.startup:run", "any(map(core.logs.is_damaged, core.logs.failed))", "False"),
        ("barnabas.broker.replica.manager:ReplicaManager._host", "if self.logs.is_damaged(key)", "if False"),
    ],
)
def test_a_defect_in_it_is_found(place, old, new, caplog):
    undo = Change(place, old, new).make()
    try:
        with pytest.raises(AssertionError):
            all_of_it(caplog)
    finally:
        undo()


def all_of_it(caplog):
    test_a_leader_with_a_flipped_bit_gives_up_and_fetches_it_anew_from_the_next(with_a_topic(), caplog)
    test_who_asks_for_what_is_damaged_comes_again_and_asks_the_next_leader(with_a_topic())
    test_a_sync_that_fails_costs_the_leadership(with_a_topic())
    test_what_cannot_be_opened_is_led_by_another()
    test_one_that_lost_records_from_its_midst_has_them_again_before_it_may_lead()
    test_a_start_that_is_killed_before_it_has_cut_leaves_a_note_for_the_next()
    test_who_is_killed_before_it_could_give_up_knows_afterwards_what_is_damaged()
    test_a_log_that_does_not_say_whose_it_is_is_fetched_anew(with_a_topic(), [2, 3], caplog)


OFFSETS = "__consumer_offsets"
FILE = f"{OFFSETS}-0/00000000000000000000.log"


def with_offsets(replicas=(2, 3, 1)):
    """Two commits of a group, led by these in turn."""
    three = Cluster(auto_leader_rebalance_enable=False)
    three.create()
    three.create(OFFSETS, replicas={0: list(replicas)})
    for offset in (5, 8):
        told = three.ask(2, commit_request({0: offset}), 8)
        assert told.topics[0].partitions[0].error_code == 0
    three.until(lambda: all(three[one].log(topic=OFFSETS).high_watermark == 2 for one in replicas))
    return three


def committed(three, node_id):
    """What a broker tells: the group's error, and the offset."""
    group = three.ask(node_id, OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)]), 8).groups[0]
    return group.error_code, [part.committed_offset for topic in group.topics for part in topic.partitions]


@pytest.mark.parametrize("fault", ["a bit", "the device"])
def test_offsets_of_a_damaged_log_are_told_by_who_has_them(fault, caplog):
    """Else an older commit would be told, or none, though another has the last one."""
    three = with_offsets()
    if fault == "a bit":
        three[3].disk.flip(FILE, three[3].log(topic=OFFSETS).size_bytes - 2)
    else:
        three[3].disk.faults.bad_reads.add(FILE)
    three.kill(2)
    three.until(lambda: three.leader(topic=OFFSETS) == 1)
    assert committed(three, 3) == (ErrorCode.NOT_COORDINATOR, [])
    three.until(lambda: committed(three, 1) == (0, [8]))
    assert "cannot be read, as its groups were to be loaded; another is to lead" in caplog.text
    three.disks[3].faults.bad_reads.clear()
    three.start(2)
    three.until(lambda: len(three.state(topic=OFFSETS).isr) == 3)
    assert three[1].values(topic=OFFSETS) == three[3].values(topic=OFFSETS)


def test_offsets_that_nobody_else_has_are_told_as_far_as_they_can_be_read():
    three = with_offsets((2, 3))
    three.kill(3)
    three.until(lambda: three.state(topic=OFFSETS).isr == (2,))
    three.stop(2)
    three.disks[2].flip(FILE, len(three.disks[2].load(FILE)) - 2)
    three.start(2)
    three.until(lambda: committed(three, 2) == (0, [5]))

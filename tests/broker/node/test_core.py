"""The core's life: recovery as jobs, requests meanwhile, failures that stay small, a clean end."""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from barnabas.broker.cluster.metadata_log import MetadataLog
from barnabas.broker.cluster.records import BrokerChange, Config, PartitionChange, RegisterBroker
from barnabas.broker.handlers import metadata as metadata_handler
from barnabas.broker.log.losses import Loss
from barnabas.broker.memory_disk import Faults, MemoryDisk
from barnabas.broker.node import core as core_module
from barnabas.broker.node.identity import DataDirError
from barnabas.broker.ports import IsrAnswer, IsrProposal
from barnabas.protocol.batch import set_crc
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.requests.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.requests.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.requests.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.node.world import Answer, World, api_versions, batch, part_of, records_of


def test_api_versions_is_answered_at_once_and_the_rest_when_the_metadata_is_known() -> None:
    first = World()
    first.create()
    first.put(batch(b"x"))
    world = World(disk=first.stop(), start=False)
    world.core.start(world.now_ms)
    versions = world.send(api_versions(3), 3)
    assert versions.done
    asked = world.send(MetadataRequest([MetadataRequestTopic(name="t")], True), 9)
    assert not asked.done
    for _ in range(1000):
        if asked.done:
            break
        world.core.run_job_step(world.now_ms)
        if not asked.done:
            world.disk.deliver()
            world.core.wake(world.now_ms)
    assert not world.core.ready
    topic = asked.response.topics[0]
    assert (topic.error_code, topic.partitions[0].error_code, topic.partitions[0].leader_id) == (0, 5, -1)
    assert part_of(world.fetch({("t", 0): 0}, wait_ms=1000)).error_code == 6
    assert world.produce({("t", 0): batch(b"y")}).response.responses[0].partition_responses[0].error_code == 6
    world.settle()
    assert world.core.ready
    assert len(records_of(part_of(world.fetch({("t", 0): 0})).records)) == 1


def test_a_disk_that_is_always_late_changes_nothing_but_the_moment() -> None:
    world = World(disk=MemoryDisk(late=True))
    world.create(partitions=3)
    for value in (b"a", b"b"):
        assert world.put(batch(value), acks=-1).error_code == 0
    world.restart()
    world.put(batch(b"c"), acks=-1)
    world.restart(clean=False)
    answer = world.fetch({("t", 0): 0}, wait_ms=1000)
    assert not answer.done
    world.settle()
    values = [record.value for record in records_of(part_of(answer).records)]
    assert values == [b"a", b"b", b"c"]
    waiting = world.fetch({("t", 0): 3}, wait_ms=500)
    world.put(batch(b"d"))
    world.settle()
    assert [record.value for record in records_of(part_of(waiting).records)] == [b"d"]
    assert world.offsets(-3).offset == 0


def test_acknowledged_by_flush_survives_the_power_cut() -> None:
    world = World()
    world.create(flush_messages=1)
    world.put(batch(b"kept"), acks=-1)
    world.disk.crash()
    world.core = world._new_core()
    world.start()
    assert world.offsets(-1).offset == 1
    topic = world.describe("t").topics[0]
    assert (topic.error_code, topic.partitions[0].leader_epoch) == (0, 2)


def test_no_answer_leaves_before_its_sync_whenever_the_power_fails() -> None:
    """`flush.messages=1`: after every number of completions of the disk the power fails, with and without torn bytes;
    what was answered until then is there, at its offset."""
    answered_counts = set()
    for deliveries in range(8):
        for torn in (0, 5, 80):
            world = World()
            world.create(flush_messages=1)
            asked = []
            for number in range(6):
                asked.append(world.produce({("t", 0): batch(b"%d" % number)}, acks=-1 if number % 2 else 1))
                if number < deliveries:
                    world.disk.deliver()
                    world.core.tick(world.now_ms)
            for _ in range(deliveries - 6):
                world.disk.deliver()
                world.core.tick(world.now_ms)
            answered = [number for number, answer in enumerate(asked) if answer.done]
            parts = [asked[number].response.responses[0].partition_responses[0] for number in answered]
            assert [(part.error_code, part.base_offset) for part in parts] == [(0, number) for number in answered]
            answered_counts.add(len(answered))
            world.disk.crash(lambda path, synced, size, torn=torn: synced + torn)  # type: ignore[misc]
            world.core = world._new_core()
            world.start()
            end = world.offsets(-1).offset
            assert end >= len(answered)
            if end:
                values = [record.value for record in records_of(part_of(world.fetch({("t", 0): 0})).records)]
                assert values == [b"%d" % number for number in range(end)]
    assert {0, 6} < answered_counts, "the power failed before the first answer, after the last, and in between"


def test_a_defect_ends_one_request(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.create()

    def broken(*arguments: Any) -> Any:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(metadata_handler, "_describe", broken)
    with caplog.at_level(logging.ERROR):
        answer = world.describe("t")
    assert answer.topics[0].error_code == -1
    assert "a defect" in caplog.text
    monkeypatch.undo()
    assert world.describe("t").topics[0].error_code == 0


def test_start_topics_are_there_when_the_broker_is_ready() -> None:
    world = World(barnabas_topics="flights:4, weather{retention.ms=1000}")
    assert {topic.name: len(topic.partitions) for topic in world.describe().topics} == {"flights": 4, "weather": 1}
    world.restart()
    assert len(world.describe().topics) == 2
    log = next(log for key, log in world.core.logs.logs.items() if key.topic == "weather")
    assert log.config.retention_ms == 1000


def test_the_state_of_the_broker_can_be_read_under_kafkas_names() -> None:
    def value(type_name: str, name: str) -> float:
        values = world.core.registry.read(type_name, name)
        assert values is not None
        return values["value"]

    world = World(barnabas_topics="flights:4, weather:1")
    controller = "kafka.controller:KafkaController"
    names = ("ActiveControllerCount", "ActiveBrokerCount", "FencedBrokerCount", "GlobalTopicCount")
    assert [value(controller, name) for name in names] == [1, 1, 0, 2]
    assert value(controller, "GlobalPartitionCount") == 5
    assert value(controller, "OfflinePartitionsCount") == 0
    assert value("KafkaServer", "BrokerState") == 3
    partitions = world.core.image.topics["flights"].partitions
    partitions[2] = replace(partitions[2], leader=-1)
    assert value(controller, "OfflinePartitionsCount") == 1
    world.stop()
    assert value("KafkaServer", "BrokerState") == 7


def test_what_was_lost_can_be_looked_at() -> None:
    world = World()
    losses = world.core.logs.losses
    losses.report(Loss("t-0", 3, 5, 7, "f", "r"))
    assert world.core.snapshot(0)["losses"] == {
        "count": 1,
        "bytes": 7,
        "failed_reads": 0,
        "failed_writes": 0,
        "last": [Loss("t-0", 3, 5, 7, "f", "r")._asdict()],
    }
    for name, value in (("LossCount", 1), ("LostBytes", 7), ("FailedReadCount", 0), ("FailedWriteCount", 0)):
        assert world.core.registry.read("kafka.log:LogManager", name) == {"value": value}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"photo.jpg": b""}, "holds photo.jpg"),
        ({"meta.properties": b"version=1\nnode.id=1\ncluster.id=x\n"}, "belongs to Apache Kafka"),
        ({"meta.properties": b""}, "meta.properties does not say whose data directory this is"),
        ({"meta.properties": b"\xff\x00\\u12=\n"}, "meta.properties does not say whose data directory this is"),
        ({"meta.properties": b"version=1\nbarnabas.format=2\nnode.id=1\n"}, "has format 2"),
        ({"meta.properties": b"version=1\nbarnabas.format=1\nnode.id=9\n"}, "belongs to node 9"),
    ],
)
def test_a_data_directory_that_is_not_ours_is_left_alone(files: dict[str, bytes], message: str) -> None:
    disk = MemoryDisk()
    for name, content in files.items():
        disk.write_atomic(name, content)
    with pytest.raises(DataDirError, match=message):
        World(disk=disk)
    assert disk.list("") == list(files)


@pytest.mark.parametrize("left", ["barnabas-ledger", "__cluster_metadata-0"])
def test_who_lost_meta_properties_hears_which_lines_to_write(left: str) -> None:
    world = World()
    world.create("t")
    disk = world.stop()
    for name in {"meta.properties", "barnabas-ledger", "__cluster_metadata-0"} - {left}:
        disk.remove(name)
    with pytest.raises(DataDirError, match=r"restore meta\.properties: it has the lines") as caught:
        World(disk=disk)
    lines = ["version=1", "barnabas.format=1", f"node.id={world.core.config.node_id}"]
    assert all(line in str(caught.value) for line in lines)
    if left == "__cluster_metadata-0":
        disk.write_atomic("meta.properties", "\n".join(lines).encode())
        again = World(disk=disk, start=False)
        again.core.start(again.now_ms)
        again.settle()
        line = str(again.core.fault).partition("; write ")[2].partition(" back into")[0]
        disk.write_atomic("meta.properties", "\n".join([*lines, line]).encode())
        assert World(disk=disk).core.ready


def test_a_new_directory_is_made_ours_before_anything_else_is_written_and_nobody_waits_for_it() -> None:
    world = World(start=False)
    world.core.start(world.now_ms)
    while world.core.run_job_step(world.now_ms):
        pass
    assert world.disk.list("") == []
    assert world.send(api_versions(3), 3).done
    assert world.disk.deliver()
    assert world.disk.list("") == ["meta.properties"]
    world.settle()
    assert world.core.ready
    assert world.core.services.cluster_id.encode() in world.disk.load("meta.properties")


def test_a_first_start_that_was_killed_keeps_no_later_one_away() -> None:
    disk = MemoryDisk()
    disk.write_atomic("meta.properties.tmp", b"vers")
    assert World(disk=disk).core.ready


def test_a_directory_that_cannot_be_made_ours_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(start=False)
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(world.disk, "write_files", lambda files, done: done(full))
    world.core.start(world.now_ms)
    world.settle()
    assert isinstance(world.core.fault, DataDirError)
    assert "meta.properties cannot be written: No space left on device" in str(world.core.fault)
    assert world.disk.list("") == []


def test_metadata_of_a_newer_release_ends_the_start() -> None:
    world = World()
    world.create()
    disk = world.stop()
    path = "__cluster_metadata-0/00000000000000000000.log"
    data = bytearray(disk.load(path))
    # The first batch holds one record: its value begins with the array's head and the record's kind.
    data[data.index(b"metadata.version") - 2] = 0x63
    size = 12 + int.from_bytes(data[8:12], "big")
    set_crc(data, 0, size)
    disk.write_atomic(path, bytes(data))
    again = World(disk=disk, start=False)
    again.core.start(again.now_ms)
    again.settle()
    assert not again.core.ready
    assert "newer one wrote it" in str(again.core.fault)


def test_a_log_without_topic_is_set_aside() -> None:
    world = World()
    world.create()
    world.put(batch(b"x"))
    disk = world.stop()
    disk.rename("t-0", "gone-0")
    again = World(disk=disk)
    assert next(name for name in disk.list("") if name.startswith("gone-0")).endswith("-stray")
    assert again.offsets(-1).offset == 0


def test_stopping_ends_cleanly_at_any_moment() -> None:
    reference = World()
    reference.create()
    reference.put(batch(b"x"))
    disk = reference.stop()
    for steps in range(0, 40, 3):
        world = World(disk=disk, start=False)
        world.core.start(world.now_ms)
        for _ in range(steps):
            world.core.run_job_step(world.now_ms)
            world.disk.deliver()
            world.core.wake(world.now_ms)
        world.stop()
    world = World(disk=disk)
    assert world.offsets(-1).offset == 1


def test_what_is_refused_because_the_broker_stops_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """Producers are sent elsewhere, as by a Kafka that gives its leadership away; what was acknowledged is there."""
    world = World()
    world.create(flush_messages=1)
    ended: list[bool] = []
    acknowledged, codes = 0, set()
    world.send(CreateTopicsRequest([CreatableTopic("in-time", 1, 1)]), 7)
    world.core.stop(world.now_ms, lambda: ended.append(True))
    while not ended:
        for acks in (1, -1):
            answer = world.produce({("t", 0): batch(b"x")}, acks=acks)
            topics = world.send(CreateTopicsRequest([CreatableTopic("too-late", 1, 1)]), 7)
            if not world.core.run_job_step(world.now_ms):
                world.disk.deliver()
                world.core.wake(world.now_ms)
            for response in [answer.response] if answer.done else []:
                codes.add(response.responses[0].partition_responses[0].error_code)
                acknowledged += response.responses[0].partition_responses[0].error_code == 0
            codes.update(one.error_code for one in (topics.response.topics if topics.done else []))
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER in codes
    assert codes <= {0, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER}
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert not {"too-late-0", "in-time-0"} & {*world.disk.list("")}, "no log is made that nobody would close"
    again = World(disk=world.disk)
    assert again.offsets(-1).offset >= acknowledged
    assert sorted(again.core.image.topics) == ["in-time", "t"]
    assert again.put(batch(b"x"), "in-time").base_offset == 0


def test_everything_can_be_looked_at() -> None:
    world = World()
    world.create()
    world.fetch({("t", 0): 0}, wait_ms=5000, session=(0, 0))
    state = json.loads(json.dumps(world.core.snapshot(world.now_ms)))
    assert (state["broker"]["phase"], state["broker"]["topics"]) == ("ready", 1)
    assert state["partitions"][0]["log_end_offset"] == 0
    parked = next(one for one in state["purgatories"] if one["name"] == "Fetch")
    assert parked["delayed"] == 1
    assert parked["wheel"][0]["tick_ms"] == 1
    world.advance(5000)
    assert len(world.core.snapshot(world.now_ms)["fetch_sessions"]) == 1


class Hesitant:
    """A controller whose answers the test gives."""

    def __init__(self) -> None:
        self.asked: list[tuple[IsrProposal, Callable[[IsrAnswer], None]]] = []

    def alter_partition(self, proposal: IsrProposal, done: Callable[[IsrAnswer], None]) -> None:
        self.asked.append((proposal, done))


def add_brokers(world: World, *brokers: int) -> None:
    records: list[Any] = [RegisterBroker(one, 0, bytes(16), (("PLAINTEXT", f"b{one}", 9092),)) for one in brokers]
    records += [BrokerChange(one, False) for one in brokers]
    world.core.controller.write(records, lambda fault: None)
    world.settle()


@pytest.mark.parametrize("local", [True, False])
def test_a_silent_follower_leaves_the_isr_when_the_controller_says_so(local: bool) -> None:
    hesitant = Hesitant()
    world = World(controller=None if local else hesitant)
    add_brokers(world, 2, 3)
    world.create("t", 1, 3)
    topic_id = world.core.image.topics["t"].topic_id
    world.core.controller.write([PartitionChange(topic_id, 0, leader=1)], lambda fault: None)
    world.settle()
    answer = world.produce({("t", 0): batch(b"x")}, acks=-1, timeout_ms=120_000)
    world.fetch({("t", 0): 0}, replica_id=2)
    world.fetch({("t", 0): 1}, replica_id=2)
    world.advance(29_000)
    assert not answer.done
    world.fetch({("t", 0): 1}, replica_id=2)
    world.advance(20_000)
    if not local:
        proposal, done = hesitant.asked[0]
        assert set(proposal.isr) == {1, 2}
        assert not answer.done
        done(IsrAnswer(0, proposal.leader_epoch, proposal.partition_epoch + 1, proposal.isr))
        world.core.wake(world.now_ms)
        world.settle()
    else:
        assert set(world.describe("t").topics[0].partitions[0].isr_nodes) == {1, 2}
        state = world.core.image.partition("t", 0)
        assert state is not None
        assert (state.leader_epoch, state.partition_epoch) == (1, 2)
    assert answer.response.responses[0].partition_responses[0].error_code == 0


def test_many_partitions_come_and_go_in_slices() -> None:
    world = World(barnabas_topics="early:90")
    assert world.put(batch(b"x"), "early", 89).error_code == 0
    first_id = world.create("t", 100)
    assert [world.put(batch(b"x"), partition=index).error_code for index in (0, 50, 99)] == [0, 0, 0]
    world.delete("t")
    assert not [key for key in world.core.logs.logs if key.topic == "t"]
    second_id = world.create("t", 100)
    assert second_id != first_id
    assert world.offsets(-1, partition=99).offset == 0
    world.restart()
    assert world.describe("t").topics[0].partitions[99].leader_epoch == 2
    assert world.put(batch(b"x"), partition=99, acks=-1).base_offset == 0


def _create_many(world: World) -> Answer:
    return world.send(CreateTopicsRequest([CreatableTopic("many", 600, 1)]), 7)


def test_others_are_served_while_many_partitions_are_made() -> None:
    """Until they are there nobody sees one of them, and when the answer comes all are known."""
    world = World()
    world.create("t")
    asked = _create_many(world)
    known = set()
    for number in range(10_000):
        world.core.run_job_step(world.now_ms)
        world.disk.deliver()
        world.core.wake(world.now_ms)
        known.add(len(world.core.image.topics["many"].partitions) if "many" in world.core.image.topics else 0)
        if asked.done:
            break
        put = world.produce({("t", 0): batch(b"x")})
        assert put.response.responses[0].partition_responses[0].base_offset == number
    assert known == {0, 600}
    assert asked.response.topics[0].error_code == 0
    assert number > 5
    assert len(world.describe("many").topics[0].partitions) == 600
    assert world.put(batch(b"x"), "many", 599).error_code == 0


def test_a_leader_is_told_of_when_it_takes_records_and_not_before() -> None:
    """Else clients send to it, are sent away, back off, and come again."""
    world = World()
    world.create("t")
    asked = _create_many(world)
    while not asked.done:
        world.core.run_job_step(world.now_ms)
        world.disk.deliver()
        world.core.wake(world.now_ms)
    led = []
    while world.core.replicas.behind:
        answer = world.send(MetadataRequest([MetadataRequestTopic(name="many")]), 12)
        while not answer.done:
            world.core.run_job_step(world.now_ms)
        (topic,) = answer.response.topics
        assert (topic.error_code, len(topic.partitions)) == (0, 600)
        there = {one.partition_index for one in topic.partitions if one.leader_id == 1}
        assert {one.error_code for one in topic.partitions if one.leader_id == -1} <= {ErrorCode.LEADER_NOT_AVAILABLE}
        assert all(("many", index) in world.core.replicas.hosted.online for index in there)
        led.append(len(there))
        for _ in range(40):
            world.core.run_job_step(world.now_ms)
    assert led[0] < 100
    assert led == sorted(led)
    assert {one.leader_id for one in world.describe("many").topics[0].partitions} == {1}
    assert world.put(batch(b"x"), "many", 599).error_code == 0


def test_many_partitions_are_all_there_or_none_whenever_the_power_fails() -> None:
    endings = set()
    for steps in range(0, 60, 3):
        world = World()
        asked = _create_many(world)
        for _ in range(steps):
            if not world.core.run_job_step(world.now_ms):
                world.disk.deliver()
                world.core.wake(world.now_ms)
        world.disk.crash()
        answered = asked.done
        world.core = world._new_core()
        world.start()
        topic = world.core.image.topics.get("many")
        assert topic is None or len(topic.partitions) == len(world.core.logs.logs) == 600
        assert topic is not None or not answered
        endings.add((answered, topic is not None))
    assert {(False, False), (True, True)} <= endings


def test_a_stop_in_the_midst_of_making_many_partitions_is_clean() -> None:
    world = World()
    asked = _create_many(world)
    for _ in range(5):
        world.core.run_job_step(world.now_ms)
    world.restart()
    assert not asked.done
    assert "many" not in world.core.image.topics
    world.create("many", 600)


def test_partitions_of_a_topic_share_their_settings_until_these_change() -> None:
    world = World()
    world.create("t", 30, retention_ms=1234)
    world.create("other", 2)
    logs = [log for key, log in world.core.logs.logs.items() if key.topic == "t"]

    def settings() -> set[tuple[int, int]]:
        assert len({id(log.config) for log in logs}) == 1
        return {(log.config.retention_ms, log.config.segment_bytes) for log in logs}

    before = settings()
    assert [retention for retention, _ in before] == [1234]
    world.core.controller.write([Config(2, "t", "retention.ms", "99")], lambda fault: None)
    world.settle()
    assert [retention for retention, _ in settings()] == [99]
    world.core.controller.write([Config(4, "", "log.segment.bytes", "2000000")], lambda fault: None)
    world.settle()
    assert settings() == {(99, 2_000_000)}
    world.delete("t")
    world.create("t", 30)
    logs = [log for key, log in world.core.logs.logs.items() if key.topic == "t"]
    assert settings() == {(604_800_000, 2_000_000)}


def test_a_stored_setting_that_cannot_be_read_is_passed_over() -> None:
    world = World()
    world.create(retention_ms=1234)
    records = [Config(2, "t", "setting.of.the.future", "1"), Config(2, "t", "segment.ms", "soon")]
    world.core.controller.write(records, lambda fault: None)
    world.settle()
    world.restart()
    config = next(iter(world.core.logs.logs.values())).config
    assert (config.retention_ms, config.segment_ms) == (1234, 604_800_000)
    assert world.put(batch(b"x")).error_code == 0


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("version", [9, 13])
def test_a_topic_made_anew_is_not_served_from_the_logs_of_the_deleted_one(version: int, flat: bool) -> None:
    """Many partitions go a few at a time; what is acknowledged meanwhile must not go with them."""
    world = World(flat=flat)

    def done(answer: Answer) -> Any:
        while not answer.done:
            world.core.run_job_step(world.now_ms)
            if not answer.done and world.disk.deliver():
                world.core.wake(world.now_ms)
        return answer.response

    world.create(partitions=60)
    for partition in range(60):
        world.put(batch(b"old"), partition=partition)
    parked = world.fetch({("t", 59): 1}, wait_ms=60_000)
    assert done(world.send(DeleteTopicsRequest([DeleteTopicState("t")]), 6)).responses[0].error_code == 0
    assert done(world.send(CreateTopicsRequest([CreatableTopic("t", 60, 1)]), 7)).topics[0].error_code == 0
    hosted = world.core.replicas.partition(TopicPartition("t", 59))
    assert hosted is not None
    assert hosted.topic_id != world.core.image.topics["t"].topic_id, "its turn has not come yet"
    for acks in (1, -1):
        refused = world.produce({("t", 59): batch(b"new")}, acks=acks, version=version)
        assert done(refused).responses[0].partition_responses[0].error_code == 6
    assert part_of(world.fetch({("t", 59): 0}, version=version)).error_code in (6, 103)
    assert world.offsets(-1, partition=59).error_code == 6
    world.settle()
    assert part_of(parked).error_code == 6
    assert world.put(batch(b"new"), partition=59, version=version).base_offset == 0
    found = part_of(world.fetch({("t", 59): 0}, version=version))
    assert [record.value for record in records_of(found.records)] == [b"new"]


def test_the_metadata_log_rolls_again_once_a_full_disk_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_module, "MetadataLog", partial(MetadataLog, segment_bytes=1200))
    faults = Faults()
    world = World(disk=MemoryDisk(faults=faults))

    def create(name: str) -> int:
        return int(world.ask(CreateTopicsRequest([CreatableTopic(name, 1, 1)]), 7).topics[0].error_code)

    log = world.core.metadata._log
    rolls = 0
    for number in range(30):
        before = len(log.segments)
        faults.refuse(1, count=1_000_000)
        assert create(f"full-{number}") == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(log.segments) == before
        faults.refuse(1, count=0)
        assert create(f"t{number}") == 0
        rolls += len(log.segments) - before
    assert rolls > 2, "each of them found no room at first"
    world.restart(clean=False)
    assert set(world.core.image.topics) == {f"t{number}" for number in range(30)}


def test_a_start_on_a_full_disk_waits_for_room_and_goes_on_within_a_second(caplog: pytest.LogCaptureFixture) -> None:
    faults = Faults()
    world = World(disk=MemoryDisk(faults=faults))
    world.create("t", 3)
    assert world.put(batch(b"kept")).error_code == 0
    world.stop()
    faults.refuse(1, count=1_000_000)
    world.core = world._new_core()
    world.core.start(world.now_ms)
    world.advance(10_000)
    assert not world.core.ready
    assert world.core.fault is None
    said = [record.getMessage() for record in caplog.records if "until there is room" in record.getMessage()]
    assert len(said) == 1, caplog.text
    assert sum("refused a change" in record.getMessage() for record in caplog.records) == 1
    faults.refuse(1, count=0)
    world.advance(1000)
    assert world.core.ready
    assert [record.value for record in records_of(part_of(world.fetch({("t", 0): 0})).records)] == [b"kept"]


def test_a_start_on_a_disk_that_fails_ends() -> None:
    faults = Faults()
    world = World(disk=MemoryDisk(faults=faults))
    world.stop()
    faults.refuse(1, count=1_000_000, code=errno.EIO)
    world.core = world._new_core()
    world.core.start(world.now_ms)
    world.settle()
    assert isinstance(world.core.fault, KafkaError)

"""The metadata on its way to other brokers: a real controller and its log, the feed, observers, codec in between."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from barnabas.broker.cluster.config_rules import Alteration
from barnabas.broker.cluster.controller import LocalController
from barnabas.broker.cluster.feed import MetadataFeed
from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.metadata_log import TOPIC_ID, MetadataLog
from barnabas.broker.cluster.observer import BACKOFF_MS, BYTES_MAX, MetadataRefused, Observer
from barnabas.broker.cluster.records import BrokerChange, Cluster, Config, PartitionChange, RegisterBroker
from barnabas.broker.cluster.snapshot_intake import PIECE_BYTES
from barnabas.broker.cluster.topic_rules import NewTopic
from barnabas.broker.cluster.turns import SMALL_MAX
from barnabas.broker.config import BrokerConfig
from barnabas.broker.delayed import Timer
from barnabas.broker.jobs import at_once
from barnabas.broker.memory_disk import MemoryDisk
from barnabas.broker.node.jobs import JobQueue
from barnabas.explain.stage import CountingEntropy
from barnabas.protocol.api import SPOKEN, key_of
from barnabas.protocol.batch import batches
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.fetch_snapshot import FetchSnapshotRequest, PartitionSnapshot, SnapshotId, TopicSnapshot
from tests.durability.plants import Change

OBSERVERS = (2, 3)


class Clock:
    def now_ms(self) -> int:
        return 1_700_000_000_000


class World:
    """One controller, which is started anew at will, and what its observers ask of it."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.disk = MemoryDisk()
        self.truth: dict[int, list[Any]] = {0: []}
        self.lives = 0
        self.start()
        self.write(Cluster("the-cluster"), *[RegisterBroker(one, 0, bytes(16), (), None, False) for one in (1, 2, 3)])
        self.settle()

    def start(self):
        self.lives += 1
        self.image = Image()
        self.jobs = JobQueue(lambda: None)
        self.later: list[Any] = []
        self.timer = Timer(self.now_ms)
        self.log = MetadataLog(self.disk, Clock(), 1 << 30, holds_snapshot=True)
        ended: list[Any] = []
        self.jobs.add("load", self.log.load(self.image), ended.append)
        while not ended:
            if not self.jobs.step():
                self.disk.deliver()
        assert ended == [None], ended
        self.feed = MetadataFeed(
            1,
            "the-cluster",
            TOPIC_ID,
            self.log.log,
            self.log.epoch,
            lambda: self.log.held,
            self.timer,
            self.later.append,
        )
        self.controller = LocalController(
            BrokerConfig(),
            self.log,
            self.image,
            CountingEntropy(),
            self.published,
            lambda callback: self.later.append(lambda _: callback()),
            lambda job, done: self.jobs.add("metadata", job, done),
        )
        self.controller.reload()
        self.note()

    def published(self, delta):
        self.note()
        self.feed.committed()

    def note(self):
        """What the image is at this offset."""
        self.truth[self.log.log.high_watermark] = list(self.image.to_records())

    def write(self, *records):
        self.controller.write(records, lambda fault: None)

    def create(self, name, partitions=1, factor=2):
        self.controller.create_topics([NewTopic(name, partitions, factor)], False, lambda results: None)

    def snapshot(self):
        self.jobs.add("snapshot", self.log.snapshot(self.image))

    def restart(self, *, power):
        if power:
            self.disk.crash()
        else:
            self.disk.kill()
        self.start()

    def step(self):
        """The end of a step."""
        self.timer.advance(self.now_ms)
        self.timer.run_due(self.now_ms)
        while self.later or self.jobs.step():
            if self.later:
                self.later.pop(0)(self.now_ms)

    def settle(self):
        self.step()
        while self.disk.deliver():
            self.step()

    def ask(self, observer, answered):
        """An observer's request, as bytes; `answered` is given what comes back."""
        request = observer.request(self.now_ms)
        if request is None:
            return False
        key = key_of(type(request))
        version = SPOKEN[key][1]
        frame = b"".join(codec.encode_request(key, version, 1, "o", request))[4:]
        _, asked = codec.decode_request(memoryview(frame))
        life = self.lives

        def respond(response):
            back = b"".join(codec.encode_response(key, version, 1, response))[4:]
            answered(codec.decode_response(key, version, back)[1] if life == self.lives else None)

        if isinstance(asked, FetchSnapshotRequest):
            respond(self.feed.fetch_snapshot(asked))
        else:
            self.feed.fetch(asked, respond, self.now_ms)
        return True


def follow(world, observer):
    """Ask, and take in what comes, until nothing does; where the answer that is waited for will come."""
    for _ in range(100):
        answers: list[Any] = []
        asked = world.ask(observer, answers.append)
        world.settle()
        if not asked or not answers:
            return answers
        at_once(observer.answered(answers[0], world.now_ms))
    raise AssertionError("it never comes to rest")


def disconnect(world, observer):
    """What it waits for will not come; until it may ask again."""
    at_once(observer.answered(None, world.now_ms))
    world.now_ms += BACKOFF_MS


def new_observer(node_id=2):
    return Observer(node_id, "the-cluster", TOPIC_ID, Image())


@pytest.fixture
def world():
    return World()


def test_an_image_follows_from_the_first_record_on(world):
    observer = new_observer()
    follow(world, observer)
    assert list(observer.image.to_records()) == list(world.image.to_records())
    assert observer.end_offset == world.log.log.high_watermark == 4
    assert observer.caught_up


def test_who_has_all_waits_and_is_told_at_once_when_something_is_committed(world):
    observer = new_observer()
    answers = follow(world, observer)
    assert len(world.feed) == 1
    world.create("t", 3)
    world.step()
    assert not answers, "appended is not committed"
    world.settle()
    delta = at_once(observer.answered(answers.pop(), world.now_ms))
    assert sorted(key.partition for key in delta.partitions) == [0, 1, 2]
    assert list(observer.image.to_records()) == list(world.image.to_records())


def test_who_waits_for_nothing_is_answered_when_its_time_is_up(world):
    observer = new_observer()
    answers = follow(world, observer)
    world.now_ms += 499
    world.step()
    assert not answers
    world.now_ms += 1
    world.step()
    assert at_once(observer.answered(answers.pop(), world.now_ms)) is None
    assert len(world.feed) == 0


def test_a_controller_of_another_cluster_is_not_followed(world):
    observer = Observer(2, "another-cluster", TOPIC_ID, Image())
    with pytest.raises(MetadataRefused, match="another cluster's than another-cluster"):
        follow(world, observer)
    assert observer.request(10_000) is None, "it is over"
    assert observer.next_deadline_ms() is None


def test_a_controller_that_has_lost_what_it_announced_is_not_followed(world):
    observer = new_observer()
    world.create("t")
    world.settle()
    follow(world, observer)
    lost = World()
    disconnect(lost, observer)
    with pytest.raises(MetadataRefused, match="offset 6, epoch 0, which the controller does not have"):
        follow(lost, observer)
    assert "t" in observer.image.topics, "what it has, it keeps"


def test_a_controller_whose_log_parts_from_ours_is_not_followed(world):
    observer = new_observer()
    follow(world, observer)
    other = World()
    other.restart(power=False)
    other.create("t")
    other.settle()
    observer.epoch, observer.end_offset = 0, 5
    disconnect(other, observer)
    with pytest.raises(MetadataRefused, match="does not have"):
        follow(other, observer)


# Snapshots


def with_snapshot(world, topics=8):
    """So many topics in a snapshot, and the log is cut behind it."""
    for number in range(topics):
        world.create(f"t{number}", 250)
        world.settle()
    world.snapshot()
    world.settle()
    assert world.log.log.log_start_offset == world.log.log.high_watermark


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr("barnabas.broker.cluster.snapshot_intake.PIECE_BYTES", 4000)


def pieces(world, observer):
    """Ask until the last piece is there; the answers, the last not taken in yet."""
    found: list[Any] = []
    while True:
        answers: list[Any] = []
        world.ask(observer, answers.append)
        if getattr(observer, "_intake", None) is not None and answers:
            found.append(answers[0])
            part = answers[0].topics[0].partitions[0]
            if part.position + len(part.unaligned_records) == part.size:
                return found
        assert at_once(observer.answered(answers[0], world.now_ms)) is None, "nothing of it is to be seen yet"


def test_who_is_further_back_than_the_log_is_given_the_snapshot_in_pieces(world):
    with_snapshot(world)
    assert len(world.log.held.data) > 1.2 * PIECE_BYTES
    world.create("later", 3)
    world.settle()
    observer = new_observer()
    found = pieces(world, observer)
    sizes = [len(one.topics[0].partitions[0].unaligned_records) for one in found]
    assert max(sizes) == PIECE_BYTES
    assert sum(sizes) == len(world.log.held.data)
    assert (observer.end_offset, observer.image.topics) == (0, {})
    delta = at_once(observer.answered(found[-1], world.now_ms))
    assert len(delta.partitions) == 8 * 250
    assert observer.end_offset == world.log.log.log_start_offset
    follow(world, observer)
    assert observer.caught_up
    assert list(observer.image.to_records()) == list(world.image.to_records())


def test_who_has_been_away_is_told_what_is_different_and_no_more(world):
    for name in ("stays", "changes", "goes", "anew"):
        world.create(name, 2)
    world.settle()
    observer = new_observer()
    follow(world, observer)
    disconnect(world, observer)
    topics = {name: topic.topic_id for name, topic in world.image.topics.items()}
    world.controller.delete_topics([topics["goes"], topics["anew"]], lambda results: None)
    world.write(PartitionChange(topics["changes"], 1, isr=(2,)), Config(2, "stays", "retention.ms", "7"))
    world.write(Config(4, "", "log.retention.ms", "8"), BrokerChange(3, fenced=True))
    world.create("anew", 1)
    world.settle()
    world.snapshot()
    world.settle()
    image = observer.image
    (last,) = pieces(world, observer)
    delta = at_once(observer.answered(last, world.now_ms))
    assert observer.image is image, "all rooms look at this one"
    assert sorted(map(str, delta.partitions)) == ["anew-0", "changes-1"]
    gone = {str(key): topic_id for key, topic_id in delta.removed.items()}
    assert gone == {f"{name}-{number}": topics[name] for name in ("goes", "anew") for number in (0, 1)}
    assert (list(delta.topic_configs), delta.broker_configs, delta.brokers) == (["stays"], True, True)
    assert list(image.to_records()) == list(world.image.to_records())
    assert image.settings_bytes == world.image.settings_bytes


_INTAKE = "barnabas.broker.cluster.snapshot_intake:Intake."


@pytest.mark.parametrize(
    ("place", "old", "new"),
    [
        ("install", "image.become(side)", "image.apply(side.to_records())"),
        ("install", "if topic_id not in side.topics_by_id:", "if topic.name not in side.topics:"),
        ("install", "name in side.topics:", "name in image.topics_by_id:"),
        ("_compare", "if self._image.partition(*key) != state:", "if self._image.partition(*key) is None:"),
    ],
)
def test_a_defect_in_taking_one_in_is_found(world, place, old, new):
    undo = Change(_INTAKE + place, old, new).make()
    try:
        with pytest.raises(AssertionError):
            test_who_has_been_away_is_told_what_is_different_and_no_more(world)
    finally:
        undo()


@pytest.mark.parametrize("damage", ["bit", "value", "length", "cut", "short", "elsewhere", "empty", "error"])
def test_a_snapshot_that_came_damaged_changes_nothing_and_is_asked_for_again(world, damage, small_pieces, caplog):
    with_snapshot(world, 2)
    observer = new_observer()
    last = pieces(world, observer)[-1]
    (part,) = last.topics[0].partitions
    data = bytearray(part.unaligned_records)
    if damage == "bit":
        data[-1] ^= 1
    elif damage == "value":
        data[-2] ^= 1  # it can be read all the same
    elif damage == "length":
        data[-200:] = bytes(200)
    elif damage == "cut":
        data = data[:-1]
        part.size -= 1
    elif damage == "short":
        part.size += 100
    elif damage == "elsewhere":
        part.position += 1
    elif damage == "empty":
        data = bytearray()
    elif damage == "error":
        part.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
    part.unaligned_records = bytes(data)
    assert at_once(observer.answered(last, world.now_ms)) is None
    assert (observer.end_offset, observer.image.topics, observer.image.brokers) == (0, {}, {})
    if damage == "short":  # what is missing does not come, and that is told
        answers: list[Any] = []
        world.ask(observer, answers.append)
        at_once(observer.answered(answers[0], world.now_ms))
    told = [one for one in caplog.records if one.name.startswith("barnabas.broker.cluster")]
    (line,) = [one.getMessage() for one in told if one.levelno >= logging.WARNING]
    assert line.startswith(f"metadata: the snapshot at {world.log.log.log_start_offset} cannot be taken in: ")
    world.now_ms += BACKOFF_MS
    follow(world, observer)
    assert observer.caught_up
    assert list(observer.image.to_records()) == list(world.image.to_records())


def test_a_snapshot_that_a_newer_one_replaced_is_begun_anew(world, small_pieces):
    with_snapshot(world, 2)
    observer = new_observer()
    assert at_once(observer.answered(asked(world, observer), world.now_ms)) is None
    assert at_once(observer.answered(asked(world, observer), world.now_ms)) is None
    world.create("later")
    world.settle()
    world.snapshot()
    world.settle()
    assert at_once(observer.answered(asked(world, observer), world.now_ms)) is None
    assert observer.next_deadline_ms() == world.now_ms + BACKOFF_MS
    world.now_ms += BACKOFF_MS
    follow(world, observer)
    assert list(observer.image.to_records()) == list(world.image.to_records())


def asked(world, observer):
    answers: list[Any] = []
    assert world.ask(observer, answers.append)
    return answers[0]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"name": "t"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"topics": []}, ErrorCode.INVALID_REQUEST),
        ({"partitions": [PartitionSnapshot(), PartitionSnapshot()]}, ErrorCode.INVALID_REQUEST),
        ({"current_leader_epoch": 7}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"snapshot_id": SnapshotId(3, 0)}, ErrorCode.SNAPSHOT_NOT_FOUND),
        ({"position": -1}, ErrorCode.POSITION_OUT_OF_RANGE),
        ({"position": 1 << 40}, ErrorCode.POSITION_OUT_OF_RANGE),
        ({}, ErrorCode.NONE),
    ],
)
def test_a_piece_that_cannot_be_given_is_refused(world, change, code):
    world.snapshot()
    world.settle()
    part = PartitionSnapshot(0, -1, SnapshotId(world.log.held.end, world.log.held.epoch))
    topic = TopicSnapshot("__cluster_metadata", [part])
    request = FetchSnapshotRequest("the-cluster", 2, 100, [topic])
    for name, value in change.items():
        owner = next(one for one in (request, topic, part) if hasattr(one, name))
        setattr(owner, name, value)
    answer = world.feed.fetch_snapshot(request)
    told = [one for topic in answer.topics for one in topic.partitions]
    assert code == (answer.error_code or told[0].error_code)
    assert (not told or len(told[0].unaligned_records)) == (100 if code == 0 else bool(answer.error_code))


def test_much_metadata_is_taken_in_a_few_batches_at_a_time(world):
    for number in range(30):
        world.create(f"t{number}", 250)
        world.settle()
    observer, sizes = new_observer(), []
    while not observer.caught_up:
        answers: list[Any] = []
        world.ask(observer, answers.append)
        world.settle()
        sizes.append(len(answers[0].responses[0].partitions[0].records))
        at_once(observer.answered(answers[0], world.now_ms))
    assert max(sizes) <= BYTES_MAX < sum(sizes)
    assert len(sizes) > 4
    assert list(observer.image.to_records()) == list(world.image.to_records())


def steps_of(world, observer):
    """The steps in which the next answer is taken in; the image is as before until the last one."""
    answers: list[Any] = []
    assert world.ask(observer, answers.append)
    world.settle()
    before, end = list(observer.image.to_records()), observer.end_offset
    steps = observer.answered(answers[0], world.now_ms)
    number = 0
    while True:
        try:
            assert next(steps) is None
        except StopIteration as over:
            return number + 1, over.value
        number += 1
        assert (list(observer.image.to_records()), observer.end_offset) == (before, end)
        assert observer.request(world.now_ms + BACKOFF_MS) is None, "one answer after the other"


def test_a_change_of_thousands_of_partitions_is_taken_in_in_steps_and_in_force_as_a_whole(world):
    """A topic of ten thousand was a step of 80 ms at each broker that heard of it."""
    observer = new_observer()
    world.create("few", 3)
    world.settle()
    follow(world, observer)
    disconnect(world, observer)
    world.create("many", 3000)
    world.settle()
    steps, delta = steps_of(world, observer)
    assert steps >= 2 * 3000 // SMALL_MAX
    assert len(delta.partitions) == 3000
    assert list(observer.image.to_records()) == world.truth[observer.end_offset]
    world.controller.create_partitions([("few", 2003, None)], False, lambda results: None)
    world.settle()
    steps, delta = steps_of(world, observer)
    assert steps >= 2 * 2000 // SMALL_MAX
    assert len(delta.partitions) == 2000
    assert list(observer.image.to_records()) == world.truth[observer.end_offset]


def test_nothing_is_in_force_untold_while_a_large_change_is_taken_in(world):
    """Of what came before it in one answer the image had all, and nobody had acted on it."""
    observer = new_observer()
    world.create("t")
    world.settle()
    follow(world, observer)
    disconnect(world, observer)
    before = list(observer.image.to_records())
    world.controller.delete_topics([world.image.topics["t"].topic_id], lambda results: None)
    for name, partitions in (("t", 1), ("many", SMALL_MAX + 1), ("last", 1)):
        world.create(name, partitions)
        world.settle()
    told = []
    while observer.end_offset < world.log.log.high_watermark:
        steps = observer.answered(asked(world, observer), world.now_ms)
        try:
            while True:
                next(steps)
                assert list(observer.image.to_records()) == before
        except StopIteration as end:
            told.append(sorted({key.topic for key in end.value.partitions}))
        before = list(observer.image.to_records())
        assert before == world.truth[observer.end_offset]
    assert told == [["t"], ["last", "many"]]


def test_who_asks_for_less_than_a_batch_is_given_one(world):
    request = new_observer().request(0)
    request.topics[0].partitions[0].partition_max_bytes = -1
    for name in ("t1", "t2"):
        world.create(name)
        world.settle()
    answers: list[Any] = []
    world.feed.fetch(request, answers.append, 0)
    data = bytes(answers[0].responses[0].partitions[0].records)
    assert [size for _, size in batches(data)] == [len(data)]


@pytest.mark.parametrize("damage", ["cut", "sum", "gap", "none", "error", "nothing"])
def test_an_answer_that_is_of_no_use_changes_nothing_and_is_asked_for_again(world, damage, caplog):
    observer = new_observer()
    answers: list[Any] = []
    world.ask(observer, answers.append)
    (answer,) = answers
    (part,) = answer.responses[0].partitions
    data = bytearray(part.records)
    if damage == "sum":
        data[-1] ^= 1
    elif damage == "gap":
        data[7] = 9
    elif damage == "cut":
        data = data[:30]
    elif damage == "error":
        part.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    elif damage == "nothing":
        answer.responses = []
    part.records = bytes(data)
    at_once(observer.answered(None if damage == "none" else answer, world.now_ms))
    assert (observer.end_offset, observer.image.brokers) == (0, {})
    world.now_ms += BACKOFF_MS
    follow(world, observer)
    assert observer.caught_up
    said = [one for one in caplog.records if one.name.startswith("barnabas.broker.cluster")]
    assert len(said) == (damage != "cut")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"partition": 1}, ErrorCode.INVALID_REQUEST),
        ({"topic_id": bytes(16)}, ErrorCode.INVALID_REQUEST),
        ({"current_leader_epoch": 7}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"fetch_offset": -1}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"fetch_offset": 99}, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_what_cannot_be_served_is_refused(world, change, code):
    request = new_observer().request(0)
    for name, value in change.items():
        setattr(request.topics[0] if name == "topic_id" else request.topics[0].partitions[0], name, value)
    answers: list[Any] = []
    world.feed.fetch(request, answers.append, 0)
    (answer,) = answers
    assert code in (answer.error_code, *[part.error_code for one in answer.responses for part in one.partitions])


def test_only_so_many_wait(world, monkeypatch):
    monkeypatch.setattr("barnabas.broker.cluster.feed.WAITING_MAX", 1)
    for node_id in (2, 3):
        observer = new_observer(node_id)
        follow(world, observer)
    assert len(world.feed) == 1
    assert observer.caught_up, "who may not wait is answered"
    assert observer.next_deadline_ms() == BACKOFF_MS, "and asks no sooner for that"


class Following(RuleBasedStateMachine):
    """Whatever is changed, lost, started anew: an image is what the controller's was at that offset."""

    @initialize()
    def begin(self):
        self.world = World()
        self.observers = {one: new_observer(one) for one in OBSERVERS}
        self.answers: dict[int, list[Any]] = {one: [] for one in OBSERVERS}
        self.made = 0

    @rule(partitions=st.integers(1, 3))
    def create(self, partitions):
        self.made += 1
        self.world.create(f"t{self.made}", partitions)
        self.world.step()

    @rule(number=st.integers(0, 99))
    def delete(self, number):
        topics = list(self.world.image.topics_by_id)
        if topics:
            self.world.controller.delete_topics([topics[number % len(topics)]], lambda results: None)
            self.world.step()

    @rule(number=st.integers(0, 99), value=st.sampled_from(["1", "2", None]))
    def configure(self, number, value):
        topics = list(self.world.image.topics)
        if topics:
            changes = [(2, topics[number % len(topics)], [Alteration("min.insync.replicas", 0 if value else 1, value)])]
            told: list[Any] = []
            self.world.controller.alter_configs(changes, False, told.append)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # its deletion is under way
            assert all(fault is None or fault.code == unknown for faults in told for fault in faults)
            self.world.step()

    @rule()
    def snapshot(self):
        self.world.snapshot()
        self.world.step()

    @rule()
    def disk(self):
        self.world.disk.deliver()
        self.world.step()

    @rule(one=st.sampled_from(OBSERVERS))
    def ask(self, one):
        self.world.ask(self.observers[one], self.answers[one].append)

    @rule(one=st.sampled_from(OBSERVERS), lost=st.integers(0, 3))
    def answer(self, one, lost):
        if self.answers[one]:
            response = self.answers[one].pop(0)
            at_once(self.observers[one].answered(response if lost else None, self.world.now_ms))

    @rule(ms=st.sampled_from([1, 100, 500]))
    def wait(self, ms):
        self.world.now_ms += ms
        self.world.step()

    @rule(one=st.sampled_from(OBSERVERS))
    def restart_observer(self, one):
        self.observers[one] = new_observer(one)
        self.answers[one] = []

    @precondition(lambda self: self.world.lives < 4)
    @rule(power=st.booleans())
    def restart_controller(self, power):
        self.world.restart(power=power)
        for one, observer in self.observers.items():
            if observer.next_deadline_ms() is None:  # its connection is gone
                self.answers[one] = []
                at_once(observer.answered(None, self.world.now_ms))

    @invariant()
    def images_are_equal_at_equal_offsets(self):
        if not hasattr(self, "world"):
            return
        for observer in self.observers.values():
            assert observer.fault is None
            assert list(observer.image.to_records()) == self.world.truth[observer.end_offset]

    def teardown(self):
        if not hasattr(self, "world"):
            return
        self.world.settle()
        for one, observer in self.observers.items():
            for response in self.answers[one]:
                at_once(observer.answered(response, self.world.now_ms))
        self.world.now_ms += 1000
        self.world.step()
        for one, observer in self.observers.items():
            if observer.next_deadline_ms() is None:
                at_once(observer.answered(self.answers[one][-1], self.world.now_ms))
            for _ in range(2):  # a snapshot that it was given may be none any more
                self.world.now_ms += 1000
                follow(self.world, observer)
            assert list(observer.image.to_records()) == list(self.world.image.to_records())


TestFollowing = Following.TestCase
TestFollowing.settings = settings(
    max_examples=60, stateful_step_count=40, suppress_health_check=list(HealthCheck), derandomize=True
)

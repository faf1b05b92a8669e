"""What a broker goes through, drawn from a seed: a generator of deeds, and the model beside it.

Every deed draws from the seed alone what it will do, and takes from the model what it does it to; so a seed gives the
same story on the in-memory disk at every run, and on a real process up to the moments at which kills hit.
"""

from __future__ import annotations

import random
from typing import Any

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import ZERO_UUID
from barnabas.protocol.records import BatchBuilder
from barnabas.protocol.requests.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from barnabas.protocol.requests.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.requests.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.requests.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.requests.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.requests.init_producer_id import InitProducerIdRequest
from barnabas.protocol.requests.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.durability import reading
from tests.durability.model import Batch, Broken, PartitionModel, Producer, TopicModel
from tests.durability.target import Gone, Target

NAMES = ("a", "b-1", "c", "long." + "n" * 244)
"""The last is as long as a name may be: what the broker derives from it must fit a directory's name."""
KEYS = 6
HOUR_MS = 3_600_000
RECORDS_MAX = 1500
"""A topic that holds more is deleted next: everything is read back at every start."""
TRIES_MAX = 10_000
NOT_WRITTEN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER})
SEQUENCE_ERRORS = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})


class Workload:
    """Deeds on one target, and what must be there after them.

    Attributes:
        story: what was done, a line each; the last of it says what came before a broken promise.
    """

    def __init__(self, seed: str, target: Target) -> None:
        self.random = random.Random(seed)
        self.target = target
        self.topics: dict[str, TopicModel] = {}
        self.half_made: dict[str, dict[str, str]] = {}
        self.half_deleted: set[str] = set()
        self.story: list[str] = []
        self.heard: list[str] = []
        """What the broker said in starts that were killed: a fault is told of by the start that meets it first."""
        self._serial = 0
        self.full = False
        """The disk is full: what cannot be written is refused."""
        self._producer_ids: set[int] = set()
        self.fuse: int | None = None
        """After how much patience with a request the broker is killed."""

    def tell(self, line: str) -> None:
        """Add a line to the story."""
        self.story.append(line)

    def ask(self, request: Any, version: int) -> Any:
        """Send a request and wait for its answer, or as long as the fuse burns.

        Raises:
            Gone: there was none.
        """
        number = self.target.send(request, version)
        answer = self.target.collect(self.fuse)
        if answer is None:
            raise Gone("killed in a request")
        assert answer[0] == number, f"request {number} was asked, {answer[0]} is answered"
        return answer[1]

    # Topics

    def draw_settings(self) -> dict[str, str]:
        """Settings of a new topic."""
        draw = self.random
        settings = {"segment.ms": draw.choice(["1000", "1000", "604800000"])}
        settings["cleanup.policy"] = draw.choice(["delete", "delete", "compact", "compact,delete"])
        settings["retention.ms"] = draw.choice(["-1", "-1", str(HOUR_MS)])
        settings["retention.bytes"] = draw.choice(["-1", "-1", "3000"])
        settings["flush.messages"] = draw.choice(["1", "9223372036854775807", "9223372036854775807"])
        settings["file.delete.delay.ms"] = draw.choice(["0", "60", "60000"])
        settings["min.cleanable.dirty.ratio"] = "0.01"
        settings["delete.retention.ms"] = draw.choice(["0", "86400000"])
        return settings

    def create(self, name: str, partitions: int, settings: dict[str, str]) -> None:
        """Make a topic, and note it."""
        self.tell(f"create {name[:8]} with {partitions} partitions, {settings}")
        configs = [CreatableTopicConfig(key, value) for key, value in settings.items()]
        self.half_made[name] = settings
        answer = self.ask(CreateTopicsRequest([CreatableTopic(name, partitions, 1, configs=configs)]), 7)
        result = answer.topics[0]
        if result.error_code:
            raise Broken(f"making {name} answers {result.error_code}: {result.error_message}")
        del self.half_made[name]
        self._note_topic(name, result.topic_id, partitions, settings)
        for _ in range(TRIES_MAX if self.fuse is None else 0):  # many partitions come a few at a time
            if reading.offset_of(self.target, name, partitions - 1, reading.LATEST)[0] not in NOT_WRITTEN:
                return

    def _note_topic(self, name: str, topic_id: bytes, partitions: int, settings: dict[str, str]) -> None:
        if any(topic.topic_id == topic_id for topic in self.topics.values()):
            raise Broken(f"topic id {topic_id.hex()} is given to {name} and was given before")
        topic = TopicModel(name, topic_id, flush_each=settings.get("flush.messages") == "1")
        topic.allow(settings)
        topic.grow(partitions)
        self.topics[name] = topic

    def delete(self, name: str) -> None:
        """Delete a topic; its name is free then."""
        self.tell(f"delete {name[:8]}")
        self.half_deleted.add(name)
        answer = self.ask(DeleteTopicsRequest([DeleteTopicState(name)]), 6)
        if answer.responses[0].error_code:
            raise Broken(f"deleting {name} answers {answer.responses[0].error_code}")
        self.half_deleted.discard(name)
        del self.topics[name]

    def grow(self, topic: TopicModel) -> None:
        """Add a partition or two."""
        count = len(topic.partitions) + self.random.randint(1, 2)
        self.tell(f"grow {topic.name[:8]} to {count}")
        answer = self.ask(CreatePartitionsRequest([CreatePartitionsTopic(topic.name, count, None)], 30_000), 3)
        if answer.results[0].error_code:
            raise Broken(f"growing {topic.name} answers {answer.results[0].error_code}")
        topic.grow(count)

    def alter(self, topic: TopicModel) -> None:
        """Change a setting or two."""
        drawn = self.draw_settings()
        names = self.random.sample(["segment.ms", "cleanup.policy", "retention.ms", "retention.bytes"], 2)
        settings = {name: drawn[name] for name in names}
        self.tell(f"alter {topic.name[:8]} {settings}")
        topic.allow(settings)
        configs = [AlterableConfig(name, 0, value) for name, value in settings.items()]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(2, topic.name, configs)])
        answer = self.ask(request, 1)
        if answer.responses[0].error_code:
            raise Broken(f"altering {topic.name} answers {answer.responses[0].error_code}")

    def delete_records(self, part: PartitionModel, offset: int | None = None) -> None:
        """Delete what is below an offset, or a share of what is there."""
        if offset is None:
            offset = self.random.choice([part.end, int(part.end * self.random.random())])
        self.tell(f"delete records of {part.where[:12]} below {offset}")
        part.start_asked = max(part.start_asked, offset)
        asked = DeleteRecordsTopic(part.topic.name, [DeleteRecordsPartition(part.number, offset)])
        answer = self.ask(DeleteRecordsRequest([asked], 30_000), 2).topics[0].partitions[0]
        if answer.error_code == ErrorCode.POLICY_VIOLATION:
            return
        if answer.error_code or answer.low_watermark < offset:
            raise Broken(f"{part.where}: DeleteRecords to {offset} answers {answer.error_code}, {answer.low_watermark}")
        part.start_done = max(part.start_done, offset)

    # Records

    def _producer_of(self, part: PartitionModel) -> Producer | None:
        if part.producer is None:
            answer = self.ask(InitProducerIdRequest(None, 0), 4)
            if answer.error_code and self.full:
                return None
            if answer.error_code:
                raise Broken(f"InitProducerId answers {answer.error_code}")
            if answer.producer_id in self._producer_ids:
                raise Broken(f"producer id {answer.producer_id} is handed out a second time")
            self._producer_ids.add(answer.producer_id)
            part.producer = Producer(answer.producer_id)
        return part.producer

    def make_batch(self, part: PartitionModel, idempotent: bool) -> Batch:
        """A batch that nobody sent before."""
        draw = self.random
        self._serial += 1
        serial = self._serial
        count = draw.choice([1, 1, 2, 5])
        codec = draw.choice([0, 0, 0, 1, 4])
        padding = b"." * draw.choice([0, 50, 400])
        age_ms = draw.choice([8 * HOUR_MS, 8 * HOUR_MS, HOUR_MS // 6])
        keys = tuple(b"%d" % draw.randrange(KEYS) for _ in range(count))
        values = tuple(None if draw.random() < 0.1 else b"%d%s" % (serial, padding) for _ in range(count))
        producer = self._producer_of(part) if idempotent else None
        batch = Batch(serial, keys, values, self.target.wall_ms() - age_ms + serial * 7)
        builder = BatchBuilder(1 << 20, codec)
        for index, (key, value) in enumerate(zip(keys, values, strict=True)):
            builder.try_append(batch.timestamp_ms, key, value, [("tag", part.tag(batch, index))])
        if producer is not None:
            batch.sequence = producer.next_sequence
            producer.next_sequence += count
            batch.data = bytes(builder.build(producer.producer_id, 0, batch.sequence))
        else:
            batch.data = bytes(builder.build())
        return batch

    def _send_batch(self, part: PartitionModel, batch: Batch, acks: int) -> int:
        data = PartitionProduceData(part.number, batch.data)
        request = ProduceRequest(None, acks, 30_000, [TopicProduceData(part.topic.name, ZERO_UUID, [data])])
        return self.target.send(request, 9)

    def burst(self, kill_after: int | None = None) -> None:
        """Produce many batches without waiting; with `kill_after` the broker dies after so many answers.

        Raises:
            Gone: it died.
        """
        draw = self.random
        parts = self.parts()
        if not parts:
            return
        plan: list[tuple[PartitionModel, Batch]] = []
        planned: set[int] = set()
        for _ in range(draw.choice([1, 3, 10, 25])):
            part = draw.choice(parts)
            idempotent = draw.random() < 0.6
            batch = next((one for one in part.unsure if one.sequence >= 0 and one.serial not in planned), None)
            if batch is None or not idempotent:  # an idempotent producer sends first what was not answered
                batch = self.make_batch(part, idempotent)
                part.sent(batch)
            planned.add(batch.serial)
            plan.append((part, batch))
            if batch.sequence >= 0 and draw.random() < 0.1:
                plan.append((part, batch))  # a client that is impatient
        if kill_after is not None:
            self.tell(f"a burst of {len(plan)}, killed after {kill_after}")
        asked = {}
        for part, batch in plan:
            batch.sends += 1
            asked[self._send_batch(part, batch, draw.choice([1, -1]))] = (part, batch)
        for count in range(len(plan)):
            if kill_after is not None and count >= kill_after:
                self.target.collect(draw.randrange(4))
                raise Gone("killed in a burst")
            answer = self.target.collect()
            assert answer is not None
            self._answered(*asked.pop(answer[0]), answer[1])

    def write_everywhere(self, *, idempotent: bool = False) -> None:
        """One batch to each partition: all of them take it."""
        for part in self.parts():
            if part.damaged_from is not None:
                continue
            again = [one for one in part.unsure if idempotent and one.sequence >= 0]
            batch = again[0] if again else self.make_batch(part, idempotent)
            if not again:
                part.sent(batch)
            batch.sends += 1
            self._send_batch(part, batch, -1)
            answer = self.target.collect()
            assert answer is not None
            self._answered(part, batch, answer[1])

    def _answered(self, part: PartitionModel, batch: Batch, response: object) -> None:
        result = response.responses[0].partition_responses[0]  # type: ignore[attr-defined]
        if result.error_code == 0:
            part.acknowledged(batch, result.base_offset)
            return
        if result.error_code == ErrorCode.KAFKA_STORAGE_ERROR and (self.full or part.damaged_from is not None):
            return  # a producer tries again
        if result.error_code in SEQUENCE_ERRORS and self.full:
            return  # the batch before it was refused
        if result.error_code in SEQUENCE_ERRORS and batch.sends > 1:
            part.producer = (
                None  # it was written and taken again unseen, by retention or compaction, with others behind
            )
            part.unsure = [one for one in part.unsure if one.sequence < 0]
            return
        raise Broken(f"{part.where}: producing batch {batch.serial} answers {result.error_code} {result.error_message}")

    def retry_last(self) -> None:
        """Every producer sends once more what was acknowledged last: it is answered with its offset, not written."""
        for topic in self.topics.values():
            for part in topic.partitions:
                batch = part.producer.last if part.producer else None
                if batch is None or part.damaged_from is not None:
                    continue
                self._send_batch(part, batch, -1)
                answer = self.target.collect()
                assert answer is not None
                result = answer[1].responses[0].partition_responses[0]
                if (result.error_code, result.base_offset) != (0, batch.offset):
                    raise Broken(
                        f"{part.where}: batch {batch.serial} of producer {part.producer and part.producer.producer_id} "
                        f"was acknowledged at {batch.offset}; its retry answers {result.error_code}, offset "
                        f"{result.base_offset}"
                    )
                part.acknowledged(batch, result.base_offset)

    # Comparing

    def check(self, *, clean: bool = False) -> None:
        """Read everything back.

        Raises:
            Broken: it is not what must be there.
        """
        found = reading.topics(self.target)
        for name in list(self.half_deleted):
            self.half_deleted.discard(name)
            if name in self.topics and name not in found:
                del self.topics[name]
        for name, settings in list(self.half_made.items()):
            del self.half_made[name]
            if name in found and name not in self.topics:
                self._note_topic(name, found[name].topic_id, len(found[name].partitions), settings)
        for name, topic in self.topics.items():
            there = found.pop(name, None)
            if there is None or there.topic_id != topic.topic_id:
                raise Broken(f"topic {name} ({topic.topic_id.hex()}) is not there any more: {there}")
            if len(there.partitions) < len(topic.partitions):
                raise Broken(f"topic {name} had {len(topic.partitions)} partitions and has {len(there.partitions)}")
            topic.grow(len(there.partitions))
            for part in topic.partitions:
                self._check_partition(part, clean)
        if found:
            raise Broken(f"topics that nobody made, or that were deleted: {sorted(found)}")
        self.heard = []

    def _check_partition(self, part: PartitionModel, clean: bool) -> None:
        forgiven = part.forgiven_from
        read = reading.read_all(self.target, part.topic.name, part.number)
        lost = part.compare(read, self.target.wall_ms(), clean=clean)
        said = [*self.heard, *self.target.said]
        if lost and part.damaged_from is not None and not any(_warns_of(part, line) for line in said):
            raise Broken(
                f"{part.where}: a fault took {lost} records from {forgiven} on, and the log says nothing of it"
            )
        if lost:
            self.tell(f"a fault took {lost} records of {part.where[:12]} from {forgiven} on")

    def parts(self) -> list[PartitionModel]:
        """Every partition."""
        return [part for topic in self.topics.values() for part in topic.partitions]

    def pick(self) -> PartitionModel | None:
        """Some partition."""
        parts = self.parts()
        return self.random.choice(parts) if parts else None


def _warns_of(part: PartitionModel, line: str) -> bool:
    return part.where in line and ("warning" in line or "error" in line)

"""A request of one batch has a shorter way through the broker: in everything that can be seen it is the longer one.

Two worlds that are alike are asked the same, one as the wire's shorter way decodes it, the other as anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from barnabas.broker.cluster.records import BrokerChange, RegisterBroker
from barnabas.broker.log.types import Isolation
from barnabas.protocol.api import ApiKey
from barnabas.protocol.batch import set_crc
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from barnabas.protocol.requests.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.requests.produce import ProduceResponse
from tests.broker.node.world import Answer, World, batch

OTHER = 7
NEVER = 2**63 - 1
TOPICS: dict[str, tuple[dict[str, str], list[int] | None]] = {
    "t": ({}, None),
    "stamped": ({"message.timestamp.type": "LogAppendTime"}, None),
    "compacted": ({"cleanup.policy": "compact"}, None),
    "small": ({"max.message.bytes": "300"}, None),
    "synced": ({"flush.messages": "2"}, None),
    "rolling": ({"segment.bytes": "1048576", "segment.ms": "5", "min.insync.replicas": "2"}, None),
    "zipped": ({"compression.type": "gzip"}, None),
    "replicated": ({}, [-1, OTHER]),
    "elsewhere": ({}, [OTHER, -1]),
    "__consumer_offsets": ({}, None),
    "__share_group_state": ({}, None),
    "forbidden": ({}, None),
}
"""Settings, and replicas where they are given (-1: this broker)."""


def changed(data: bytearray, at: int, bits: int) -> bytearray:
    data[at] ^= bits
    set_crc(data, 0, len(data))
    return data


def torn(data: bytearray) -> bytearray:
    data[-1] ^= 1
    return data


BATCHES: dict[str, Callable[[World, int], Any]] = {
    "plain": lambda world, n: batch(b"%d" % n, at_ms=world.wall_ms),
    "of three": lambda world, n: batch(b"a", b"b", b"c", keys=[b"k", None, b"l"], at_ms=world.wall_ms),
    "keyed": lambda world, n: batch(b"a", keys=[b"k"], at_ms=world.wall_ms),
    "idempotent": lambda world, n: batch(b"i", pid=5, epoch=0, sequence=n % 4, at_ms=world.wall_ms),
    "gzip": lambda world, n: batch(b"z" * 100, codec=1, at_ms=world.wall_ms),
    "zstd": lambda world, n: batch(b"z" * 100, codec=4, at_ms=world.wall_ms),
    "large": lambda world, n: batch(b"x" * 400, at_ms=world.wall_ms),
    "late": lambda world, n: batch(b"x", b"y", timestamps=[world.wall_ms, world.wall_ms + 10_000_000]),
    "transactional": lambda world, n: changed(batch(b"x", pid=1, epoch=0, sequence=0), 22, 0x10),
    "control": lambda world, n: changed(batch(b"x"), 22, 0x20),
    "old magic": lambda world, n: changed(batch(b"x"), 16, 3),
    "damaged": lambda world, n: changed(batch(b"x", at_ms=world.wall_ms), 65, 0x7F),
    "torn": lambda world, n: torn(batch(b"payload")),
    "two": lambda world, n: batch(b"x") + batch(b"y"),
    "empty": lambda world, n: bytearray(),
    "short": lambda world, n: bytearray(b"\0" * 22),
    "head": lambda world, n: batch(b"x")[:40],
}
FORMS: dict[str, Callable[[bytearray], Any]] = {
    "view": memoryview,
    "read-only view": lambda data: memoryview(bytes(data)),
    "bytes": bytes,
    "list": lambda data: [memoryview(data)[:30], bytes(data[30:])],
    "long list": lambda data: [data[at : at + 1] for at in range(len(data))],
    "buffer": lambda data: data,
}

produces = st.tuples(
    st.just("produce"),
    st.sampled_from([*TOPICS, "t", "t", "nobody's"]),
    st.sampled_from([0, 0, 0, 5]),
    st.sampled_from([*BATCHES, "plain", "plain", "plain", "idempotent"]),
    st.sampled_from([*FORMS, "view", "view"]),
    st.sampled_from([1, -1, 1, -1, 0, 2]),
    st.sampled_from([0, 400, 30_000]),
    st.integers(3, 13),
    st.sampled_from(["test", "__admin_client"]),
)
steps = st.lists(
    st.one_of(
        produces,
        produces,
        produces,
        st.tuples(st.just("fetch"), st.sampled_from(list(TOPICS)), st.integers(0, 3), st.sampled_from([-1, OTHER])),
        st.tuples(st.just("advance"), st.sampled_from([1, 100, 700])),
        st.tuples(st.just("delete"), st.sampled_from(["t", "replicated"]), st.integers(0, 2)),
        st.tuples(st.just("sync"), st.sampled_from(["t", "synced", "replicated"]), st.sampled_from([1, NEVER])),
        st.tuples(st.just("offline"), st.sampled_from(["t", "small"])),
        st.tuples(st.just("full"), st.sampled_from([0, 1 << 40])),
    ),
    max_size=14,
)


class Side:
    """One of the two worlds, and all that was answered in it."""

    def __init__(self, flat: bool, validate: str) -> None:
        self.world = World(flat=flat, barnabas_validate_records=validate)
        core = self.world.core
        here = core.config.node_id
        other = RegisterBroker(OTHER, 0, bytes(16), (("PLAINTEXT", "other", 9092),))
        core.controller.write([other, BrokerChange(OTHER, False)], lambda fault: None)
        self.world.settle()
        for name, (given_settings, replicas) in TOPICS.items():
            replicas = [here] if replicas is None else [here if one < 0 else one for one in replicas]
            assigned = [CreatableReplicaAssignment(0, replicas)]
            configs = [CreatableTopicConfig(key, value) for key, value in given_settings.items()]
            topic = CreatableTopic(name, -1, -1, assigned, configs)
            assert self.world.ask(CreateTopicsRequest([topic]), 7).topics[0].error_code == 0
        self.world.restart()  # another leader epoch
        self.world.core.services.authorise = lambda principal, operation, resource: resource.name != "forbidden"
        self.answers: list[tuple[int, Answer]] = []

    def do(self, number: int, step: tuple[Any, ...]) -> None:
        kind, *what = step
        world = self.world
        if kind == "produce":
            topic, partition, made, form, acks, timeout_ms, version, client = what
            records = FORMS[form](BATCHES[made](world, number))
            from_whom = world.administrator() if client == "__admin_client" else None
            answer = world.produce(
                {(topic, partition): records},
                acks=acks,
                timeout_ms=timeout_ms,
                version=version,
                client_id=client,
                connection=from_whom,
            )
            self.answers.append((version, answer))
        elif kind == "fetch":
            topic, offset, replica = what
            self.answers.append((-1, world.fetch({(topic, 0): offset}, wait_ms=500, replica_id=replica)))
        elif kind == "advance":
            world.advance(what[0])
        elif kind == "delete":
            asked = DeleteRecordsRequest([DeleteRecordsTopic(what[0], [DeleteRecordsPartition(0, what[1])])], 300)
            self.answers.append((-1, world.send(asked, 2)))
        elif kind == "sync":
            log = world.core.logs.logs[TopicPartition(what[0], 0)]
            log.configure(replace(log.config, flush_messages=what[1]))
        elif kind == "offline":
            key = TopicPartition(what[0], 0)
            hosted = world.core.replicas.hosted
            state = world.core.image.partition(*key)
            if hosted.online.pop(key, None) is not None and state is not None:
                hosted.offline[key] = state
        else:
            world.disk.capacity = world.disk.used + what[0]

    def seen(self) -> dict[str, Any]:
        """All that can be seen of this world from outside and from within."""
        core = self.world.core
        shared = core.replicas.shared
        return {
            "answers": [(answer.count, answer.response, answer.at_ms, answer.closed) for _, answer in self.answers],
            "frames": [self._frame(version, answer) for version, answer in self.answers if version >= 0],
            "watched": [
                {key: len(operations) for key, operations in purgatory.lists().items()}
                for purgatory in shared.purgatories
            ],
            "finished": [(len(one.finished), one.estimated_total) for one in shared.purgatories],
            "snapshot": core.snapshot(self.world.now_ms),
            "deadline": core.next_deadline_ms(),
            "metrics": list(core.registry.collect(self.world.now_ms)),
            "logs": {
                str(key): (
                    [bytes(log.read(log.log_start_offset, 1 << 20, Isolation.LOG_END).records), log.bases]
                    if log.log_end_offset > log.log_start_offset
                    else None,
                    log.epochs.entries,
                    log.producers.snapshot(),
                )
                for key, log in core.logs.logs.items()
            },
        }

    @staticmethod
    def _frame(version: int, answer: Answer) -> bytes | None:
        """The answer as bytes, which laid flat and written out say the same."""
        told = answer.response
        if told is None:
            return None
        frame = b"".join(codec.encode_response(ApiKey.PRODUCE, version, 9, told))
        nested = ProduceResponse(list(told.responses), told.throttle_time_ms, list(told.node_endpoints))
        assert b"".join(codec.encode_response(ApiKey.PRODUCE, version, 9, nested)) == frame
        return frame


@pytest.mark.parametrize("validate", ["header", "full"])
def test_every_request_alone(validate: str) -> None:
    """Each kind of batch to each topic, with somebody who waits for it and without."""
    flat, nested = Side(True, validate), Side(False, validate)
    number = 0
    for topic in [*TOPICS, "nobody's"]:
        for made in BATCHES:
            for version, acks in ((6, 1), (13, -1)):
                number += 1
                for side in (flat, nested):
                    if number % 3 == 0 and topic in TOPICS:
                        side.do(number, ("fetch", topic, 10_000 if number % 2 else 0, -1))
                    if number % 10 == 0:
                        side.do(number, ("delete", "t", number // 10))
                    side.do(number, ("produce", topic, 0, made, "view", acks, 100, version, "test"))
                assert flat.answers[-1][1].response == nested.answers[-1][1].response, (topic, made, version)
        for side in (flat, nested):
            side.do(0, ("advance", 100))
    assert flat.seen() == nested.seen()


PLAIN = ("produce", "synced", 0, "plain", "view", 1, 100, 9, "test")
UNSYNCED: list[tuple[Any, ...]] = [PLAIN, PLAIN, ("sync", "synced", NEVER), PLAIN, (*PLAIN[:5], -1, *PLAIN[6:])]
"""Nobody asks for a sync any more, but one is under way."""
ANSWERED_AT_ONCE: list[tuple[Any, ...]] = [("delete", "replicated", 0), ("fetch", "replicated", 0, OTHER)]
"""The follower's fetch is what the deletion waits for, and comes before that job has another turn."""


@given(steps, st.sampled_from(["header", "full"]))
@example(UNSYNCED, "header")
@example(ANSWERED_AT_ONCE, "header")
@settings(max_examples=60)
def test_what_comes_in_any_order(taken: list[tuple[Any, ...]], validate: str) -> None:
    flat, nested = Side(True, validate), Side(False, validate)
    for number, step in enumerate(taken):
        flat.do(number, step)
        nested.do(number, step)
        assert flat.seen() == nested.seen()
    for side in (flat, nested):
        side.do(0, ("full", 1 << 40))
        side.do(0, ("advance", 40_000))
    assert flat.seen() == nested.seen()

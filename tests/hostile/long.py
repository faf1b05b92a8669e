"""The longest step of the loop where one log has thousands of segments, as `segment.ms=1` makes them.

Whatever goes through all of them at once grows with them. So a broker with such a log is watched while it is asked for
its largest timestamp, while it rolls further, and from its deletion on until its last file is gone.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from tempfile import TemporaryDirectory
from typing import Any, Final

from barnabas.protocol.api import ApiKey
from barnabas.protocol.batch import BatchHeader
from barnabas.protocol.kafka import codec
from barnabas.protocol.records import Record, encode_batch
from barnabas.protocol.requests.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.protocol.requests.delete_topics import DeleteTopicsRequest, DeleteTopicState
from barnabas.protocol.requests.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.requests.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.hostile.many import ask
from tests.hostile.meter import UNIT_MS, Meter, exchange, metered, unit_ns
from tests.hostile.steps import frame

SEGMENTS: Final = 19_000
_PIPELINED: Final = 200
_LARGEST: Final = -3
_NOW_MS: Final = 1_700_000_000_000
_CONFIG: Final = {"log.segment.delete.delay.ms": 0, "log.message.timestamp.before.max.ms": 2**63 - 1}
_TOPIC: Final = {"segment.ms": "1", "retention.ms": "-1"}


def longest(*, goes: int, segments: int = SEGMENTS) -> Iterator[tuple[str, float]]:
    """What was done, and the longest step (ms, as the machine of docs/SPEED.md would take): the least of some goes."""
    for where in ("on a device", "in memory"):
        rounds = [list(_scene(segments, kept=where == "on a device")) for _ in range(goes)]
        for measured in zip(*rounds, strict=True):
            yield f"{measured[0][0]} {where}", min(found for _, found in measured)


def _scene(segments: int, *, kept: bool) -> Iterator[tuple[str, float]]:
    with TemporaryDirectory() as folder, metered(config=_CONFIG, data_dir=folder if kept else None) as (port, meter):
        configs = [CreatableTopicConfig(name, value) for name, value in _TOPIC.items()]
        made = CreateTopicsRequest([CreatableTopic("long", 1, 1, configs=configs)], timeout_ms=60_000)
        ask(port, ApiKey.CREATE_TOPICS, 7, made)
        what = f"a log of {segments} segments"
        with socket.create_connection(("127.0.0.1", port), 60) as sock:
            for start in range(0, segments, _PIPELINED):
                _produce(sock, start, min(_PIPELINED, segments - start))
            yield f"{what} rolls", _watched(meter, lambda: _produce(sock, segments, 1))
            asked = ListOffsetsRequest(-1, 0, [ListOffsetsTopic("long", [ListOffsetsPartition(0, -1, _LARGEST)])])
            data = frame(codec, ApiKey.LIST_OFFSETS, 7, asked)
            yield f"the largest timestamp of {what}", _watched(meter, lambda: exchange(sock, data))
        gone = DeleteTopicsRequest([DeleteTopicState("long")], timeout_ms=60_000)

        def delete() -> None:
            ask(port, ApiKey.DELETE_TOPICS, 6, gone)
            while kept and any(name.startswith("long-") for name in os.listdir(folder)):
                time.sleep(0.1)
            time.sleep(1)

        yield f"{what} deleted", _watched(meter, delete)


def _produce(sock: socket.socket, start: int, count: int) -> None:
    data = b""
    for number in range(start, start + count):
        at_ms = _NOW_MS + 10 * number
        header = BatchHeader(0, 0, -1, 2, 0, 0, 0, at_ms, at_ms, -1, -1, -1, 1)
        records = encode_batch(header, [Record(0, at_ms, None, b"x")])
        topic = TopicProduceData("long", partition_data=[PartitionProduceData(0, records)])
        data += frame(codec, ApiKey.PRODUCE, 9, ProduceRequest(None, 1, 30_000, [topic]))
    told = exchange(sock, data, answers=count)
    assert told is not None
    answers: list[Any] = [codec.decode_response(ApiKey.PRODUCE, 9, one)[1] for one in told]
    assert {one.responses[0].partition_responses[0].error_code for one in answers} == {0}


def _watched(meter: Meter, work: Callable[[], Any]) -> float:
    before_ns = unit_ns()
    meter.forget()
    work()
    time.sleep(0.2)  # an answer leaves before its step is over
    return meter.worst.spent_ns * UNIT_MS / max(before_ns, unit_ns())

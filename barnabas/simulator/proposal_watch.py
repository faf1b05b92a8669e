"""What is looked at of proposals on the wire: changes of an ISR that a leader asked for and that were made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition
from barnabas.protocol.kafka import codec
from barnabas.simulator.group_watch import OffsetFrames
from barnabas.simulator.history import Event, Proposed, Proposing
from barnabas.simulator.world import World

_STALE = frozenset({ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH})


class ProposalFrames:
    """Reads AlterPartition off the wire; what the controller asks of itself is on none."""

    def __init__(self, world: World, tell: Callable[[Event], None]) -> None:
        self._world = world
        self._tell = tell
        self._asked: dict[tuple[str, int], tuple[int, Any]] = {}

    def read(self, name: str, frame: bytes) -> None:
        """The controller has read a request."""
        header, request = codec.decode_request(memoryview(frame))
        self._asked[name, header.correlation_id] = header.api_version, request
        for topic in request.topics:
            for part in topic.partitions:
                members = tuple((f"broker{one.broker_id}", one.broker_epoch) for one in part.new_isr_with_epochs)
                self._tell(Proposing(_name_of(name, header.correlation_id, topic, part), members))

    def written(self, name: str, correlation_id: int, frame: bytes, offsets: OffsetFrames) -> None:
        """It has written an answer, perhaps to one of them; `offsets` knows the topics by their ids."""
        asked = self._asked.pop((name, correlation_id), None)
        if asked is None:
            return
        version, request = asked
        names = offsets.names(name)
        _, response = codec.decode_response(ApiKey.ALTER_PARTITION, version, memoryview(frame))
        based_on = {
            (topic.topic_id, part.partition_index): part.partition_epoch
            for topic in request.topics
            for part in topic.partitions
        }
        for topic in response.topics:
            for part in topic.partitions:
                key = TopicPartition(names.get(topic.topic_id, topic.topic_id.hex()), part.partition_index)
                if part.error_code == 0:
                    epoch = based_on[topic.topic_id, part.partition_index]
                    called = _name_of(name, correlation_id, topic, part)
                    self._tell(Proposed(key, epoch, part.partition_epoch, called))
                elif part.error_code in _STALE:
                    self._world.count("proposals that came too late")


def _name_of(connection: str, correlation_id: int, topic: Any, part: Any) -> str:
    return f"{connection}/{correlation_id} {topic.topic_id.hex()}-{part.partition_index}"

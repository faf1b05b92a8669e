"""What is looked at of votes on the wire: who asked for one, and who has said that it is his."""

from __future__ import annotations

from typing import Any

from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka import codec
from barnabas.simulator.decision_watch import names
from barnabas.simulator.history import Tell, Voted
from barnabas.simulator.world import World


class VoteFrames:
    """Reads Vote off the wire. Who asks for votes has given himself his own."""

    def __init__(self, world: World, tell: Tell) -> None:
        self._world = world
        self._tell = tell
        self._asked: dict[tuple[str, int], tuple[int, Any]] = {}

    def read(self, name: str, frame: bytes) -> None:
        """A controller has read a request."""
        header, request = codec.decode_request(memoryview(frame))
        for topic in request.topics:
            for part in topic.partitions:
                self._asked[name, header.correlation_id] = header.api_version, part
                if not part.pre_vote:
                    (candidate,) = names([part.replica_id])
                    self._tell(Voted(candidate, part.replica_epoch, candidate))

    def written(self, name: str, correlation_id: int, frame: bytes) -> None:
        """It has written an answer, perhaps to one of them."""
        version, asked = self._asked.pop((name, correlation_id), (0, None))
        if asked is None:
            return
        _, response = codec.decode_response(ApiKey.VOTE, version, memoryview(frame))
        for topic in response.topics:
            for part in topic.partitions:
                if asked.pre_vote:
                    self._world.count("pre-votes refused", not (part.vote_granted or part.error_code))
                elif part.vote_granted:
                    (candidate,) = names([asked.replica_id])
                    self._tell(Voted(name.partition(".")[0], asked.replica_epoch, candidate))

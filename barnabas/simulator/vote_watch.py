"""What is looked at of votes on the wire: who asked for one, and who has said that it is his."""

from __future__ import annotations

from typing import Any

from barnabas.broker.raft import kept
from barnabas.broker.raft.kept import Kept
from barnabas.protocol.api import ApiKey
from barnabas.protocol.kafka import codec
from barnabas.simulator.decision_watch import names
from barnabas.simulator.history import Tell, Voted
from barnabas.simulator.replica_watch import Peers
from barnabas.simulator.world import World


class VoteFrames:
    """Reads Vote off the wire. Who asks for votes has given himself his own."""

    def __init__(self, world: World, tell: Tell, peers: Peers) -> None:
        self._world = world
        self._tell = tell
        self._peers = peers
        self._asked: dict[tuple[str, int], tuple[int, Any]] = {}

    def read(self, name: str, frame: bytes) -> None:
        """A controller has read a request."""
        header, request = codec.decode_request(memoryview(frame))
        for topic in request.topics:
            for part in topic.partitions:
                self._asked[name, header.correlation_id] = header.api_version, part
                if not part.pre_vote:
                    self._voted(part.replica_id, part)

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
                    self._voted(int(name.partition(".")[0].removeprefix("broker")), asked)

    def _voted(self, voter: int, asked: Any) -> None:
        device = self._peers(voter).device
        known = kept.parse(bytes(device.bytes_of(kept.FILE)))[0] if device.exists(kept.FILE) else Kept()
        given = (asked.replica_epoch, asked.replica_id)
        is_kept = known[:2] == given or known.epoch > asked.replica_epoch
        name, candidate = names([voter, asked.replica_id])
        self._tell(Voted(name, asked.replica_epoch, candidate, is_kept))

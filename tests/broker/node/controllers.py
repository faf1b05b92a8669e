"""A cluster of several controllers, each a broker too, and what must hold of them at any time."""

from __future__ import annotations

from typing import Any

from barnabas.broker.cluster.image import Image
from barnabas.broker.log import Isolation
from barnabas.broker.node.voter import Voter
from barnabas.protocol.batch import batches
from tests.broker.node.cluster import Cluster

VOTERS = tuple(f"{one}@node-{one}:9093" for one in (1, 2, 3))


class Controllers(Cluster):
    """Brokers 1 to 3 are its controllers; whoever else is there has no vote."""

    def __init__(self, *node_ids: int, **settings: Any) -> None:
        self.leaders: dict[int, int] = {}
        """Who led each epoch."""
        super().__init__(*node_ids, **{"controller_quorum_voters": VOTERS, "min_insync_replicas": 2, **settings})

    def settle(self) -> None:
        super().settle()
        for node_id, node in self.nodes.items():
            voter = node.core.voter
            if voter is not None and voter.raft is not None and voter.raft.leading is not None:
                before = self.leaders.setdefault(voter.raft.epoch, node_id)
                assert before == node_id, f"{before} and {node_id} lead epoch {voter.raft.epoch}"

    @property
    def active(self) -> int:
        """The active controller that can be asked; 0 for nobody."""
        found = [
            (voter.reign.epoch, one)
            for one, node in self.nodes.items()
            if (voter := node.core.voter) is not None and voter.reign is not None and one not in self.paused
        ]
        return max(found)[1] if found else 0

    def voter(self, node_id: int) -> Voter:
        """A controller's part in the quorum."""
        voter = self.nodes[node_id].core.voter
        assert voter is not None
        return voter

    def others(self) -> list[int]:
        """All brokers but the active controller's."""
        return [one for one in self.nodes if one != self.active]

    def fail_over(self) -> int:
        """Let time pass until another one is the active controller; how long that took (ms)."""
        before = self.active
        return self.until(lambda: self.active not in (0, before))

    def check(self) -> None:
        """What is committed is the same on all controllers, and images at one offset are equal."""
        logs = {one: node.core.voter for one, node in self.nodes.items() if node.core.voter is not None}
        known = {one: log for one, voter in logs.items() if voter.raft is not None and (log := committed(voter.log))}
        for one, log in known.items():
            for other, other_log in known.items():
                for offset in log.keys() & other_log.keys():
                    assert log[offset] == other_log[offset], f"{one} and {other} differ at offset {offset}"
        images: dict[int, tuple[int, object]] = {}
        for one, node in self.nodes.items():
            if node.core.member is not None:
                end = node.core.member.observer.end_offset
                before = images.setdefault(end, (one, said(node.core.image)))
                assert before[1] == said(node.core.image), f"{before[0]} and {one} have other images at {end}"


def committed(log: Any) -> dict[int, bytes]:
    """Each batch below the high watermark that is in a log, by its first offset, with its epoch."""
    found = {}
    offset = log.log.log_start_offset
    while offset < log.committed:
        data = bytes(log.log.read(offset, 1 << 20, Isolation.HIGH_WATERMARK).records)
        for position, size in batches(data):
            found[offset] = data[position : position + size]
            offset += int.from_bytes(data[position + 23 : position + 27], "big") + 1
    return found


def said(image: Image) -> list[Any]:
    """All that an image says."""
    return sorted((type(one).__name__, str(one)) for one in image.to_records())

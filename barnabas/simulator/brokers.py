"""All brokers of a run: one that stands alone, or several under one controller or a quorum, a machine each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from barnabas.broker.cluster.image import Image, PartitionState
from barnabas.broker.config.topics import OFFSETS_TOPIC
from barnabas.broker.replica.partition import Partition
from barnabas.protocol.ids import TopicPartition
from barnabas.simulator.broker import PEERS_PORT, PORT, BrokerProcess
from barnabas.simulator.history import Event
from barnabas.simulator.machine import Machine
from barnabas.simulator.metadata_watch import MetadataWatch
from barnabas.simulator.network import Network
from barnabas.simulator.plan import CONTROLLER, LOOSE, LOOSE_HOMES, Plan, host_of
from barnabas.simulator.watching import BrokerWatch
from barnabas.simulator.world import World

CLUSTER_ID: Final = "a-world-of-brokers-abc"


class Brokers:
    """Brokers by node id, from 1 on.

    Attributes:
        server: what clients are given as bootstrap servers.
    """

    def __init__(self, world: World, network: Network, plan: Plan, tell: Callable[[Event], None]) -> None:
        self._partitions = plan.partitions_told
        settings, alone = dict(plan.broker), plan.brokers == 1
        if not alone:
            voters = [f"{one}@{host_of(one)}:{PEERS_PORT}" for one in range(CONTROLLER, plan.controllers + 1)]
            settings["controller.quorum.voters"] = ",".join(voters)
            settings["barnabas.cluster.id"] = CLUSTER_ID
        self._by_id: dict[int, BrokerProcess] = {}
        self._metadata = MetadataWatch(world, tell, self.__getitem__)
        self._is_quorum = plan.controllers > 1
        for number in range(1, plan.brokers + 1):
            machine = Machine(world, network, f"broker{number}", host_of(number))
            look = BrokerWatch(tell, self._metadata, self.__getitem__ if plan.synced else None).look
            self._by_id[number] = BrokerProcess(machine, number, settings, look, alone=alone)
        self.all = list(self._by_id.values())
        self._active = CONTROLLER
        self.server = ",".join(f"{one.machine.host}:{PORT}" for one in self.all)

    def __getitem__(self, node_id: int) -> BrokerProcess:
        return self._by_id[node_id]

    @property
    def hosts(self) -> list[str]:
        """Their addresses."""
        return [one.machine.host for one in self.all]

    @property
    def _image(self) -> Image | None:
        """What a quorum of controllers has committed, or what the only one has; None while that is away."""
        if self._is_quorum:
            return self._metadata.image
        core = self._by_id[CONTROLLER].core
        return None if core is None else core.image

    @property
    def active(self) -> int:
        """The active controller; the last one that was, while there is none."""
        voters = [
            (one.node_id, one.core.voter) for one in self.all if one.core is not None and one.core.voter is not None
        ]
        reigns = [(voter.reign.epoch, node_id) for node_id, voter in voters if voter.reign is not None]
        if reigns:
            self._active = max(reigns)[1]
        return self._active

    def state(self, key: TopicPartition) -> PartitionState | None:
        """A partition as controllers have it; None while there is none, or the only controller is away."""
        image = self._image
        return None if image is None else image.partition(key.topic, key.partition)

    def hosted(self, node_id: int, key: TopicPartition) -> Partition | None:
        """A replica as its broker has it; None while that is away."""
        core = self._by_id[node_id].core
        return None if core is None or not core.ready else core.replicas.hosted.online.get(key)

    def know(self, topic: str) -> list[TopicPartition]:
        """From now on a topic that is there is to be well, too; its partitions."""
        image = self._image
        found = None if image is None else image.topics.get(topic)
        keys = [] if found is None else list(found.keys.values())
        self._partitions = [*self._partitions, *keys]
        return keys

    @property
    def in_sync(self) -> bool:
        """Whether all serve, and all replicas are in sync, as the controller has it."""
        return all(one.serves for one in self.all) and all(self._is_full(key) for key in self._all_partitions())

    def _all_partitions(self) -> list[TopicPartition]:
        """Those of the topic, and of `__consumer_offsets` where there is one."""
        image = self._image
        offsets = None if image is None else image.topics.get(OFFSETS_TOPIC)
        return [*self._partitions, *(offsets.keys.values() if offsets is not None else ())]

    def _is_full(self, key: TopicPartition) -> bool:
        state = self.state(key)
        if state is None or state.leader <= 0:
            return False
        homes = sorted(LOOSE_HOMES if key.topic == LOOSE else self._by_id)
        return sorted(state.isr) == homes == sorted(state.replicas)

    @property
    def well(self) -> bool:
        """Whether all are in sync, know who leads, and every replica has all records, which are committed."""
        return self.in_sync and all(self._agrees(key) for key in self._partitions)

    def _agrees(self, key: TopicPartition) -> bool:
        state = self.state(key)
        assert state is not None
        replicas = [self.hosted(one, key) for one in state.replicas]
        return (
            len({(one.leader_id, one.leader_epoch) for one in replicas if one is not None}) == 1
            and len({one.log.log_end_offset for one in replicas if one is not None}) == 1
            and all(
                one is not None and one.leader_id == state.leader and one.log.high_watermark == one.log.log_end_offset
                for one in replicas
            )
        )

    def told(self) -> str:
        """How they stand, for whoever reads why they are not well."""
        lines = [f"{one.name} {'serves' if one.serves else 'runs' if one.runs else 'is down'}" for one in self.all]
        for key in self._all_partitions():
            replicas = [self.hosted(one.node_id, key) for one in self.all]
            lines.append(f"{key}: {self.state(key)}, {[_stands(one) for one in replicas]}")
        return "; ".join(lines)

    def ends(self) -> dict[TopicPartition, int]:
        """Where each partition ends; all are well."""
        found = {}
        for key in self._partitions:
            state = self.state(key)
            assert state is not None
            partition = self.hosted(state.leader, key)
            assert partition is not None
            found[key] = partition.log.high_watermark
        return found


def _stands(partition: Partition | None) -> str:
    if partition is None:
        return "away"
    log = partition.log
    return f"behind {partition.leader_id} in {partition.leader_epoch}: {log.high_watermark} of {log.log_end_offset}"

"""The controller for as long as this node leads the quorum: it decides over a copy of the metadata, which ends with it.

    begins    when a record of its own epoch is committed, and its broker's image has all that is: what was decided by
              those before it, and no more
    decides   over `pending`, as the only controller of a cluster does; a change counts once a majority has it
    ends      with the leadership: whoever waits hears NOT_CONTROLLER; what no majority has is the next one's to cut

Brokers' sessions are this reign's memory alone, so each gets its whole time again; who is not there any more, as the
broker of the controller that died, is found by knocking at every door once (`evidence`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from barnabas.broker.cluster.controller import LocalController
from barnabas.broker.cluster.features import first_levels
from barnabas.broker.cluster.feed import MetadataFeed
from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.members import Members
from barnabas.broker.cluster.quorum_log import QuorumLog
from barnabas.broker.cluster.record_bytes import batch_of
from barnabas.broker.cluster.record_log import Commit
from barnabas.broker.cluster.records import Cluster, MetadataRecord
from barnabas.broker.cluster.registrations import Registrations
from barnabas.broker.cluster.succession import one_minimum
from barnabas.broker.jobs import Job, at_once
from barnabas.broker.raft.raft import Raft
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.ids import NO_LEADER

if TYPE_CHECKING:
    from barnabas.broker.node.core import Core

logger = logging.getLogger(__name__)


class ReignLog:
    """Where its records go (`record_log.RecordLog`): into the quorum's log, in one epoch."""

    def __init__(self, log: QuorumLog, raft: Raft, core: Core, appended: Callable[[], None]) -> None:
        self._log = log
        self._appended = appended
        self._raft = raft
        self._core = core
        self._epoch = raft.epoch
        self._waiting: deque[tuple[int, Commit]] = deque()
        self._over = False

    def append(self, records: Sequence[MetadataRecord], committed: Commit) -> None:
        """Append one operation; `committed` hears when a majority has it, or that this node leads no longer."""
        at_once(self.append_in_steps(records, committed))

    def append_in_steps(self, records: Sequence[MetadataRecord], committed: Commit) -> Job[None]:
        """As `append`, in bounded steps."""
        data = yield from batch_of(records, self._core.clock.now_ms())
        if self._over or self._raft.leading is None or self._raft.epoch != self._epoch:
            raise _deposed()
        end = self._log.append_batch(data, self._epoch)
        self._waiting.append((end, committed))
        self._raft.appended()
        self._appended()

    def keep_producer_ids(self, end: int, kept: Commit) -> None:
        """A majority has it: there is no second place."""
        self._core.defer(lambda: kept(None))

    def committed(self) -> None:
        """More is committed."""
        end = self._log.committed
        while self._waiting and self._waiting[0][0] <= end:
            self._waiting.popleft()[1](None)

    def end(self) -> None:
        """Whoever waits hears that it is over."""
        self._over = True
        while self._waiting:
            self._waiting.popleft()[1](_deposed())


def _deposed() -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller any more")


class Reign:
    """One term of the active controller; `appended` is called when there is something new for the other voters."""

    def __init__(
        self,
        core: Core,
        raft: Raft,
        log: QuorumLog,
        feed: MetadataFeed,
        cluster_id: str,
        appended: Callable[[], None],
    ) -> None:
        config, peers = core.config, core.peers
        assert peers is not None
        self.image = core.image.copy()
        self._core = core
        self.epoch = raft.epoch
        self.log = ReignLog(log, raft, core, appended)
        self.controller = LocalController(
            config,
            self.log,
            self.image,
            core.entropy,
            lambda delta: None,
            core.defer,
            core.run_alone,
            lambda: core.features,
        )
        stats = "kafka.controller:ControllerStats"
        self.members = Members(
            Registrations(NO_LEADER, cluster_id, config.broker_session_timeout_ms),
            self.controller,
            lambda: log.end.end,
            feed,
            config,
            core.registry.meter(stats, "UncleanLeaderElectionsPerSec"),
            peers.knock,
            core.replicas.actions.add,
            core.registry.meter(stats, "ElectionFromEligibleLeaderReplicasPerSec"),
        )
        self.services = replace(
            core.services,
            image=self.image,
            controller=self.controller,
            members=self.members,
            forward=None,
            metadata_end=lambda: (log.committed, self.epoch),
        )

    def begin(self, cluster_id: str, now_ms: int) -> None:
        """Hear the brokers from now on."""
        missing = _missing(self.image, cluster_id, self._core)
        if missing:
            self.controller.write(missing, _say_refused)
        self.members.begin(self.image, now_ms)
        self.members.doubt_all(self.image, self._core.config.node_id)

    def end(self) -> None:
        """Decide nothing any more."""
        self.log.end()


def _missing(image: Image, cluster_id: str, core: Core) -> list[MetadataRecord]:
    """What the first controller of a cluster writes."""
    records: list[MetadataRecord] = [] if image.cluster_id else [Cluster(cluster_id)]
    records += first_levels(image, core.features)
    return records + one_minimum(image, core.config)


def _say_refused(fault: KafkaError | None) -> None:
    if fault is not None and fault.code != ErrorCode.NOT_CONTROLLER:
        logger.error("the cluster could not be given its id and features: %s", fault)

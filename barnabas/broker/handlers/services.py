"""What a handler may use, and the questions every handler asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.broker.account import UNREAD, Account
from barnabas.broker.cluster.features import Spans
from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.mutation_quota import MutationQuota
from barnabas.broker.cluster.producer_ids import ProducerIdPool
from barnabas.broker.cluster.proposals import Proposals
from barnabas.broker.config import BrokerConfig
from barnabas.broker.context import Connection, RequestContext
from barnabas.broker.group.coordinator import GroupCoordinator
from barnabas.broker.handlers.line import Line
from barnabas.broker.handlers.sessions import FetchSessions
from barnabas.broker.handlers.steps import Runner, work
from barnabas.broker.jobs import Gate, Job
from barnabas.broker.ports import Entropy, Volume
from barnabas.broker.replica import ReplicaManager
from barnabas.protocol.api import ApiKey

if TYPE_CHECKING:
    from barnabas.broker.cluster.members import Members
    from barnabas.broker.raft.raft import Raft

AUTO_CREATE_IN_FLIGHT_MAX: Final = 1000
ONLY_LOOK: Final = frozenset(
    (
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.METADATA,
        ApiKey.OFFSET_FETCH,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.LIST_GROUPS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    )
)
"""APIs that change nothing: their work ends with the connection that asked."""

_READ_FILES: Final = frozenset((ApiKey.FETCH, ApiKey.LIST_OFFSETS))


class Operation(IntEnum):
    """What a principal wants to do (`AclOperation`)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class Resource(NamedTuple):
    """What it wants to do it with: kind is "topic", "group", "cluster" or "transactional_id"."""

    kind: str
    name: str


CLUSTER: Final = Resource("cluster", "kafka-cluster")


@lru_cache(maxsize=4096)
def topic_resource(name: str) -> Resource:
    """The topic of that name, which must be there. Every produce and fetch asks for one: those of late are kept.

    Names that nobody knows are not to be kept: they may be long, and many.
    """
    return Resource("topic", name)


Authorise = Callable[[str, Operation, Resource], bool]
Forward = Callable[[Any, Callable[[Any], None], int | None], None]
"""Sends a request to the controller at a version (None: the newest); its answer, or None, comes once, later."""


def acts_as_broker(services: Services, connection: Connection) -> bool:
    """Whether a connection is from a broker of this cluster, which may ask what replicas ask (ClusterAction)."""
    return connection.peer >= 0 and services.authorise(connection.principal, Operation.CLUSTER_ACTION, CLUSTER)


def allow_all(principal: str, operation: Operation, resource: Resource) -> bool:
    """Everybody may do everything, until access control comes."""
    return True


class Charge:
    """What an answer takes while it is made, of one connection: called with bytes, released at the end of a `with`."""

    __slots__ = ("_account", "_held", "_holder")

    def __init__(self, account: Account, holder: int) -> None:
        self._account = account
        self._holder = holder
        self._held = 0

    def __call__(self, size: int) -> None:
        """So many bytes more."""
        if size:
            self._held += size
            self._account.charge(self._holder, UNREAD, size)

    def __enter__(self) -> Charge:
        return self

    def __exit__(self, *_: object) -> None:
        if self._held:
            self._account.release(self._holder, UNREAD, self._held)


@dataclass(slots=True)
class Services:
    """The rooms below, as handlers see them.

    `config` is in force now, `static_config` what the broker was started with, `stored_settings` whether what clients
    stored since counts; `image` is the committed one,
    `features` what levels this release knows, `peer_versions` what it serves to other brokers.
    `creating` holds the topics whose creation on first use is under way (at most `AUTO_CREATE_IN_FLIGHT_MAX`);
    a gate is what waits for its end.
    `account` is charged with what is kept for others; in `line` stand requests with large answers,
    in `file_line` those of them that may wait for files. `metadata_end` is the offset after the last record of the
    metadata log, and its epoch; `volume` what the data directory lies on. `members` are the other brokers, for the
    controller of a cluster alone; `forward` is the way to it, for all others. `quorum` is
    this node's part in a quorum of controllers, where it has one.
    """

    config: BrokerConfig
    static_config: BrokerConfig
    cluster_id: str
    image: Image
    features: Spans
    controller: Proposals
    replicas: ReplicaManager
    producer_ids: ProducerIdPool
    groups: GroupCoordinator
    sessions: FetchSessions
    entropy: Entropy
    recovering: Callable[[], bool]
    mutations: MutationQuota
    run: Runner
    failed: Callable[[Any, RequestContext, Exception], None]
    metadata_end: Callable[[], tuple[int, int]]
    volume: Callable[[], Volume]
    authorise: Authorise = allow_all
    creating: dict[str, Gate | None] = field(default_factory=dict)
    members: Members | None = None
    forward: Forward | None = None
    quorum: Raft | None = None
    peer_versions: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    stored_settings: bool = True
    account: Account = field(default_factory=Account)
    line: Line = field(default_factory=Line)
    file_line: Line = field(default_factory=Line)

    def work(self, steps: Job[None], request: Any, context: RequestContext) -> None:
        """Serve a request by a job: its first slice now, what is left among the broker's jobs (see `steps`)."""
        asker = context.connection if context.api_key in ONLY_LOOK else None
        work(self.run, steps, lambda fault: self.failed(request, context, fault), asker)

    def work_in_line(self, steps: Job[None], request: Any, context: RequestContext) -> None:
        """As `work`, of which only a few are under way at a time (see `line`).

        A broker waits for nobody there: it asks for one thing at a time, and a flood of clients' large requests would
        take it out of every ISR.
        """
        if context.connection.peer >= 0:
            self.work(steps, request, context)
            return
        line = self.file_line if context.api_key in _READ_FILES else self.line
        self.work(line.within(context.connection.id, steps), request, context)

    def charging(self, context: RequestContext) -> Charge:
        """Charges its connection with what is made for an answer until that is out, or nobody waits for it."""
        return Charge(self.account, context.connection.id)

    @property
    def node_id(self) -> int:
        """This broker."""
        return self.static_config.node_id


_TOPIC_OPERATIONS: Final = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
_CLUSTER_OPERATIONS: Final = (
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)
_GROUP_OPERATIONS: Final = (
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
_OPERATIONS: Final = {"topic": _TOPIC_OPERATIONS, "cluster": _CLUSTER_OPERATIONS, "group": _GROUP_OPERATIONS}


def authorised_operations(services: Services, context: RequestContext, resource: Resource) -> int:
    """What the principal may do with a resource, one bit per operation (KIP-430)."""
    operations = _OPERATIONS[resource.kind]
    principal = context.connection.principal
    return sum(1 << one for one in operations if services.authorise(principal, one, resource))

"""Metadata: a cluster snapshot that is refreshed by age or by need (Kafka's `Metadata` and `ProducerMetadata`).

Rules, each cited at its place in the code: (a) a refresh is due at `metadata.max.age.ms`, or as soon as somebody asks;
(b) between two attempts lies a back-off, also when the answer brought nothing newer; (c) a new topic is asked for at
once, and alone (a partial update); (d) an answer without brokers is ignored; (e) an epoch older than the known one of a
partition is ignored; (f) an answer to a request sent before the newest wish does not fulfil that wish; (g) a topic
nobody used for `metadata.max.idle.ms` is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from barnabas.net.backoff import Backoff, Random
from barnabas.net.config import ClientConfig, parse_server
from barnabas.net.layered import plus
from barnabas.net.topology import Cluster, Node, PartitionInfo, TopicInfo
from barnabas.net.troubles import Troubles
from barnabas.protocol.errors import STALE_METADATA, BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import ZERO_UUID, TopicPartition
from barnabas.protocol.requests.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NEVER: Final = 1 << 62


class Metadata:
    """The client's view of the cluster, when to renew it, and who is to be told.

    `topics` are those of interest, `all_topics` asks for every one (pattern subscription). `listeners` are called with
    this object after each answer that was taken and each fatal error: whoever waits for metadata waits for `version`.
    """

    def __init__(
        self, config: ClientConfig, random: Random, *, topic_idle_ms: int = NEVER, allow_auto_create: bool = True
    ) -> None:
        self.config = config
        self.allow_auto_create = allow_auto_create
        self.all_topics = False
        self.version = 0
        self.topic_errors: dict[str, KafkaError] = {}
        self.fatal: BarnabasError | None = None
        self.listeners: list[Callable[[Metadata], None]] = []
        self.attempt_started_ms: int | None = None
        self.troubles = Troubles()
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, random)
        self._topic_idle_ms = topic_idle_ms
        self._topics: dict[str, int] = {}  # until when each is of interest; the longest unused comes first
        self._knows_all = False  # topics that nobody asked for, too
        self._new_topics: dict[str, None] = {}
        self._wish = 1  # rises with every wish; a request carries the wish it answers
        self._full_wish = 1  # the newest wish for everything, 0 when none is open
        self._partial_wish = 0
        self._allowed_ms = 0
        self._last_success_ms: int | None = None
        self._failures = 0
        self._fruitless = 0
        self.cluster = self._bootstrap_cluster()

    # ---- who is interested ----------------------------------------------------------------------------------------

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of interest; who was asked for last comes last."""
        return tuple(self._topics)

    def want(self, topic: str, now_ms: int) -> None:
        """Somebody waits for a topic, or for more of it than is known."""
        self.add_topics((topic,), now_ms)
        if not self.update_requested:
            self.request_update()

    def add_topics(self, names: Iterable[str], now_ms: int) -> int:
        """Declare, or renew, interest (g); new topics are asked for at once (c). Returns the version to wait beyond."""
        for name in names:
            if name not in self._topics:
                self._new_topics[name] = None
                self._want_partial()
            self._topics.pop(name, None)
            self._topics[name] = now_ms + self._topic_idle_ms
        return self.version

    # ---- wishes and their times -----------------------------------------------------------------------------------

    def request_update(self) -> int:
        """Something is stale: refresh all, after the back-off. Returns the version to wait beyond."""
        self._wish += 1
        self._full_wish = self._wish
        return self.version

    def _want_partial(self) -> None:
        self._wish += 1
        self._partial_wish = self._wish
        self._allowed_ms = 0  # no back-off for a topic that was never asked for
        self._failures = 0
        self._fruitless = 0

    @property
    def update_requested(self) -> bool:
        """Whether somebody wants newer metadata than there is."""
        return self._full_wish > 0 or self._partial_wish > 0

    def next_update_ms(self) -> int:
        """When the next request should leave (absolute ms; long ago when it is due) (a, b)."""
        wanted = 0 if self.update_requested else self._expires_ms()
        return max(wanted, self._allowed_ms)

    def _expires_ms(self) -> int:
        return 0 if self._last_success_ms is None else self._last_success_ms + self.config.metadata_max_age_ms

    # ---- request and answer ---------------------------------------------------------------------------------------

    def next_request(self, now_ms: int) -> tuple[MetadataRequest, int, bool]:
        """The request to send now, the wish it answers, and whether it is partial (hand both back with the answer)."""
        full = self._full_wish > 0 or now_ms >= self._expires_ms()
        partial = not full and bool(self._new_topics)
        names = list(self._new_topics if partial else self._topics)
        topics = None if self.all_topics and not partial else [MetadataRequestTopic(name=name) for name in names]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=self.allow_auto_create)
        if self.attempt_started_ms is None:
            self.attempt_started_ms = now_ms
        return request, self._wish, partial

    def failed(self, now_ms: int) -> None:
        """The request brought no answer, or an empty one: try again after the back-off."""
        self._allowed_ms = now_ms + self._backoff.wait_ms(self._failures)
        self._failures += 1

    def update(self, wish: int, response: MetadataResponse, partial: bool, now_ms: int) -> None:
        """Take an answer: the new snapshot, the version that wakes whoever waits, and what is still wanted."""
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self.rebootstrap(now_ms)
            return
        if not response.brokers:  # (d)
            self.failed(now_ms)
            return
        before = self.cluster
        by_age = now_ms >= self._expires_ms()
        retired = self._retire_topics(now_ms)
        self.attempt_started_ms = None
        self._failures = 0
        for topic in response.topics:
            self._new_topics.pop(topic.name or "", None)
        self._partial_wish = self._partial_wish if self._partial_wish > wish else 0  # (f)
        if not partial:
            self._full_wish = self._full_wish if self._full_wish > wish else 0
            self._last_success_ms = now_ms
        self.cluster = self._merge(response, partial, retired)
        self._note_errors(response, now_ms)
        same = before.nodes == self.cluster.nodes and not retired and self._same_topics(before, response, partial)
        self._fruitless = self._fruitless + 1 if same and not by_age else 0
        self._allowed_ms = now_ms + self._backoff.wait_ms(max(self._fruitless - 1, 0))
        self.version += 1
        self._tell()

    def rebootstrap(self, now_ms: int) -> None:
        """Forget the brokers and start again from `bootstrap.servers` (KIP-899); topics known stay known."""
        old, fresh = self.cluster, self._bootstrap_cluster()
        self.cluster = Cluster(fresh.nodes, old.topics, old.topic_names, old.cluster_id, is_bootstrap=True)
        self.attempt_started_ms = now_ms
        self.request_update()
        self._allowed_ms = 0

    def fail_fatally(self, error: BarnabasError) -> None:
        """Nothing will ever be answered (no common version): whoever waits gets the error."""
        self.fatal = error
        self.troubles.tell(error)
        self._tell()

    def update_leader(self, where: TopicPartition, leader: int, epoch: int, node: Node | None = None) -> bool:
        """A produce or fetch answer told a newer leader (KIP-951). Returns whether it was news."""
        old = self.cluster.partition(*where)
        if old is None or epoch <= old.leader_epoch or (node is None and leader not in self.cluster.nodes):
            return False
        nodes = self.cluster.nodes if node is None else {**self.cluster.nodes, node.id: node}
        info = self.cluster.topics[where.topic]
        news = old._replace(leader=leader, leader_epoch=epoch)
        partitions = (*info.partitions[: where.partition], news, *info.partitions[where.partition + 1 :])
        topics = {**self.cluster.topics, where.topic: info._replace(partitions=partitions)}
        self.cluster = Cluster(
            nodes, topics, self.cluster.topic_names, self.cluster.cluster_id, self.cluster.controller_id
        )
        self._tell()
        return True

    def note_missing(self, where: TopicPartition, now_ms: int) -> bool:
        """Somebody waits for a partition: whether its topic is known and lacks it, which is a trouble then."""
        missing = self.missing(where)
        if missing is not None:
            self.troubles.note(where, missing, now_ms)
        return missing is not None

    def missing(self, where: TopicPartition) -> KafkaError | None:
        """Says that the topic, which is known, lacks the partition; None if it does not."""
        info = self.cluster.topics.get(where.topic)
        if info is None or where.partition < len(info.partitions):
            return None
        told = f"topic {where.topic} has no partition {where.partition}; it has {len(info.partitions)}, from 0 on"
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, told)

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        for listener in tuple(self.listeners):
            listener(self)

    def _bootstrap_cluster(self) -> Cluster:
        nodes = {}
        for index, server in enumerate(self.config.bootstrap_servers):
            host, port = parse_server(server)
            nodes[-1 - index] = Node(-1 - index, host, port)
        return Cluster(nodes, is_bootstrap=True)

    def _retire_topics(self, now_ms: int) -> list[str]:
        expired = []
        for name, until in self._topics.items():
            if until > now_ms:
                break
            if name not in self._new_topics:
                expired.append(name)
        for name in expired:
            del self._topics[name]
            self.troubles.clear(("topic", name))
        return expired

    def _merge(self, response: MetadataResponse, partial: bool, retired: list[str]) -> Cluster:
        nodes = {each.node_id: Node(each.node_id, each.host, each.port, each.rack) for each in response.brokers}
        told: dict[str, TopicInfo] = {}
        gone = set(retired)
        for topic in response.topics:
            name = topic.name or self.cluster.topic_names.get(topic.topic_id, "")
            if topic.error_code == 0 and name and self._wanted(name) and _is_complete(topic):
                told[name] = self._topic(name, topic)
            elif name:
                told.pop(name, None)
                gone.add(name)
        topics, names = self._with(told, gone) if partial else (told, _names(told))
        self._knows_all = self.all_topics
        return Cluster(nodes, topics, names, response.cluster_id, response.controller_id)

    def _with(self, told: dict[str, TopicInfo], gone: set[str]) -> tuple[Mapping[str, TopicInfo], Mapping[bytes, str]]:
        """The topics that are known and those of a partial answer, and their ids; in steps of the answer's size."""
        known = self.cluster.topics
        if self._knows_all and not self.all_topics:
            gone |= {name for name in known if not self._wanted(name)}
        if any(name in known for name in gone):
            known = {name: info for name, info in known.items() if name not in gone}
        elif not any(name in known for name in told):
            return plus(known, told), plus(self.cluster.topic_names, _names(told))
        topics = {**known, **told}
        return topics, _names(topics)

    def _same_topics(self, before: Cluster, response: MetadataResponse, partial: bool) -> bool:
        """Whether an answer brought nothing that was not known; nothing was given up."""
        now = self.cluster.topics
        if not partial:
            return before.topics == now
        names = [topic.name or "" for topic in response.topics]
        return all(before.topics.get(name) == now.get(name) for name in names)

    def _wanted(self, name: str) -> bool:
        return self.all_topics or name in self._topics

    def _topic(self, name: str, topic: MetadataResponseTopic) -> TopicInfo:
        known = self.cluster.topics.get(name)
        if known is not None and known.topic_id != topic.topic_id and ZERO_UUID not in (known.topic_id, topic.topic_id):
            known = None  # deleted and created again: epochs start afresh
        ordered = sorted(topic.partitions, key=lambda each: each.partition_index)
        partitions = tuple(self._partition(name, index, each, known) for index, each in enumerate(ordered))
        return TopicInfo(name, topic.topic_id, partitions, topic.is_internal)

    def _partition(
        self, name: str, index: int, told: MetadataResponsePartition, known: TopicInfo | None
    ) -> PartitionInfo:
        if known is not None and index < len(known.partitions):
            old = known.partitions[index]
            if 0 <= told.leader_epoch < old.leader_epoch:  # (e)
                return old
        return PartitionInfo.told(name, told)

    def _note_errors(self, response: MetadataResponse, now_ms: int) -> None:
        self.topic_errors = {}
        for topic in response.topics:
            name = topic.name or ""
            trouble = _trouble(name, topic, may_make=self.allow_auto_create)
            if trouble is None:
                self.troubles.clear(("topic", name))
            else:
                self.troubles.note(("topic", name), trouble, now_ms)
            if topic.error_code in _FATAL:
                self.topic_errors[name] = KafkaError(topic.error_code, name)
            elif not _is_complete(topic):
                told = sorted(each.partition_index for each in topic.partitions)[:10]
                detail = f"{name}: the broker tells of {len(topic.partitions)} partitions, numbered {told}"
                self.topic_errors[name] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, detail)
            elif any(code in STALE_METADATA for code in (topic.error_code, *(p.error_code for p in topic.partitions))):
                self.request_update()


def _is_complete(topic: MetadataResponseTopic) -> bool:
    """Whether an answer tells of each partition once; `TopicInfo` counts on it."""
    return sorted(each.partition_index for each in topic.partitions) == list(range(len(topic.partitions)))


def _names(topics: Mapping[str, TopicInfo]) -> dict[bytes, str]:
    return {info.topic_id: name for name, info in topics.items() if info.topic_id != ZERO_UUID}


def _trouble(name: str, topic: MetadataResponseTopic, *, may_make: bool) -> KafkaError | None:
    """What keeps records of this topic from going, if anything does. `may_make`: it was asked to make what lacks."""
    if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        none = ", and makes none on first use" if may_make else ""
        return KafkaError(topic.error_code, f"the cluster has no topic {name}{none}")
    if topic.error_code:
        return KafkaError(topic.error_code, f"topic {name}")
    homeless = [each.partition_index for each in topic.partitions if each.leader_id < 0]
    if homeless:
        shown = ", ".join(map(str, sorted(homeless)[:10])) + (", ..." if len(homeless) > 10 else "")
        return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name} has no leader for partitions {shown}")
    return None


_FATAL: Final = frozenset({ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.TOPIC_AUTHORIZATION_FAILED})
"""Topic errors no refresh will mend: the waiting send fails with them at once."""

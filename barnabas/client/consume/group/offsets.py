"""The group's offsets and the consumer's positions: what is committed of them, and where new partitions begin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from barnabas.client.consume.config import ConsumerConfig
from barnabas.client.consume.fetcher import Fetcher
from barnabas.client.consume.group.commits import (
    commit_error,
    commit_request,
    fetch_request,
    highest_version,
    ids_told,
    reader_of_commit,
    reader_of_fetch,
)
from barnabas.client.consume.group.coordinator import Coordinator, Question
from barnabas.client.consume.group.values import Identity, OffsetAndMetadata, Offsets
from barnabas.client.consume.positions import Phase, Position
from barnabas.net.metadata import NEVER
from barnabas.net.topology import Cluster
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import ZERO_UUID, TopicPartition
from barnabas.protocol.requests.offset_fetch import OffsetFetchResponse

_BETWEEN: Final = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)

OnCommit = Callable[[BarnabasError | None, int], None]
"""`on_commit(error, now_ms)`: once for each commit."""


class GroupOffsets:
    """Commits, and asks for what is committed. `on_change` wakes whoever waits for a position."""

    def __init__(
        self,
        config: ConsumerConfig,
        fetcher: Fetcher,
        coordinator: Coordinator,
        identity: Callable[[], Identity],
        on_change: Callable[[], None],
    ) -> None:
        self._config = config
        self._fetcher = fetcher
        self._coordinator = coordinator
        self._identity = identity
        self._on_change = on_change
        self.commits = 0
        self._saved: dict[TopicPartition, int] = {}  # what is known to be committed

    # ---- commit ---------------------------------------------------------------------------------------------------

    def now(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Where these partitions stand: behind what was handed out. Those that stand nowhere yet are left out.

        So is one whose topic was made anew, until it is known where to go on: what it has read is not in there.
        """
        found: Offsets = {}
        for where in partitions:
            position = self._fetcher.positions[where]
            offset = position.next_offset
            if offset is not None and not self._is_anew(where.topic, position.topic_id):
                epoch = -1 if position.returned else position.offset_epoch
                found[where] = OffsetAndMetadata(offset, leader_epoch=epoch)
        return found

    def _is_anew(self, topic: str, topic_id: bytes) -> bool:
        """Whether there is another topic of that name by now, as far as is known."""
        known = self._fetcher.metadata.cluster.topic_id(topic)
        return known != topic_id and ZERO_UUID not in (known, topic_id)

    def unsaved(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """Those of them that are not committed as far as they stand."""
        return {where: each for where, each in self.now(partitions).items() if self._saved.get(where) != each.offset}

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """They are somebody else's, who commits them."""
        for where in partitions:
            self._saved.pop(where, None)

    def commit(self, offsets: Offsets, now_ms: int, on_done: OnCommit, deadline_ms: int | None = None) -> None:
        """Commit; tried again until the deadline (absolute ms), and without one not at all.

        What is not tried again cannot come after a later commit, and undo it. Nor is it tried as the member of a later
        generation that does not have these partitions any more (whoever has them may have committed more), or for
        another topic of that name.
        """
        if not offsets:
            on_done(None, now_ms)
            return
        self.commits += 1
        cluster = self._fetcher.metadata.cluster
        group_id = self._config.group_id

        first, before = self._identity(), self._fetcher.positions
        mine = {where: before[where] for where in offsets if where in before}
        read = {where.topic: cluster.topic_id(where.topic) for where in offsets}
        read.update((where.topic, one.topic_id) for where, one in mine.items() if one.topic_id != ZERO_UUID)
        sent: Identity | None = None

        def identity() -> Identity:
            nonlocal sent
            sent = self._identity()
            return sent

        def again(code: int) -> bool:
            """The next generation begins just now: it is committed as its member. An epoch rose, as will be heard."""
            if code == ErrorCode.STALE_MEMBER_EPOCH:
                return self._identity().generation >= 0
            return code in _BETWEEN and (self._identity() != sent or self._coordinator.busy)

        def lapsed() -> BarnabasError | None:
            anew = [topic for topic, topic_id in read.items() if self._is_anew(topic, topic_id)]
            if anew:
                told = f"group {group_id}: not committed: topic {anew[0]} was made anew; poll, and commit again"
                return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, told)
            now = self._fetcher.positions
            if self._identity() == first or all(now.get(where) is one for where, one in mine.items()):
                return None
            return KafkaError(ErrorCode.ILLEGAL_GENERATION)

        def done(_: Any, error: BarnabasError | None, now_ms: int) -> None:
            if error is None:
                self._saved.update((where, each.offset) for where, each in offsets.items())
            on_done(commit_error(error, group_id), now_ms)

        question = Question(
            commit_request(identity, offsets, cluster),
            reader_of_commit(cluster),
            done,
            "commit",
            now_ms + self._config.default_api_timeout_ms if deadline_ms is None else deadline_ms,
            of=lambda where: f" of {where}",
            once=deadline_ms is None,
            again=again,
            lapsed=lapsed,
            max_version=highest_version(cluster, {where.topic for where in offsets}),
        )
        self._coordinator.ask(question, now_ms)

    # ---- committed ------------------------------------------------------------------------------------------------

    def committed(
        self,
        partitions: Iterable[TopicPartition],
        now_ms: int,
        on_done: Callable[[Offsets | None, BarnabasError | None, int], None],
        deadline_ms: int = NEVER,
        ids: dict[str, bytes] | None = None,
    ) -> None:
        """What is committed of these partitions; those with nothing are left out.

        `ids`: takes the ids of their topics, where the answer tells them.
        """
        wanted, metadata = list(partitions), self._fetcher.metadata
        cluster = metadata.cluster

        def known() -> Cluster:
            nonlocal cluster
            cluster = metadata.cluster
            return cluster

        def read(response: OffsetFetchResponse) -> tuple[Offsets, int]:
            said, code = reader_of_fetch(cluster)(response)
            if code == ErrorCode.UNKNOWN_TOPIC_ID:  # made anew: nobody else may ask for its new one
                metadata.request_update()
            if ids is not None:
                ids.update(ids_told(response, cluster))
            return said, code

        question = Question(
            fetch_request(self._config.group_id, wanted, known),
            read,
            on_done,
            "committed offsets",
            deadline_ms,
            max_version=highest_version(cluster, {where.topic for where in wanted}),
        )
        self._coordinator.ask(question, now_ms)

    def drive(self, now_ms: int) -> None:
        """Asks where new partitions begin."""
        asked = [each for each in self._fetcher.positions.values() if each.unasked]
        if asked and self._coordinator.known:
            for position in asked:
                position.asking = True
            ids: dict[str, bytes] = {}
            done = partial(self._on_committed, asked, ids)
            self.committed([each.where for each in asked], now_ms, done, ids=ids)

    def _on_committed(
        self,
        asked: list[Position],
        ids: Mapping[str, bytes],
        offsets: Offsets | None,
        error: BarnabasError | None,
        now_ms: int,
    ) -> None:
        for position in asked:
            position.asking = False
            if position.phase is not Phase.COMMITTED:
                continue  # a seek came in between
            found = None if offsets is None else offsets.get(position.where)
            if offsets is None:
                position.error = error
            elif found is None:
                position.await_reset(None)
            else:
                position.seek(found.offset, found.leader_epoch)
                position.topic_id = ids.get(position.where.topic, ZERO_UUID)
                self._saved[position.where] = found.offset
        self._on_change()

"""Fetch sessions from the client's side (KIP-227): tell the broker only what changed since the last request.

    our state (id, epoch)    the request says             the answer brings
    (0, 0)                   everything, open a session   an id: next is (id, 1); id 0: no session, next is (0, 0)
    (id, n > 0)              what changed, what is gone   success: next is (id, n + 1), after 2**31 - 1 comes 1
    (id, n), error 70        -                            the session is gone: (0, 0)
    (id, n), other trouble   -                            close it and open another: (id, 0)

Source: Kafka's `FetchSessionHandler`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import ZERO_UUID, TopicPartition
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

log = logging.getLogger(__name__)

EPOCH_MAX: Final = 2**31 - 1
NAMES_ONLY_VERSION_MAX: Final = 12
"""From version 13 on a fetch names topics by id alone."""


class Wanted(NamedTuple):
    """What is asked of one partition."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    bytes_max: int


class FetchSession:
    """The session with one node."""

    def __init__(self) -> None:
        self.id = 0
        self.epoch = 0
        self._known: dict[TopicPartition, Wanted] = {}

    def fill(self, request: FetchRequest, wanted: Mapping[TopicPartition, Wanted]) -> int | None:
        """Puts the session's fields and the partitions to tell into a request.

        Returns:
            The highest request version to use, None for any (without topic ids only names can be sent).
        """
        request.session_id, request.session_epoch = self.id, self.epoch
        gone: dict[TopicPartition, bytes] = {}
        tell: Mapping[TopicPartition, Wanted] = wanted
        if self.epoch:
            tell = {where: want for where, want in wanted.items() if self._known.get(where) != want}
            for where, known in self._known.items():
                want = wanted.get(where)
                if want is None or (want.topic_id != known.topic_id and known.topic_id != ZERO_UUID):
                    gone[where] = known.topic_id
        self._known = dict(wanted)
        topics: dict[str, FetchTopic] = {}
        for where, want in tell.items():
            topic = topics.get(where.topic)
            if topic is None:
                topic = topics[where.topic] = FetchTopic(where.topic, want.topic_id)
            topic.partitions.append(
                FetchPartition(
                    where.partition, want.leader_epoch, fetch_offset=want.offset, partition_max_bytes=want.bytes_max
                )
            )
        request.topics = list(topics.values())
        forgotten: dict[tuple[str, bytes], ForgottenTopic] = {}
        for where, topic_id in gone.items():
            key = (where.topic, topic_id)
            forgotten.setdefault(key, ForgottenTopic(where.topic, topic_id)).partitions.append(where.partition)
        request.forgotten_topics_data = list(forgotten.values())
        nameless = all(want.topic_id != ZERO_UUID for want in wanted.values())
        nameless = nameless and all(topic_id != ZERO_UUID for topic_id in gone.values())
        return None if nameless else NAMES_ONLY_VERSION_MAX

    def answered(self, error_code: int, session_id: int) -> bool:
        """Takes an answer's session fields; False when the session was refused and nothing in the answer counts."""
        if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.id = self.epoch = 0
            return False
        if error_code:
            log.debug("fetch session %d is refused with error %d", self.id, error_code)
            self.lost()
            return False
        if self.epoch == 0:
            log.debug("a fetch session of %d partitions begins: %d", len(self._known), session_id)
            self.id = session_id
            self.epoch = 1 if session_id else 0
        elif session_id == 0:
            self.id = self.epoch = 0  # the broker let it go
        else:
            self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1
        return True

    def lost(self) -> None:
        """No answer came and the broker's state is unknown: the next request closes the session and opens another."""
        self.epoch = 0

"""Who coordinates a group, and the way to him (Kafka's `AbstractCoordinator`, the part that asks).

Any broker is asked for the coordinator; what goes to him has a connection of its own, so that no heartbeat waits behind
a fetch. A `Question` is asked until it has an answer, a refusal, or no time left; whatever must not be asked twice
(JoinGroup, a heartbeat) is sent once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from barnabas.net.backoff import Backoff, Random
from barnabas.net.config import ClientConfig
from barnabas.net.errors import ClientClosed, ClientTimeout, Disconnected
from barnabas.net.metadata import NEVER
from barnabas.net.network import NetworkClient, OnDone, PerVersion
from barnabas.net.topology import Node
from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.requests.find_coordinator import Coordinator as Found
from barnabas.protocol.requests.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

log = logging.getLogger(__name__)

MOVED: Final = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT})
"""Answers after which the coordinator is looked for anew."""

AGAIN: Final = MOVED | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
}
"""Answers after which the same question may be asked again."""

_GROUP: Final = 0
_LIST_FROM: Final = 4  # the version of FindCoordinator that asks for several


@dataclass(slots=True, eq=False)
class Question:
    """Something the coordinator is asked until there is an answer. Times are absolute ms.

    `read` takes the answer apart: what it says, and its error code; `on_done(said, error, now_ms)` hears of the outcome
    once. `of`: what of it an error is of, by what the answer said beside its code. `once`: any failure is the outcome.
    `again`: after which error codes, besides the usual, it is asked again. `lapsed`: why it is to be asked no more,
    before each time it is.
    """

    request: Any
    read: Callable[[Any], tuple[Any, int]]
    on_done: Callable[[Any, BarnabasError | None, int], None]
    what: str
    deadline_ms: int = NEVER
    of: Callable[[Any], str] = lambda _: ""
    once: bool = False
    again: Callable[[int], bool] = lambda _: False
    lapsed: Callable[[], BarnabasError | None] = lambda: None
    max_version: int | None = None
    under_way: bool = False
    retry_at_ms: int = 0
    trouble: BarnabasError | None = None


class Coordinator:
    """The coordinator of one group. `on_change` wakes whoever waits."""

    def __init__(
        self, config: ClientConfig, network: NetworkClient, group_id: str, random: Random, on_change: Callable[[], None]
    ) -> None:
        self.node: Node | None = None
        self.busy = False  # a join, or what follows it, is under way: what comes behind it waits
        self.last_error: BarnabasError | None = None
        self.fatal: BarnabasError | None = None  # there is none for this consumer, and the application must hear of it
        self._config = config
        self._network = network
        self._group_id = group_id
        self._on_change = on_change
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, random)
        # The first group of a cluster waits for a topic to be made, which takes some ms: it is asked about sooner.
        self._finding_backoff = Backoff(config.retry_backoff_ms // 5, config.retry_backoff_max_ms, random)
        self._id = 0  # of the connection
        self._finding = False
        self._failures = 0
        self._retry_at_ms = 0
        self._questions: list[Question] = []
        self.wanted = False  # look for him, though nobody asks him anything yet

    # ---- asking ---------------------------------------------------------------------------------------------------

    @property
    def known(self) -> bool:
        """Whether something can be sent to him."""
        return self.node is not None

    def send(
        self,
        request: Any,
        now_ms: int,
        on_done: OnDone,
        *,
        timeout_ms: int | None = None,
        max_version: int | None = None,
        aside: bool = False,
    ) -> None:
        """Sent once. The error, if any, has been taken note of when `on_done` hears of it.

        `aside`: on the connection that fetches use, for what must not wait behind a join.
        """
        told = self.node
        assert told is not None, "the coordinator is not known"
        node_id = told.id if aside else self._id

        def done(response: Any, error: BarnabasError | None, now_ms: int) -> None:
            if error is not None and told is self.node:
                self.lost(error, now_ms)
            on_done(response, error, now_ms)

        self._network.enqueue(node_id, request, now_ms, done, timeout_ms=timeout_ms, max_version=max_version)

    def ask(self, question: Question, now_ms: int) -> None:
        """Ask until there is an outcome."""
        self._questions.append(question)
        self.drive(now_ms)

    def close(self, now_ms: int) -> None:
        """Look for nobody any more; whoever waits for an answer is told."""
        self.wanted = False
        self._end(ClientClosed("the consumer is closed"), now_ms)

    def lost(self, error: BarnabasError, now_ms: int) -> None:
        """He cannot be reached, or is not the coordinator any more: look for him anew."""
        log.debug("group %s: the coordinator is gone: %s", self._group_id, error)
        self.note(error, now_ms)
        self.node = None

    def note(self, error: BarnabasError, now_ms: int, since_ms: int | None = None) -> None:
        """Something is wrong with the group, which is told of while it lasts."""
        self.last_error = error
        self._network.metadata.troubles.note(("group", self._group_id), error, now_ms, since_ms)

    def clear(self) -> None:
        """The membership goes well. What a question is refused for lasts, or each heartbeat would begin it anew."""
        if not any(question.trouble for question in self._questions):
            self._clear()

    def _clear(self) -> None:
        self.last_error = None
        if self._network.metadata.troubles:
            self._network.metadata.troubles.clear(("group", self._group_id))

    def heard(self, code: int, what: str, now_ms: int) -> KafkaError | None:
        """The error of an answer, taken note of."""
        if not code:
            return None
        error = KafkaError(code, f"group {self._group_id}: {what}")
        if code in MOVED:
            self.lost(error, now_ms)
        else:
            self.note(error, now_ms)
        return error

    def backoff_ms(self, failures: int) -> int:
        """How long to wait after so many failures in a row."""
        return self._backoff.wait_ms(failures)

    # ---- the step -------------------------------------------------------------------------------------------------

    def drive(self, now_ms: int) -> int:
        """Looks for the coordinator, and asks. Returns when to call again at the latest (absolute ms)."""
        due = NEVER
        for question in tuple(self._questions):
            if question.deadline_ms <= now_ms:
                self._expire(question, now_ms)
            elif not question.under_way:
                if self.node is not None and question.retry_at_ms <= now_ms:
                    self._put_or_drop(question, now_ms)
                elif self.node is not None:
                    due = min(due, question.retry_at_ms)
            due = min(due, question.deadline_ms) if question in self._questions else due
        if self.node is None and not self._finding and (self.wanted or self._questions):
            if self._retry_at_ms > now_ms:
                return min(due, self._retry_at_ms)
            due = min(due, self._find(now_ms))
        return due

    def _expire(self, question: Question, now_ms: int) -> None:
        self._questions.remove(question)
        why = question.trouble or self.last_error
        told = f"group {self._group_id}: {question.what}: no answer in time" + (f": {why}" if why else "")
        question.on_done(None, ClientTimeout(told), now_ms)

    def _put_or_drop(self, question: Question, now_ms: int) -> None:
        error = question.lapsed()
        if error is None:
            self._put(question, now_ms)
        else:
            self._questions.remove(question)
            question.on_done(None, error, now_ms)

    def _put(self, question: Question, now_ms: int) -> None:
        question.under_way = True
        left_ms = min(self._config.request_timeout_ms, question.deadline_ms - now_ms)
        done = partial(self._on_answer, question)
        self.send(question.request, now_ms, done, timeout_ms=left_ms, max_version=question.max_version, aside=self.busy)

    def _on_answer(self, question: Question, response: Any, error: BarnabasError | None, now_ms: int) -> None:
        question.under_way = False
        if question not in self._questions:
            return  # its time is over
        said: Any = None
        if error is None:
            said, code = question.read(response)
            error = self.heard(code, f"{question.what}{question.of(said)}", now_ms) if code else None
            again = code in AGAIN or question.again(code)
        else:
            again = isinstance(error, Disconnected)
        if again and not question.once:
            question.trouble = error
            question.retry_at_ms = now_ms + self._config.retry_backoff_ms
            return
        if error is None:
            self._clear()
        self._questions.remove(question)
        question.on_done(said, error, now_ms)

    # ---- finding --------------------------------------------------------------------------------------------------

    def _find(self, now_ms: int) -> int:
        node = self._network.least_loaded_node(now_ms)
        if node is None:
            return now_ms + max(self._config.retry_backoff_ms, 1)
        self._finding = True
        self._network.enqueue(node.id, find_request(self._group_id), now_ms, self._on_found)
        return NEVER

    def _on_found(self, response: FindCoordinatorResponse | None, error: BarnabasError | None, now_ms: int) -> None:
        self._finding = False
        found = None if response is None else read_found(response)
        if found is not None and found.error_code:
            detail = found.error_message or "its coordinator"
            error = KafkaError(found.error_code, f"group {self._group_id}: {detail}")
        if error is not None:
            self.note(error, now_ms)
            self._retry_at_ms = now_ms + max(self._finding_backoff.wait_ms(self._failures), 1)
            self._failures += 1
            if not error.retriable:
                self._refuse(error, now_ms)
        else:
            assert found is not None
            self._failures = 0
            self.node = Node(found.node_id, found.host, found.port)
            self._id = self._network.keep_apart(self.node, now_ms)
            self._clear()
            log.debug("group %s: coordinated by broker %d at %s:%d", self._group_id, *self.node[:3])
        self._on_change()

    def _refuse(self, error: BarnabasError, now_ms: int) -> None:
        """No waiting will mend it: whoever waits for an answer is told."""
        self.fatal = error
        self._end(error, now_ms)

    def _end(self, error: BarnabasError, now_ms: int) -> None:
        questions, self._questions = self._questions, []
        for question in questions:
            question.on_done(None, error, now_ms)


def find_request(group_id: str) -> PerVersion:
    """A FindCoordinator."""

    def make(version: int) -> FindCoordinatorRequest:
        if version < _LIST_FROM:
            return FindCoordinatorRequest(key=group_id, key_type=_GROUP)
        return FindCoordinatorRequest(key_type=_GROUP, coordinator_keys=[group_id])

    return PerVersion(ApiKey.FIND_COORDINATOR, make)


def find_several_request(group_ids: Sequence[str]) -> PerVersion:
    """A FindCoordinator of several groups; older brokers are asked of the first alone, and answer in the older form."""

    def make(version: int) -> FindCoordinatorRequest:
        if version < _LIST_FROM:
            return FindCoordinatorRequest(key=group_ids[0], key_type=_GROUP)
        return FindCoordinatorRequest(key_type=_GROUP, coordinator_keys=list(group_ids))

    return PerVersion(ApiKey.FIND_COORDINATOR, make)


def read_found(response: FindCoordinatorResponse) -> FindCoordinatorResponse | Found:
    """Who it is, or why nobody is: both forms have the same fields."""
    return response.coordinators[0] if response.coordinators else response

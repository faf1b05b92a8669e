"""Questions asked until they are answered, and the consumer that a task borrows for its reading.

A worker keeps consumers for its next tasks: Spark's workers fork before this module is imported, live on between
micro-batches, and run one task at a time. Brokers that answer late are asked with ever more time (`Patience`), which a
client takes when it is made: a client whose calls end too soon is closed, and another one made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from barnabas.client.consumer import Consumer
from barnabas.net.errors import ClientTimeout, Disconnected
from barnabas.protocol.ids import TopicPartition
from barnabas.spark_bridge.idle import Idle
from barnabas.spark_bridge.options import SourceOptions
from barnabas.spark_bridge.patience import PAUSE_MS, Patience
from barnabas.spark_bridge.process import quiet_client

T = TypeVar("T")

ANSWER_MS: Final = 5_000
"""So long a call may take before the brokers count as away, unless ANSWER_TIME is given."""
ANSWER_TIME: Final = "default.api.timeout.ms"

_idle = Idle[Consumer]()


def now_ms() -> int:
    """A clock that only goes forward."""
    return time.monotonic_ns() // 1_000_000


def patience_of(options: SourceOptions, settings: Mapping[str, Any]) -> Patience:
    """How long to wait for the brokers of these options; it tells of them, the client does not."""
    quiet_client()
    answer_ms = int(settings.get(ANSWER_TIME, ANSWER_MS))
    return Patience(options.client["bootstrap.servers"], options.away_ms_max, answer_ms)


def until_answered(ask: Callable[[], T], patience: Patience, doing: str = "") -> T:
    """Asks until brokers that are away come back.

    Raises:
        BrokersAway: they did not for as long as `patience` lasts.
        KafkaError: they refused.
    """
    while True:
        began_ms = now_ms()
        try:
            answer = ask()
        except (ClientTimeout, Disconnected) as error:
            patience.missed(error, now_ms(), doing)
            time.sleep(PAUSE_MS / 1000)
        else:
            patience.answered(now_ms(), now_ms() - began_ms)
            return answer


class Borrowed:
    """A consumer for one partition, until the task is done."""

    def __init__(self, consumer: Consumer, settings: Mapping[str, Any], patience: Patience) -> None:
        self.consumer = consumer
        self._settings, self._patience = settings, patience
        self._answer_ms = patience.answer_ms

    def ask(self, question: Callable[[Consumer], T], where: TopicPartition, position: int, doing: str) -> T:
        """An answer, while the partition is read at this position.

        Raises:
            BrokersAway: there is none for as long as patience lasts.
            KafkaError: the question was refused.
        """

        def once() -> T:
            answer_ms = self._patience.answer_ms
            if self._answer_ms < answer_ms:
                self.consumer.close()
                self.consumer = Consumer(config={**self._settings, ANSWER_TIME: answer_ms})
                self._answer_ms = answer_ms
                self.consumer.assign([where])
                self.consumer.seek(where, position)
            return question(self.consumer)

        return until_answered(once, self._patience, doing)

    def park(self) -> None:
        """Keep the consumer for the next task that waits as long for an answer."""
        self.consumer.assign([])
        _idle.put({**self._settings, ANSWER_TIME: self._answer_ms}, self.consumer)


@contextmanager
def borrowed(settings: Mapping[str, Any], patience: Patience, doing: str) -> Iterator[Borrowed]:
    """A consumer that was kept, or a new one; kept for the next task, unless this one fails."""

    def mine() -> dict[str, Any]:
        return {**settings, ANSWER_TIME: patience.answer_ms}  # one that waits longer is not for who has less patience

    found = Borrowed(
        _idle.take(mine()) or until_answered(lambda: Consumer(config=mine()), patience, doing), settings, patience
    )
    try:
        yield found
    except GeneratorExit:
        found.park()  # the task wanted no more rows: nothing is wrong with the connection
        raise
    except BaseException:
        found.consumer.close()
        raise
    else:
        found.park()

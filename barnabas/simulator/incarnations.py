"""Topics by id, under names that histories can have: one made anew under the name of another is another one.

    t    the first topic of that name that anybody saw          t.2    the one that was made after it was deleted

So a checker knows partitions by name, and never takes one for the other.
"""

from __future__ import annotations

from collections import Counter

from barnabas.protocol.ids import ZERO_UUID, TopicPartition


class Incarnations:
    """The topics of one world, in the order in which they were seen."""

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._counts: Counter[str] = Counter()
        self._made: set[bytes] = set()

    def name(self, topic_id: bytes, name: str) -> str:
        """What the topic of an id and a name is called; without an id (of a log that lost it) as the first."""
        known = self._names.get(topic_id)
        if known is not None or topic_id == ZERO_UUID:
            return name if known is None else known
        self._counts[name] += 1
        count = self._counts[name]
        called = self._names[topic_id] = name if count == 1 else f"{name}.{count}"
        return called

    def remade(self, topic_id: bytes, name: str) -> bool:
        """Whether it is one that is made anew, and was not asked for here before."""
        new = topic_id not in self._made
        self._made.add(topic_id)
        return new and self.name(topic_id, name) != name

    def key(self, topic_id: bytes, key: TopicPartition) -> TopicPartition:
        """A partition of it."""
        called = self.name(topic_id, key.topic)
        return key if called == key.topic else TopicPartition(called, key.partition)

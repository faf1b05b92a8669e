"""Kafka Streams, at least once: a word count that two instances share, and one of them takes over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.conformance.raw import Connection
from tests.conformance.world import METADATA
from tests.wire.conftest import make_topic
from tests.wire.programs import Program
from tests.wire.tried import STREAMS

LINES = [f"to be or not to be w{number % 5}" for number in range(50)]


class TestKafkaStreams:
    tried = STREAMS

    def test_words_are_counted_while_instances_come_and_go(
        self, client: Program, address: str, fresh: Callable[[], str], tmp_path: Path
    ) -> None:
        topic, counts, application = fresh(), fresh(), fresh()
        for name in (topic, counts):
            make_topic(address, name, 2)
        wanted: Counter[str] = Counter()

        def counted() -> bool:
            """Whether each word has come to as many as were written; more would be words that were counted again."""
            wanted.update(word for line in LINES for word in line.split())
            told = Counter(client.ask("count", topic=topic, counts=counts, lines=LINES, until=wanted)["counts"])
            return told >= wanted

        def start(number: int) -> int:
            asked = {"topic": topic, "counts": counts, "application": application, "directory": str(tmp_path)}
            return int(client.ask("start", number=number, **asked)["tasks"])

        assert start(1) == 4, "two of each half: before the words are grouped, and after"
        assert counted()
        assert start(2) > 0
        assert counted(), "each has a part of the tasks"
        client.ask("leave", number=1)
        assert counted(), "the other has read the counts that were not its own"
        client.ask("leave", number=2)
        with Connection(int(address.rsplit(":", 1)[1])) as peer:
            names = {each.name for each in peer.call("metadata", METADATA, {"topics": None}).body.topics}
        assert {f"{application}-counts-changelog", f"{application}-counts-repartition"} <= names

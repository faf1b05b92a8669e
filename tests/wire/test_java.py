"""Apache Kafka's own Java client: the matrix, and what groups go through beside members that come and go."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.wire.matrix import Matrix
from tests.wire.programs import Program
from tests.wire.tried import JAVA


class TestJava(Matrix):
    tried = JAVA

    @pytest.fixture
    def turn(self, client: Program, fresh: Callable[[], str]) -> Callable[..., dict[str, list[str]]]:
        """Asks it of a group and a topic of their own."""

        def ask(what: str, kind: str, **more: str) -> dict[str, list[str]]:
            topic = fresh()
            told = client.ask(what, topic=topic, group=f"{topic}-group", protocol=kind, assignor="range", **more)
            return {"topic": [topic], **told}

        return ask

    @pytest.mark.parametrize("kind", ["classic", "consumer"])
    def test_a_static_member_comes_back_to_its_partitions(
        self, turn: Callable[..., dict[str, list[str]]], kind: str
    ) -> None:
        told = turn("static", kind)
        assert told["back"] == told["had"]
        assert len(told["had"]) == 2

    def test_a_pattern_takes_the_topics_that_it_is_of(self, turn: Callable[..., dict[str, list[str]]]) -> None:
        told = turn("pattern", "consumer")
        (topic,) = told["topic"]
        assert told["topics"] == [topic, f"{topic}-too"]

    @pytest.mark.parametrize(("kind", "other"), [("classic", "consumer"), ("consumer", "classic")])
    def test_members_of_both_protocols_share_while_a_group_changes_over(
        self, turn: Callable[..., dict[str, list[str]]], kind: str, other: str
    ) -> None:
        told = turn("change over", kind, other=other)
        assert told["types"] == [kind.title(), "Consumer", other.title()]

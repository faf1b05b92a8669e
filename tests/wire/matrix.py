"""What is asked of every client that has a program in `clients/`: one class of tests, of which each client has its own.

class TestSarama(Matrix):
    tried = SARAMA
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from tests.wire.conftest import stored_codecs
from tests.wire.programs import Program
from tests.wire.tried import Client

TOPIC_ALREADY_EXISTS = 36


def records(count: int) -> list[list[Any]]:
    """What a program writes: offset, key, value, and the header `origin`."""
    return [[number, f"k{number}", f"value {number}", "EWR"] for number in range(count)]


class Matrix:
    """The tests of one client."""

    tried: ClassVar[Client]

    def test_what_is_produced_is_consumed(
        self, client: Program, address: str, fresh: Callable[[], str], codec: str
    ) -> None:
        topic = fresh()  # made by asking for it
        told = client.ask("codec", topic=topic, codec=codec, count=100)
        assert told["offsets"] == list(range(100))
        assert told["records"] == records(100)
        assert stored_codecs(address, topic) == {codec}

    def test_an_idempotent_producer_keeps_order_and_number(self, client: Program, fresh: Callable[[], str]) -> None:
        told = client.ask("idempotent", topic=fresh(), count=500)
        assert told["offsets"] == list(range(500))
        assert told["records"] == records(500)

    def test_two_members_share_and_one_that_leaves_gives_back(
        self, client: Program, fresh: Callable[[], str], protocol: str, assignor: str
    ) -> None:
        topic = fresh()
        told = client.ask("group", topic=topic, group=f"{topic}-group", protocol=protocol, assignor=assignor)
        first, second = told["shared"]
        assert len(first) == len(second) == 2
        assert sorted(first + second) == [0, 1, 2, 3]
        assert sorted(told["seen"]) == [[partition, offset] for partition in range(4) for offset in range(10)]
        assert sorted(told["after"]) == [[partition, 10] for partition in range(4)], "it goes on at what was committed"
        assert told["state"] == "Stable"
        assert told.get("type", protocol.title()) == protocol.title()

    def test_offsets_are_committed_fetched_reset_and_deleted(self, client: Program, fresh: Callable[[], str]) -> None:
        topic = fresh()
        told = client.ask("offsets", topic=topic, group=f"{topic}-group")
        assert told["unknown"] == [-1, -1], "what a group never committed, or an unknown group, is no error"
        assert told["committed"] == [4, 7]
        assert told["reset"] == [2, 7]
        assert told.get("deleted") == ([2, -1] if self.tried.deletes_offsets else None)
        assert told["listed"] == [True, False]

    def test_topics_are_made_described_altered_grown_cut_and_deleted(
        self, client: Program, fresh: Callable[[], str]
    ) -> None:
        told = client.ask("admin", topic=fresh())
        assert told["again"] == TOPIC_ALREADY_EXISTS
        assert told["retention"] == ["60000", "70000"]
        assert told["partitions"] == 3
        assert told["offsets"] == [4, 10]
        assert told["gone"] is True
        assert told["brokers"] == [told["controller"]]

"""What web consoles ask of a cluster, asked by the libraries that they are written with.

None of the consoles themselves comes in a package (Kafbat UI, AKHQ and Redpanda Console are had as images of
containers), so `clients/java/Console.java` makes the calls of the first two, and `clients/franz_go/console.go` those of
the third: cluster, brokers and their directories, topics and settings, groups and their members, messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.wire.programs import Program
from tests.wire.tried import FRANZ_GO, JAVA

NODE = 1


def look(client: Program, topic: str) -> dict[str, Any]:
    """What both see: one broker, a topic of two partitions and ten records, a group of one member who has read them."""
    told = client.ask("console", topic=topic, group=f"{topic}-group", protocol="classic", assignor="range")
    assert told["cluster"]
    assert (told["nodes"], told["controller"], told["coordinator"]) == ([NODE], NODE, NODE)
    assert (told["quotas"], told["users"], told["transactions"], told["reassignments"]) == (0, 0, 0, 0)
    assert sorted(told["sizes"]) == ["0", "1"]
    assert told["sizes"]["0"] > told["sizes"]["1"] == 0
    assert told["listed"] is told["internal"] is told["grouped"] is True
    assert (told["leaders"], told["in sync"]) == ([NODE, NODE], [1, 1])
    assert told["offsets"] == [0, 10, 0]
    assert told["producers"] == [9]
    ((host, partitions),) = told["members"]
    assert (host, partitions) == ("/127.0.0.1", [0, 1])
    assert told["committed"][f"{topic}-0"] == 10
    assert told["unknown"] == 0
    return told


class TestInJava:
    tried = JAVA

    def test_what_it_draws_is_there(self, client: Program, fresh: Callable[[], str]) -> None:
        told = look(client, fresh())
        assert told["acls"] == "SecurityDisabledException"
        assert told["quorum"] == NODE
        assert (told["features"]["metadata.version"], told["features"]["group.version"]) == (30, 1)
        assert set(told["operations"]) >= {"ALTER", "ALTER_CONFIGS", "CREATE", "DESCRIBE", "DESCRIBE_CONFIGS"}
        assert (told["deletes topics"], told["space"]) == ("true", True)
        assert told["retention"] == ["DEFAULT_CONFIG", "LONG", False]
        assert told["since"] == 0
        assert told["last"] == ["value 8", "value 9"]


class TestInGo:
    tried = FRANZ_GO

    def test_what_it_draws_is_there(self, client: Program, fresh: Callable[[], str]) -> None:
        assert look(client, fresh())["asked"] == 1, "the versions of one broker"

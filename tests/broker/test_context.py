"""Whom an address counts for."""

from __future__ import annotations

import pytest

from barnabas.broker.context import Connection, source_of
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.create_topics import CreatableTopic, CreateTopicsRequest
from tests.broker.node.world import World


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("127.9.8.7", "127.0.0.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "::1"),
        ("2001:db8::9", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("local", "local"),
    ],
)
def test_who_has_one_address_has_all_of_its_network(address: str, source: str) -> None:
    assert source_of(address) == source


def test_the_mutation_quota_goes_by_machine() -> None:
    """From twelve addresses of 127.0.0.0/8, which every machine has, 240,000 partitions were made: more than 2 GB."""
    world = World(barnabas_controller_mutation_burst=3, barnabas_controller_mutation_rate=1)

    def create(name: str, address: str) -> int:
        connection = Connection(50, "PLAINTEXT", address, "kafka", world.now_ms)
        sent = world.send(CreateTopicsRequest([CreatableTopic(name, 1, 1)], 1000), 7, connection=connection)
        world.settle()
        return int(sent.response.topics[0].error_code)

    codes = [create(f"t{number}", f"127.0.0.{number + 1}") for number in range(5)]
    assert codes == [0] * 3 + [ErrorCode.THROTTLING_QUOTA_EXCEEDED] * 2
    assert create("other", "10.0.0.1") == 0

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from barnabas.broker.handlers.failures import _BY_ITEM, error_response
from barnabas.broker.handlers.registry import Handlers, NotServed, advertised_versions
from barnabas.protocol.api import BROKER_VERSIONS, REQUESTS, RESPONSES, SPOKEN, VERSIONS, ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.kafka import APIS
from barnabas.protocol.kafka.codec import decode_response, encode_response
from barnabas.protocol.requests.fetch import FetchPartition, FetchRequest, FetchTopic


@pytest.mark.parametrize("key", list(VERSIONS), ids=lambda key: key.name)
def test_every_api_has_a_handler_of_its_stem(key: ApiKey) -> None:
    handler = Handlers()[key]
    assert handler.__module__ == f"barnabas.broker.handlers.{key.name.lower()}"


@pytest.mark.parametrize("key", list(BROKER_VERSIONS), ids=lambda key: key.name)
def test_clients_are_neither_served_nor_told_of_what_brokers_ask_of_each_other(key: ApiKey) -> None:
    with pytest.raises(NotServed, match=r"which brokers alone ask of each other|it wants SASL"):
        Handlers()[key]
    assert key not in {told for told, _, _ in advertised_versions()}


@pytest.mark.parametrize("key", [17, 36])
def test_a_client_set_to_sasl_is_told_what_to_set(key: int) -> None:
    """It would else read that it asks for what brokers alone ask of each other."""
    told = re.escape("it wants SASL, which this listener does not serve; set security.protocol=PLAINTEXT")
    with pytest.raises(NotServed, match=told):
        Handlers()[key]


def test_advertised_is_what_is_served_but_for_produce_and_telemetry() -> None:
    assert list(advertised_versions()) == [
        (key, 0 if key == ApiKey.PRODUCE else first, last)
        for key, (first, last) in sorted(VERSIONS.items())
        if key not in (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
    ]


@pytest.mark.parametrize("key", list(ApiKey), ids=lambda key: key.name)
def test_every_api_can_say_that_it_failed(key: ApiKey) -> None:
    request = REQUESTS[key]()
    field = next((field for field in APIS[key].response.fields if field.name == "error_code"), None)
    for version in range(SPOKEN[key][0], SPOKEN[key][1] + 1):
        said_once = field is not None and field.is_in(version)
        assert said_once or key in _BY_ITEM, (
            f"v{version} has no error of its own: failures.py must say it for each item"
        )
        response = error_response(key, request, ErrorCode.UNKNOWN_SERVER_ERROR)
        encoded = b"".join(encode_response(key, version, 1, response))
        assert decode_response(key, version, memoryview(encoded)[4:])[0] == 1


def test_a_fetch_that_failed_says_so_at_versions_without_an_error_of_its_own() -> None:
    """Up to v6 an error stands in partitions alone: an answer without them read as one that has nothing new."""
    request = FetchRequest(topics=[FetchTopic("t", partitions=[FetchPartition(0), FetchPartition(3)])])
    response = error_response(ApiKey.FETCH, request, ErrorCode.UNKNOWN_SERVER_ERROR)
    encoded = b"".join(encode_response(ApiKey.FETCH, 6, 1, response))
    (topic,) = decode_response(ApiKey.FETCH, 6, memoryview(encoded)[4:])[1].responses
    assert [(part.partition_index, part.error_code) for part in topic.partitions] == [(0, -1), (3, -1)]


@pytest.mark.parametrize("key", list(ApiKey), ids=lambda key: key.name)
def test_every_answer_can_be_asked_how_long_to_wait(key: ApiKey) -> None:
    """The host asks each one before it leaves; DescribeQuorum has no such field at any version."""
    assert RESPONSES[key]().throttle_time_ms == 0


def test_an_error_loads_the_messages_of_its_own_api_alone() -> None:
    """The first group of a broker waited 40 ms for those of all the others, and kept 0.7 MB of them."""
    script = (
        "import sys\n"
        "from barnabas.broker.handlers.failures import error_response\n"
        "from barnabas.protocol.api import REQUESTS, ApiKey\n"
        "error_response(ApiKey.OFFSET_COMMIT, REQUESTS[ApiKey.OFFSET_COMMIT](), 16)\n"
        "room = 'barnabas.protocol.requests.'\n"
        "print(*(name.removeprefix(room) for name in sys.modules if name.startswith(room)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["offset_commit"]


def test_classic_groups_load_nothing_of_how_the_consumer_protocol_works() -> None:
    """Its assignors, its messages and its records: a third of what a broker's first group waited for."""
    script = (
        "import sys\n"
        "from barnabas.broker.handlers.registry import Handlers\n"
        "from barnabas.protocol.api import ApiKey\n"
        "for key in (ApiKey.FIND_COORDINATOR, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT):\n"
        "    Handlers()[key]\n"
        "import barnabas.broker.group.loading\n"
        "room = 'barnabas.broker.group.consumer.'\n"
        "print(*sorted(name.removeprefix(room) for name in sys.modules if name.startswith(room)))\n"
        "print('barnabas.protocol.kafka.coordinator.consumer_groups' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["group replaying topics values", "False"]

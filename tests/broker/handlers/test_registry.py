from __future__ import annotations

import pytest

from barnabas.broker.handlers.failures import error_response
from barnabas.broker.handlers.registry import SERVED, Handlers, advertised_versions
from barnabas.protocol.api import REQUESTS, STEMS, ApiKey
from barnabas.protocol.kafka import APIS
from barnabas.protocol.kafka.codec import decode_response, encode_response


@pytest.mark.parametrize("key", list(ApiKey), ids=lambda key: key.name)
def test_the_codec_reads_what_is_served(key: ApiKey) -> None:
    served = SERVED[key]
    assert served.stem == STEMS[key]
    assert (served.first, served.last) == APIS[key].versions
    assert callable(Handlers()[key])


def test_advertised_is_what_is_served_but_for_produce() -> None:
    assert (0, 0, 13) in advertised_versions()
    assert [entry for entry in advertised_versions() if entry[1] != SERVED[ApiKey(entry[0])].first] == [(0, 0, 13)]


@pytest.mark.parametrize("key", list(ApiKey), ids=lambda key: key.name)
def test_every_api_can_say_that_it_failed(key: ApiKey) -> None:
    request = REQUESTS[key]()
    for version in range(SERVED[key].first, SERVED[key].last + 1):
        encoded = b"".join(encode_response(key, version, 1, error_response(key, request, -1)))
        assert decode_response(key, version, memoryview(encoded)[4:])[0] == 1

"""The answer to ApiVersions that many are told has the bytes of one that is written anew, in both dialects."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.protocol.api import VERSIONS, ApiKey, RequestHeader
from barnabas.protocol.kafka import codec as kafka
from barnabas.protocol.native import codec as native
from barnabas.protocol.requests.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SharedApiVersionsResponse,
    SupportedFeatureKey,
)

KEY = ApiKey.API_VERSIONS
FIRST, LAST = VERSIONS[KEY]
ALL = list(range(FIRST, LAST + 1))


def told(epoch: int = 7) -> dict[str, Any]:
    return {
        "api_keys": [ApiVersion(0, 0, 13), ApiVersion(18, FIRST, LAST)],
        "supported_features": [SupportedFeatureKey("some", 0, 2)],
        "finalized_features_epoch": epoch,
        "finalized_features": [FinalizedFeatureKey("some", 1, 1)],
    }


@pytest.mark.parametrize("dialect", [kafka, native], ids=["kafka", "native"])
@pytest.mark.parametrize("version", ALL)
def test_it_has_the_bytes_of_one_that_is_written_anew(version: int, dialect: Any) -> None:
    kafka._find_request_decoder(RequestHeader(KEY, version, 1, None))
    for epoch in (7, 2**40):
        shared, plain = SharedApiVersionsResponse(**told(epoch)), ApiVersionsResponse(**told(epoch))
        assert shared == plain
        assert plain == shared
        for number in (1, 200, -(2**31), 2**31 - 1):
            again, anew = (b"".join(dialect.encode_response(KEY, version, number, one)) for one in (shared, plain))
            assert again == anew
            assert dialect.decode_response(KEY, version, memoryview(again)[4:])[0] == number
        assert len(shared.written) == 1, "it was written once"


def test_those_that_differ_are_not_equal() -> None:
    assert SharedApiVersionsResponse(**told()) != ApiVersionsResponse(**told(8))
    assert SharedApiVersionsResponse(**told()) != "another"

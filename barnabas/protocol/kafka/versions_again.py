"""A shorter way for the answer to ApiVersions, which is the same for all who ask at one version.

length i32, correlation_id i32 | error_code ... the end     kept as bytes, with the answer itself
"""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import Final

from barnabas.protocol.api import ApiKey
from barnabas.protocol.ids import Buffer
from barnabas.protocol.kafka import APIS
from barnabas.protocol.kafka.compile import Encoder, compile_encoder
from barnabas.protocol.requests.api_versions import ApiVersionsResponse, SharedApiVersionsResponse

_HEAD: Final = Struct(">ii").pack


@cache
def _encoder(version: int) -> Encoder:
    return compile_encoder(APIS[ApiKey.API_VERSIONS], version, response=True)


def answer(version: int, correlation_id: int, response: ApiVersionsResponse) -> list[Buffer] | None:
    """The frame of an answer that many are told; None where the compiled encoder has to say it.

    Raises:
        EncodeError: the response holds what this version cannot carry.
    """
    if type(response) is not SharedApiVersionsResponse:
        return None
    body = response.written.get(version)
    if body is None:
        body = response.written[version] = b"".join(_encoder(version)(bytearray(), response))
    return [_HEAD(4 + len(body), correlation_id) + body]

"""What both ends of a connection speak of each API: asked for with ApiVersions, once a connection (KIP-35, KIP-511).

Clients and brokers find it out in the same way: whoever is newer asks in what the older one knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from barnabas.protocol.api import SPOKEN, VERSIONS, ApiKey
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.api_versions import ApiVersionsRequest, ApiVersionsResponse

SOFTWARE_NAME: Final = "barnabas"
SOFTWARE_VERSION: Final = "0.1.0"

ASKED_FIRST: Final = VERSIONS[ApiKey.API_VERSIONS][1]
"""The version in which the question itself is asked first."""
Served: TypeAlias = Mapping[int, tuple[int, int]]
"""First and last version of each API that the other end serves."""

_REFUSED: Final = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")


def question() -> ApiVersionsRequest:
    """What is asked first on a connection."""
    return ApiVersionsRequest(SOFTWARE_NAME, SOFTWARE_VERSION)


def answered_in(frame: memoryview, asked: int) -> int:
    """In which version an answer to the question is written (Kafka's dialect; the frame is without its length).

    Who does not know the version that was `asked` answers with error 35 in the form of version 0.
    """
    return 0 if bytes(frame[4:6]) == _REFUSED else asked


def told(response: ApiVersionsResponse, asked: int) -> dict[int, tuple[int, int]] | int:
    """What the other end serves; or, where it does not know the version that was `asked`, the one to ask again in.

    Raises:
        KafkaError: it refuses to say.
    """
    served = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION and asked > 0:
        return min(served.get(ApiKey.API_VERSIONS, (0, 0))[1], asked - 1)
    if response.error_code:
        raise KafkaError(response.error_code, "ApiVersions")
    return served


def common(theirs: Served, key: int, newest: int | None = None) -> int | None:
    """The newest version of an API that both speak, `newest` at most; None where there is none."""
    span = theirs.get(key)
    if span is None:
        return None
    ours = SPOKEN[key]
    high = min(ours[1], span[1], ours[1] if newest is None else newest)
    return high if high >= max(ours[0], span[0]) else None


def missing(who: str, theirs: Served, key: int) -> str:
    """Why there is no version in common, for people."""
    name, span, ours = ApiKey(key).name, theirs.get(key), SPOKEN[key]
    if span is None:
        return f"{who} does not serve {name}: it is older than this release, or has it not"
    age = "older" if span[1] < ours[0] else "newer"
    told = f"{who} serves {name} at versions {span[0]} to {span[1]}"
    return f"{told}, and this release speaks {ours[0]} to {ours[1]}: it is {age}"

r"""ApiVersions (18). A real broker answers it before anything else, whatever version is asked.

- A version above the highest served is answered with error 35 in the form of version 0, with one entry: this API
  (KIP-511). The codec does that, for such a request cannot be read.
- v3 on carries the client's software name and version, each `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?`, else
  INVALID_REQUEST.
- Produce is advertised from 0 and refused up to 2: older librdkafka sends uncompressed otherwise (KAFKA-18659).
- Supported features are those of the release; finalized ones those of the metadata (KIP-584), whose
  epoch is the offset of the last record that was heard of.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypeAlias

from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.registry import advertised_versions
from barnabas.broker.handlers.services import Services
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SharedApiVersionsResponse,
    SupportedFeatureKey,
)

Span: TypeAlias = tuple[str, tuple[int, int]]
Level: TypeAlias = tuple[str, int]

_LEVEL_0_FROM: Final = 4
"""Before, clients may stumble over a feature that can be off, and are not told of it (KIP-1022)."""

SOFTWARE_CHARS_MAX: Final = 255
"""Of a client's name, and of its version, as they are kept with its connection; Kafka keeps all that was sent."""
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(services: Services, request: ApiVersionsRequest, context: RequestContext, now_ms: int) -> bool:
    """Answer with what is served."""
    if context.api_version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            context.respond(ApiVersionsResponse(ErrorCode.INVALID_REQUEST))
            return True
        context.connection.client_software_name = name[:SOFTWARE_CHARS_MAX]
        context.connection.client_software_version = version[:SOFTWARE_CHARS_MAX]
    finalized = tuple(sorted(services.image.features.items()))
    epoch = services.metadata_end()[0] - 1 if finalized else -1
    spans = tuple(services.features.items())
    level_0 = context.api_version >= _LEVEL_0_FROM
    served = tuple(services.peer_versions.items()) if context.connection.peer >= 0 else None
    context.respond(_told(served, level_0, spans, epoch, finalized))
    return True


@lru_cache(maxsize=8)
def _told(
    peers: tuple[tuple[int, tuple[int, int]], ...] | None,
    level_0: bool,
    spans: tuple[Span, ...],
    epoch: int,
    finalized: tuple[Level, ...],
) -> SharedApiVersionsResponse:
    """The answer to all who are told the same; `peers` is what brokers are served, None for clients."""
    served = advertised_versions() if peers is None else [(key, *span) for key, span in peers]
    return SharedApiVersionsResponse(
        api_keys=[ApiVersion(key, first, last) for key, first, last in served],
        supported_features=[SupportedFeatureKey(name, low, high) for name, (low, high) in spans if low or level_0],
        finalized_features_epoch=epoch,
        finalized_features=[FinalizedFeatureKey(name, level, level) for name, level in finalized],
    )

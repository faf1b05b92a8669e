"""UpdateFeatures (57, KIP-584). A real broker has the controller raise or lower the levels of features.

Each feature here has the level that this release writes, and keeps it: what asks for that level succeeds, all else is
INVALID_UPDATE_VERSION, for all features of the request, with the reason of the first (KIP-1022). Kafka goes down to an
earlier level when it is told to. v0 says "downgrade" by a flag, v1 on by a type. A feature named twice is answered
once.
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.cluster.features import SUPPORTED_FEATURES
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import CLUSTER, Operation, Services
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.requests.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_TYPED_FROM: Final = 1
_RESULTS_UNTIL: Final = 1
_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
_FAILED: Final = "The update failed for all features since the following feature had an error: "


def handle(services: Services, request: UpdateFeaturesRequest, context: RequestContext, now_ms: int) -> None:
    """Say whether the features have the levels asked for."""
    if not services.authorise(context.connection.principal, Operation.ALTER, CLUSTER):
        context.respond(UpdateFeaturesResponse(0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
        return
    results = []
    for one in {update.feature: update for update in request.feature_updates}.values():
        refusal = _refusal(services, one, _kind(one, context))
        if refusal:
            what = f"Invalid update version {one.max_version_level} for feature {one.feature}. {refusal}"
            context.respond(UpdateFeaturesResponse(0, ErrorCode.INVALID_UPDATE_VERSION, _FAILED + what))
            return
        results.append(UpdatableFeatureResult(one.feature, error_message="NONE"))
    told = results if context.api_version <= _RESULTS_UNTIL else []
    context.respond(UpdateFeaturesResponse(error_message=None, results=told))


def _kind(update: FeatureUpdateKey, context: RequestContext) -> int:
    if context.api_version >= _TYPED_FROM:
        return update.upgrade_type
    return _SAFE_DOWNGRADE if update.allow_downgrade else _UPGRADE


def _refusal(services: Services, update: FeatureUpdateKey, kind: int) -> str:
    """Why a feature cannot have this level; empty where it has it."""
    level, node = update.max_version_level, services.node_id
    supported = SUPPORTED_FEATURES.get(update.feature)
    current = services.image.features.get(update.feature, 0)
    if kind not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if supported is None:
        if level == 0:
            return f"Feature {update.feature} not found."
        return f"Local controller {node} does not support this feature."
    if not supported[0] <= level <= supported[1]:
        return f"Local controller {node} only supports versions {supported[0]}-{supported[1]}"
    if level < current and kind == _UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    return "" if level == current else f"This release keeps it at version {current}."

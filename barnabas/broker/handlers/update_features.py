"""UpdateFeatures (57, KIP-584). A real broker has the controller raise or lower the levels of features.

All features of a request change, or none; what is refused is INVALID_UPDATE_VERSION with the reason of the first
(KIP-1022; the rules stand in `cluster/features`). v0 says "downgrade" by a flag, v1 on by a type; up to v1 each feature
is answered where all succeed. A feature named twice is answered once, and the last level named counts.
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.cluster.features import SAFE_DOWNGRADE, UPGRADE, Update
from barnabas.broker.context import RequestContext
from barnabas.broker.handlers.services import CLUSTER, Operation, Services
from barnabas.protocol.errors import ErrorCode, KafkaError
from barnabas.protocol.requests.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_TYPED_FROM: Final = 1
_RESULTS_UNTIL: Final = 1
_FAILED: Final = "The update failed for all features since the following feature had an error: "


def handle(services: Services, request: UpdateFeaturesRequest, context: RequestContext, now_ms: int) -> None:
    """Have the levels changed; the answer comes once that is committed."""
    if not services.authorise(context.connection.principal, Operation.ALTER, CLUSTER):
        context.respond(UpdateFeaturesResponse(0, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None))
        return
    named = {
        one.feature: Update(one.feature, one.max_version_level, _how(one, context)) for one in request.feature_updates
    }

    def done(fault: KafkaError | None) -> None:
        if fault is None:
            told = [UpdatableFeatureResult(name, error_message="NONE") for name in named]
            results = told if context.api_version <= _RESULTS_UNTIL else []
            context.respond(UpdateFeaturesResponse(error_message=None, results=results))
        elif fault.code == ErrorCode.INVALID_UPDATE_VERSION:
            context.respond(UpdateFeaturesResponse(0, fault.code, _FAILED + fault.detail))
        else:
            context.respond(UpdateFeaturesResponse(0, fault.code, fault.detail or None))

    services.controller.update_features(list(named.values()), request.validate_only, done)


def _how(update: FeatureUpdateKey, context: RequestContext) -> int:
    if context.api_version >= _TYPED_FROM:
        return update.upgrade_type
    return SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE

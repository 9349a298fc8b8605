"""UpdateFeatures, key 57: set the finalized level of features.

Behaviour
- Levels are part of the software and equal on every broker, so any broker can answer. Requesting the current level
  succeeds. Any other level is INVALID_UPDATE_VERSION with the reason, after Kafka's own checks.
- One rejected feature rejects the request: the error is at the top level, and no features are listed.
- `validate_only` makes no difference, since nothing ever changes.

Version notes
- 0 whether to allow a downgrade, flexible; 1 the kind of update and `validate_only` (KIP-584); 2 the response no longer
  lists features (KIP-1022).
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.loggers import FEATURES, LOWEST_LEVELS
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.slow_lane import SLICE, Work
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ottla.security.acls import ALTER_CLUSTER

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
_KINDS_SINCE = 1


def handle(
    broker: Broker, request: UpdateFeaturesRequest, context: RequestContext
) -> Work[UpdateFeaturesResponse]:
    context.require(ALTER_CLUSTER)
    response = UpdateFeaturesResponse(error_message=None)
    for update in request.feature_updates:
        kind = update.upgrade_type
        if context.version < _KINDS_SINCE:
            kind = _SAFE_DOWNGRADE if update.allow_downgrade else _UPGRADE
        reason = _refusal(broker.node_id, update, kind)
        if reason is not None:
            return UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION,
                error_message="The update failed for all features since the following feature had an error: "
                f"Invalid update version {update.max_version_level} for feature {update.feature}. {reason}",
            )
        response.results.append(UpdatableFeatureResult(feature=update.feature, error_message="NONE"))
        if not len(response.results) % SLICE:
            yield None
    return response


def _refusal(node_id: int, update: FeatureUpdateKey, kind: int) -> str | None:
    level = update.max_version_level
    has = FEATURES.get(update.feature)
    if kind not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if has is None and level == 0:
        return f"Feature {update.feature} not found."
    if has is None:
        return f"Local controller {node_id} does not support this feature."
    if level > has:
        return (
            f"Local controller {node_id} only supports versions {LOWEST_LEVELS.get(update.feature, 0)}-{has}"
        )
    if level == has:
        return None
    if kind == _UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    return f"It comes with the brokers of this cluster, which have {has} and cannot change it."

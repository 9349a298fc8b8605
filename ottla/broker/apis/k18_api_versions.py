"""ApiVersions, key 18: list the served APIs and their versions.

Behaviour
- Every API with a module here is listed, with the versions declared by its messages.
- Produce is listed from version 0 although versions below 3 are rejected: librdkafka 2.0 reads a higher minimum as "no
  compression".
- Ottla's own APIs (keys from 10000 on) are listed only for clients that identify as ottla.
- `ottla.broker.loggers` has the finalized features.
- A request in a newer version is answered in version 0 with UNSUPPORTED_VERSION and the full list. The connection stays
  open.
- A client that names the cluster or the broker it means gets REBOOTSTRAP_REQUIRED if it reached another one (KIP-1242):
  addresses move between machines.

Version notes
- 1 throttle time; 3 flexible, client software name and version, features; 4 unchanged, but features may start at
  version 0; 5 the cluster and the broker that the client means.
"""

from __future__ import annotations

import re

from ottla.broker.broker import Broker
from ottla.broker.loggers import FEATURES, LOWEST_LEVELS
from ottla.broker.network.request_context import RequestContext
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

_PRODUCE = 0
_ANY_NODE = -1
_OURS = "ottla"
_FIRST_PRIVATE = 10_000
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(broker: Broker, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.unsupported:
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_served(broker))
    if context.version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if _is_misrouted(broker, request):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
    if context.version >= 3:
        context.connection.client_software = (request.client_software_name, request.client_software_version)
    return ApiVersionsResponse(
        api_keys=_served(broker, private=request.client_software_name == _OURS),
        supported_features=[
            SupportedFeatureKey(
                name=name,
                # Version 3 clients reject a feature with minimum 0 (KIP-1022).
                min_version=LOWEST_LEVELS.get(name, 0 if context.version >= 4 else 1),
                max_version=level,
            )
            for name, level in FEATURES.items()
        ],
        finalized_features_epoch=0,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in FEATURES.items()
        ],
    )


def _is_misrouted(broker: Broker, request: ApiVersionsRequest) -> bool:
    return request.cluster_id not in (None, broker.cluster_id) or request.node_id not in (
        _ANY_NODE,
        broker.node_id,
    )


def _served(broker: Broker, *, private: bool = False) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=key, min_version=0 if key == _PRODUCE else low, max_version=high)
        for key, (low, high) in broker.dispatcher.versions().items()
        if private or key < _FIRST_PRIVATE
    ]

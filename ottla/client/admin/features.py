"""Cluster features: supported and finalized levels, and changing them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.client.connection import Connection
from ottla.client.errors import ClientError, in_kafkas_words
from ottla.protocol.messages.cluster import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


@dataclass(frozen=True, slots=True)
class Feature:
    name: str
    min_level: int
    max_level: int
    finalized: int


def describe_features(connection: Connection) -> tuple[list[Feature], int | None]:
    from ottla import __version__

    answer = connection.request(
        ApiVersionsRequest(client_software_name="ottla", client_software_version=__version__),
        ApiVersionsResponse,
    )
    finalized = {each.name: int(each.max_version_level) for each in answer.finalized_features}
    features = [
        Feature(each.name, each.min_version, each.max_version, finalized.get(each.name, 0))
        for each in sorted(answer.supported_features, key=lambda each: str(each.name))
    ]
    return features, answer.finalized_features_epoch if answer.finalized_features_epoch >= 0 else None


def update_features(
    connection: Connection, levels: Mapping[str, int], kind: int, *, validate_only: bool
) -> dict[str, ClientError | None]:
    """Return the outcome for each feature. `kind`: 1 to upgrade, 2 or 3 for a safe or an unsafe downgrade."""
    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind, allow_downgrade=kind != 1)
        for name, level in levels.items()
    ]
    answer = connection.request(
        UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only), UpdateFeaturesResponse
    )
    if answer.error_code:
        return dict.fromkeys(levels, in_kafkas_words(answer.error_code, answer.error_message))
    results: dict[str, ClientError | None] = dict.fromkeys(levels)
    for each in answer.results:
        if each.error_code:
            results[each.feature] = in_kafkas_words(each.error_code, each.error_message)
    return results

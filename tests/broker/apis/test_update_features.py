"""UpdateFeatures on the wire. Apache Kafka 4.3 gives the same responses to requests that change no level."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import ApiVersionsRequest, FeatureUpdateKey, UpdateFeaturesRequest

INVALID = ErrorCode.INVALID_UPDATE_VERSION
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def update(client: Any, *updates: FeatureUpdateKey, version: int = 1) -> Any:
    return client.call(
        UpdateFeaturesRequest(feature_updates=list(updates), validate_only=version > 0), version
    )


def feature(name: str, level: int, kind: int = UPGRADE) -> FeatureUpdateKey:
    return FeatureUpdateKey(
        feature=name, max_version_level=level, upgrade_type=kind, allow_downgrade=kind != UPGRADE
    )


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("kind", [UPGRADE, SAFE_DOWNGRADE])
def test_the_level_that_a_feature_has_is_accepted(client: Any, version: int, kind: int) -> None:
    answer = client.call(
        ApiVersionsRequest(client_software_name="test", client_software_version="1"),
    )
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    answer = update(client, *(feature(name, level, kind) for name, level in levels.items()), version=version)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    listed = {each.feature: (each.error_code, each.error_message) for each in answer.results}
    assert listed == ({} if version == 2 else dict.fromkeys(levels, (ErrorCode.NONE, "NONE")))


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (feature("group.version", 7), "Local controller 0 only supports versions 0-1"),
        (feature("nope", 1), "Local controller 0 does not support this feature."),
        (feature("nope", 0, SAFE_DOWNGRADE), "Feature nope not found."),
        (feature("group.version", -1, SAFE_DOWNGRADE), "A feature version cannot be less than 0."),
        (feature("group.version", 1, 0), "The controller does not support the given upgrade type."),
        (feature("group.version", 1, 4), "The controller does not support the given upgrade type."),
        (feature("group.version", 0), "Can't downgrade the version of this feature without setting the upgrade type to "
         "either safe or unsafe downgrade."),
        (feature("group.version", 0, UNSAFE_DOWNGRADE), "It comes with the brokers of this cluster, which have 1 and "
         "cannot change it."),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_another_level_is_refused_with_the_reason(client: Any, asked: FeatureUpdateKey, reason: str) -> None:
    for version in (1, 2):
        answer = update(client, feature("share.version", 2), asked, version=version)
        assert answer.error_code == INVALID
        assert answer.error_message == (
            "The update failed for all features since the following feature had an error: Invalid update version "
            f"{asked.max_version_level} for feature {asked.feature}. {reason}"
        )
        assert answer.results == []


def test_version_0_says_only_whether_a_downgrade_is_allowed(client: Any) -> None:
    up, down = (update(client, feature("group.version", 0, kind), version=0) for kind in (1, 2))
    assert "Can't downgrade" in up.error_message
    assert "cannot change it" in down.error_message


def test_nothing_to_update_is_fine(client: Any) -> None:
    assert update(client).error_code == ErrorCode.NONE

"""Group configs, within the broker's limits."""

from __future__ import annotations

import pytest

from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.configs.group_configs import RECORD_LOCK_DURATION, validate_group_configs
from ottla.protocol.errors import ErrorCode, KafkaError

BROKER = BrokerConfig({"log.dirs": "/data"})


@pytest.mark.parametrize("value", ["15000", "30000", "60000"])
def test_a_lock_between_the_brokers_least_and_most_is_taken(value: str) -> None:
    validate_group_configs(BROKER, {RECORD_LOCK_DURATION: value})


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("14999", "greater than or equal to group.share.min.record.lock.duration.ms"),
        ("60001", "less than or equal to group.share.max.record.lock.duration.ms"),
        ("999", "at least 1000"),
    ],
)
def test_a_lock_beyond_them_is_refused(value: str, reason: str) -> None:
    with pytest.raises(KafkaError, match=reason) as refused:
        validate_group_configs(BROKER, {RECORD_LOCK_DURATION: value})
    assert refused.value.code == ErrorCode.INVALID_CONFIG


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(KafkaError, match=r"Unknown group config name: share\.colour"):
        validate_group_configs(BROKER, {"share.colour": "blue"})

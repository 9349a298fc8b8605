"""`group.consumer.assignors`: Kafka's own assignors, and a reason for others."""

from __future__ import annotations

import pytest

from ottla.broker.coordinators.settings import assignors
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError

RANGE = "org.apache.kafka.coordinator.group.assignor.RangeAssignor"


def test_names_and_classes_of_kafkas_own_are_known() -> None:
    assert assignors(BrokerConfig.embedded({"group.consumer.assignors": f"{RANGE},uniform"})) == (
        "range",
        "uniform",
    )


def test_a_class_of_somebody_else_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError, match=r"com\.example\.Mine.* cannot load Java classes"):
        BrokerConfig.embedded({"group.consumer.assignors": "uniform,com.example.Mine"})

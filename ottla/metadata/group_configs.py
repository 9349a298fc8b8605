"""Configurations of single groups: what a share group may set for itself."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ottla.metadata.broker_config import BrokerConfig
from ottla.metadata.config_defs import (
    INT,
    STRING,
    ConfigDef,
    InvalidValue,
    OneOf,
    Range,
    by_name,
    parse_value,
)
from ottla.protocol.errors import ErrorCode, KafkaError

AUTO_OFFSET_RESET = "share.auto.offset.reset"
ISOLATION_LEVEL = "share.isolation.level"
RECORD_LOCK_DURATION = "share.record.lock.duration.ms"

GROUP_RESOURCE_CONFIGS = by_name(
    [
        ConfigDef(
            AUTO_OFFSET_RESET,
            STRING,
            "latest",
            "Where a share group begins to read: latest, earliest, or by_duration:PnDTnHnMn.nS before now.",
        ),
        ConfigDef(
            ISOLATION_LEVEL,
            STRING,
            "read_uncommitted",
            "Whether a share group sees records of open and aborted transactions.",
            OneOf(("read_committed", "read_uncommitted")),
        ),
        ConfigDef(
            RECORD_LOCK_DURATION,
            INT,
            "30000",
            "How long a record is locked for the member that it was handed to.",
            Range(1000, 3_600_000),
        ),
    ]
)

# The broker's setting that a group overrides.
GROUP_SYNONYMS = {RECORD_LOCK_DURATION: "group.share.record.lock.duration.ms"}

# The broker's settings that say how far a group may go, least and most.
_BOUNDS = {
    RECORD_LOCK_DURATION: (
        "group.share.min.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    )
}

_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)
_BY_DURATION = "by_duration:"


def validate_group_configs(broker: BrokerConfig, configs: Mapping[str, str]) -> None:
    """Refuse what Kafka refuses when a group is altered: KafkaError(INVALID_CONFIG)."""
    for name, text in configs.items():
        definition = GROUP_RESOURCE_CONFIGS.get(name)
        if definition is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
        try:
            value = parse_value(definition, text)
            if name == AUTO_OFFSET_RESET:
                parse_offset_reset(text)
        except InvalidValue as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
        except ValueError:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"Invalid value {text} for configuration {name}: give latest, earliest or by_duration:DURATION.",
            ) from None
        if name in _BOUNDS and isinstance(value, int):
            _check_bounds(broker, name, value)


def _check_bounds(broker: BrokerConfig, name: str, value: int) -> None:
    least, most = _BOUNDS[name]
    if value < broker.get_int(least):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be greater than or equal to {least}")
    if value > broker.get_int(most):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be less than or equal to {most}")


def parse_offset_reset(text: str) -> str | int:
    """'latest', 'earliest', or how many milliseconds before now. Raises ValueError."""
    if text in ("latest", "earliest"):
        return text
    if not text.startswith(_BY_DURATION):
        raise ValueError(text)
    found = _DURATION.fullmatch(text.removeprefix(_BY_DURATION))
    if found is None or not any(found.groups()):
        raise ValueError(text)
    days, hours, minutes = (int(found[name] or 0) for name in ("days", "hours", "minutes"))
    seconds = float(found["seconds"] or 0)
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)

"""Settings of groups and of client metrics subscriptions."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.configs.broker_config_table import BROKER_CONFIGS
from ottla.metadata.configs.config_defs import (
    BOOLEAN,
    INT,
    LIST,
    STRING,
    InvalidValue,
    OneOf,
    Range,
    Row,
    Validator,
    Value,
    config_table,
    parse_value,
    refuse_empty,
)
from ottla.protocol.errors import ErrorCode, KafkaError

# Configurations of single consumer groups, share groups and streams groups.

AUTO_OFFSET_RESET = "share.auto.offset.reset"
ISOLATION_LEVEL = "share.isolation.level"
RENEW_ACKNOWLEDGE_ENABLE = "share.renew.acknowledge.enable"
RECORD_LOCK_DURATION = "share.record.lock.duration.ms"
DELIVERY_COUNT_LIMIT = "share.delivery.count.limit"
PARTITION_MAX_RECORD_LOCKS = "share.partition.max.record.locks"
DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
DEAD_LETTER_COPY_RECORD = "errors.deadletterqueue.copy.record.enable"
_STANDBY_REPLICAS = "streams.num.standby.replicas"
_INITIAL_DELAY = "streams.initial.rebalance.delay.ms"

# Group configs that override a broker setting, with their lower bounds, in Kafka's order of checks.
_LEAST = {
    "consumer.heartbeat.interval.ms": 1,
    "consumer.session.timeout.ms": 1,
    "consumer.assignment.interval.ms": 0,
    "share.heartbeat.interval.ms": 1,
    "share.session.timeout.ms": 1,
    RECORD_LOCK_DURATION: 1000,
    DELIVERY_COUNT_LIMIT: 2,
    PARTITION_MAX_RECORD_LOCKS: 100,
    "share.assignment.interval.ms": 0,
    "streams.heartbeat.interval.ms": 1,
    "streams.session.timeout.ms": 1,
    _STANDBY_REPLICAS: 0,
    "streams.assignment.interval.ms": 0,
    _INITIAL_DELAY: 0,
}

# Broker settings that apply to groups without their own.
GROUP_SYNONYMS = {name: f"group.{name}" for name in _LEAST}


def _bounds(name: str) -> tuple[str | None, str | None]:
    if name == _INITIAL_DELAY:
        return None, None
    if name == _STANDBY_REPLICAS:
        return None, f"group.{name.replace('num', 'max')}"
    group_type, _, what = name.partition(".")
    return f"group.{group_type}.min.{what}", f"group.{group_type}.max.{what}"


GROUP_BOUNDS = {name: _bounds(name) for name in _LEAST}


class _OffsetReset(Validator):
    def check(self, name: str, value: Value) -> None:
        assert isinstance(value, str)
        try:
            parse_offset_reset(value)
        except ValueError:
            reason = (
                f"Invalid value `{value}` for configuration {name}. The value must be either 'earliest', 'latest' "
                "or of the format 'by_duration:<PnDTnHnMn.nS>'."
            )
            raise InvalidValue.of(name, value, reason) from None


def _overriding(name: str, least: int) -> Row:
    over = BROKER_CONFIGS[GROUP_SYNONYMS[name]]
    return name, over.type, over.default, Range(least), over.documentation


# fmt: off
GROUP_RESOURCE_CONFIGS = config_table([
    *(_overriding(name, least) for name, least in _LEAST.items()),
    (AUTO_OFFSET_RESET, STRING, "latest", _OffsetReset(),
     "Where a share group begins to read: latest, earliest, or by_duration:PnDTnHnMn.nS before now."),
    (ISOLATION_LEVEL, STRING, "read_uncommitted", OneOf(("read_committed", "read_uncommitted")),
     "Whether a share group sees records of open and aborted transactions."),
    (RENEW_ACKNOWLEDGE_ENABLE, BOOLEAN, "true", None,
     "Whether members of a share group may lock records for longer while they work on them."),
    (DEAD_LETTER_TOPIC, STRING, "", None,
     "The topic for dead letters of a share group: records that members rejected, or that were delivered too often."),
    (DEAD_LETTER_COPY_RECORD, BOOLEAN, "false", None,
     "Whether a dead letter carries the key and the value of the record, beside the headers that say where it is."),
])
# fmt: on

_DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.IGNORECASE,
)
_BY_DURATION = "by_duration:"


def validate_group_configs(broker: BrokerConfig, configs: Mapping[str, str]) -> None:
    """Reject changes that Kafka rejects for a group. Raises KafkaError(INVALID_CONFIG)."""
    for name in configs:
        if name not in GROUP_RESOURCE_CONFIGS:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
    try:
        values = {name: parse_value(GROUP_RESOURCE_CONFIGS[name], text) for name, text in configs.items()}
    except InvalidValue as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
    for name, (least, most) in GROUP_BOUNDS.items():
        value = values.get(name)
        if not isinstance(value, int):
            continue
        if least is not None and value < broker.get_int(least):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be greater than or equal to {least}")
        if most is not None and value > broker.get_int(most):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be less than or equal to {most}")
    for group_type in ("consumer", "share", "streams"):
        session, heartbeat = f"{group_type}.session.timeout.ms", f"{group_type}.heartbeat.interval.ms"
        if session not in values and heartbeat not in values:
            continue
        if group_int(broker, configs, session) <= group_int(broker, configs, heartbeat):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{session} must be greater than {heartbeat}")


def group_value(broker: BrokerConfig, own: Mapping[str, str], name: str) -> Value:
    """Return the effective value: the group's own within the broker's current bounds, or the broker's."""
    definition = GROUP_RESOURCE_CONFIGS[name]
    if name in own:
        try:
            value = parse_value(definition, own[name])
        except InvalidValue:
            pass  # written by another version; the default is the better guess
        else:
            return _within(broker, name, value) if isinstance(value, int) else value
    if name in GROUP_SYNONYMS:
        return broker.get(GROUP_SYNONYMS[name])
    return parse_value(definition, definition.default)


def group_int(broker: BrokerConfig, own: Mapping[str, str], name: str) -> int:
    value = group_value(broker, own, name)
    assert isinstance(value, int)
    return value


def _within(broker: BrokerConfig, name: str, value: int) -> int:
    least, most = GROUP_BOUNDS.get(name, (None, None))
    if least is not None:
        value = max(value, broker.get_int(least))
    return value if most is None else min(value, broker.get_int(most))


def parse_offset_reset(text: str) -> str | int:
    """Return 'latest', 'earliest', or a number of milliseconds before now. Raises ValueError."""
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


# Client metrics subscriptions (KIP-714): requested metrics, matching clients and push interval.
#
# Brokers request metrics from clients only if a receiver exists: see `ottla.broker.telemetry`.

_INTERVAL = "interval.ms"
_MATCH = "match"
_LEAST_MS, _MOST_MS = 100, 3_600_000
_CRITERIA = frozenset(
    {
        "client_id",
        "client_instance_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


class _NotEmpty(Validator):
    def check(self, name: str, value: Value) -> None:
        assert isinstance(value, list)
        refuse_empty(name, value)


# fmt: off
CLIENT_METRICS_CONFIGS = config_table([
    (_INTERVAL, INT,  "300000", None,        "The milliseconds between two pushes of a client."),
    (_MATCH,    LIST, "",       _NotEmpty(), "Clients to match: pairs of a criterion and a pattern."),
    ("metrics", LIST, "",       _NotEmpty(), "Prefixes of metric names; * matches all."),
])
# fmt: on


def validate_client_metrics(configs: Mapping[str, str]) -> None:
    """Reject invalid subscriptions like Kafka, with its error codes: some are INVALID_REQUEST."""
    for name, text in configs.items():
        definition = CLIENT_METRICS_CONFIGS.get(name)
        if definition is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
        try:
            value = parse_value(definition, text)
        except InvalidValue as error:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
        if isinstance(value, int) and not _LEAST_MS <= value <= _MOST_MS:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Invalid value {value} for {name}, interval must be between {_LEAST_MS} and {_MOST_MS} (1 hour)",
            )
        if name == _MATCH and isinstance(value, list):
            for pair in value:
                _check_criterion(pair)


def subscription_of(configs: Mapping[str, str]) -> tuple[dict[str, re.Pattern[str]], list[str], int]:
    def value(name: str) -> Value:
        definition = CLIENT_METRICS_CONFIGS[name]
        return parse_value(definition, configs.get(name, definition.default))

    match, metrics, interval_ms = value(_MATCH), value("metrics"), value(_INTERVAL)
    assert isinstance(match, list)
    assert isinstance(metrics, list)
    assert isinstance(interval_ms, int)
    return dict(map(_criterion, match)), metrics, interval_ms


def _criterion(pair: str) -> tuple[str, re.Pattern[str]]:
    criterion, _, pattern = (part.strip() for part in pair.partition("="))
    return criterion, re.compile(pattern)


def _check_criterion(pair: str) -> None:
    criterion, _, pattern = (part.strip() for part in pair.partition("="))
    if criterion in _CRITERIA and pattern and "=" not in pattern:
        try:
            re.compile(pattern)
            return
        except re.error:
            pass
    raise KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pair.strip()}")

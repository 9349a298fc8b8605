"""Client metrics subscriptions (KIP-714): requested metrics, matching clients and push interval.

Brokers request metrics from clients only if a receiver exists: see `ottla.broker.telemetry`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ottla.metadata.configs.config_defs import (
    INT,
    LIST,
    InvalidValue,
    Validator,
    Value,
    config_table,
    parse_value,
    refuse_empty,
)
from ottla.protocol.errors import ErrorCode, KafkaError

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

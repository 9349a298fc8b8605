"""Client settings that a connector overrides: `connector.client.config.override.policy`, and their values."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.connect.config.config_def import (
    ConfigError,
    ConfigType,
    Validator,
    at_least,
    invalid,
    one_of,
    parse_value,
)

_PREFIXES = ("producer.override.", "consumer.override.", "admin.override.")
_PRINCIPAL = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})


_Rules = Mapping[str, tuple[ConfigType, Validator | None]]


def _numbers(kind: ConfigType, least: int, *names: str) -> _Rules:
    return {name: (kind, at_least(least)) for name in names}


_EVERY_CLIENT: _Rules = {
    "security.protocol": (ConfigType.STRING, one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
    "connections.max.idle.ms": (ConfigType.LONG, None),
    **_numbers(ConfigType.INT, 0, "request.timeout.ms"),
    **_numbers(ConfigType.INT, -1, "receive.buffer.bytes", "send.buffer.bytes"),
    **_numbers(
        ConfigType.LONG,
        0,
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
    ),
}
#: Values that Kafka's clients check, by client.
_RULES: Mapping[str, _Rules] = {
    "producer.override.": {
        **_EVERY_CLIENT,
        "acks": (ConfigType.STRING, one_of("all", "-1", "0", "1")),
        "compression.type": (ConfigType.STRING, one_of("none", "gzip", "snappy", "lz4", "zstd")),
        "enable.idempotence": (ConfigType.BOOLEAN, None),
        "transaction.timeout.ms": (ConfigType.INT, None),
        **_numbers(ConfigType.INT, 0, "batch.size", "delivery.timeout.ms", "max.request.size", "retries"),
        **_numbers(ConfigType.INT, 1, "max.in.flight.requests.per.connection"),
        **_numbers(ConfigType.LONG, 0, "buffer.memory", "linger.ms", "max.block.ms"),
    },
    "consumer.override.": {
        **_EVERY_CLIENT,
        "auto.offset.reset": (ConfigType.STRING, one_of("latest", "earliest", "none")),
        "check.crcs": (ConfigType.BOOLEAN, None),
        "enable.auto.commit": (ConfigType.BOOLEAN, None),
        "heartbeat.interval.ms": (ConfigType.INT, None),
        "isolation.level": (ConfigType.STRING, one_of("read_committed", "read_uncommitted")),
        "session.timeout.ms": (ConfigType.INT, None),
        **_numbers(
            ConfigType.INT,
            0,
            "fetch.max.bytes",
            "fetch.max.wait.ms",
            "fetch.min.bytes",
            "max.partition.fetch.bytes",
        ),
        **_numbers(ConfigType.INT, 1, "max.poll.interval.ms", "max.poll.records"),
    },
    "admin.override.": {**_EVERY_CLIENT, **_numbers(ConfigType.INT, 0, "retries")},
}


def override_problems(config: Mapping[str, str], policy: str) -> dict[str, list[str]]:
    """Return forbidden overrides and invalid values, by setting."""
    return _invalid_values(config) | _forbidden(config, policy)


def _invalid_values(config: Mapping[str, str]) -> dict[str, list[str]]:
    found = {}
    for prefix, rules in _RULES.items():
        for name, (kind, check) in rules.items():
            setting = prefix + name
            if setting not in config:
                continue
            try:
                value = parse_value(name, config[setting], kind)
                if check is not None:
                    check(name, value)
            except ConfigError as error:
                found[setting] = [error.message]
    return found


def _forbidden(config: Mapping[str, str], policy: str) -> dict[str, list[str]]:
    """A policy is a short name or one of Kafka's classes."""
    name = policy.rsplit(".", 1)[-1].removesuffix("ConnectorClientConfigOverridePolicy").lower()
    if name == "all":
        return {}
    found = {}
    for setting in config:
        prefix = next((each for each in _PREFIXES if setting.startswith(each)), None)
        if prefix is None:
            continue
        if name != "principal" or setting.removeprefix(prefix) not in _PRINCIPAL:
            error = invalid(
                setting,
                config[setting],
                f"The '{policy}' policy does not allow '{setting.removeprefix(prefix)}' to be overridden in the "
                "connector configuration.",
            )
            found[setting] = [error.message]
    return found

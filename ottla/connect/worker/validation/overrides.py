"""Client settings that a connector may override: `connector.client.config.override.policy`."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.connect.config.config_def import invalid

_PREFIXES = ("producer.override.", "consumer.override.", "admin.override.")
_PRINCIPAL = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})


def override_problems(config: Mapping[str, str], policy: str) -> dict[str, list[str]]:
    """Return problems by setting. A policy is a short name or one of Kafka's classes."""
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

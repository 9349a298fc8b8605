"""How Spark reaches a cluster: the `kafka.` options that source and sink share."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.errors import ClientError
from ottla.client.settings import Settings
from ottla.spark.option_names import OptionError


def client_settings(properties: Mapping[str, str]) -> Settings:
    """From the options without their prefix."""
    if not properties.get("bootstrap.servers", "").strip():
        raise OptionError("Option 'kafka.bootstrap.servers' is missing: where is the broker?")
    protocol = properties.get("security.protocol", "")
    if protocol.upper().startswith("SASL"):
        raise OptionError(
            f"kafka.security.protocol={protocol} cannot be used here yet: only PLAINTEXT and SSL can."
        )
    try:
        return Settings.from_properties(properties, client_id="ottla-spark")
    except ClientError as error:
        raise OptionError(error.message) from None

"""How Spark reaches a cluster: the `kafka.` options that source and sink share."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.errors import ClientError
from ottla.client.sasl import MECHANISMS
from ottla.client.settings import Settings
from ottla.spark.source.option_names import OptionError


def client_settings(properties: Mapping[str, str]) -> Settings:
    """From the options without their prefix."""
    if not properties.get("bootstrap.servers", "").strip():
        raise OptionError("Option 'kafka.bootstrap.servers' is missing: where is the broker?")
    try:
        settings = Settings.from_properties(properties, client_id="ottla-spark")
    except ClientError as error:
        raise OptionError(error.message) from None
    if settings.sasl is not None:
        if settings.sasl.mechanism not in MECHANISMS:
            *most, last = MECHANISMS
            raise OptionError(
                f"kafka.sasl.mechanism must be {', '.join(most)} or {last}, not '{settings.sasl.mechanism}'."
            )
        if not settings.sasl.username:
            raise OptionError(
                "Who are you? Say kafka.sasl.username and kafka.sasl.password, or kafka.sasl.jaas.config."
            )
    return settings

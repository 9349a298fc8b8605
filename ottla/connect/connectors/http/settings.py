"""Settings shared by the HTTP connectors: OAuth 2, batches and retries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.connect.config.config_def import (
    ConfigDef,
    ConfigType,
    Importance,
    at_least,
    between,
    one_of,
)
from ottla.connect.connectors.http.client import OAuth2, check_url

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_STRING, _INT = ConfigType.STRING, ConfigType.INT


@dataclass(frozen=True)
class OAuth2Settings:
    """Vendor-specific setting names and their defaults."""

    url: str
    scope: str
    mode: str
    in_header: str
    in_body: str
    mode_importance: Importance
    token: str

    def define(self, definition: ConfigDef) -> ConfigDef:
        return (
            definition.define(self.url, _STRING, "", _HIGH, "URL of the token endpoint.")
            .define("oauth2.client.id", _STRING, "", _HIGH, "The client's id.")
            .define("oauth2.client.secret", ConfigType.PASSWORD, "", _HIGH, "The client's secret.")
            .define("oauth2.client.scope", _STRING, self.scope, _LOW, "The scope of tokens.")
            .define(
                self.mode,
                _STRING,
                self.in_header,
                self.mode_importance,
                "Place of id and secret in the token request.",
                validator=one_of(self.in_header, self.in_body),
            )
            .define(self.token, _STRING, "access_token", _LOW, "Field of the token in the response.")
        )

    def of(self, settings: Mapping[str, Any]) -> OAuth2:
        check_url(self.url, settings[self.url])
        return OAuth2(
            settings[self.url],
            settings["oauth2.client.id"],
            settings["oauth2.client.secret"],
            settings["oauth2.client.scope"],
            settings[self.mode] == self.in_body,
            settings[self.token],
        )


AIVEN_OAUTH2 = OAuth2Settings(
    url="oauth2.access.token.url",
    scope="",
    mode="oauth2.client.authorization.mode",
    in_header="HEADER",
    in_body="URL",
    mode_importance=_MEDIUM,
    token="oauth2.response.token.property",
)
CONFLUENT_OAUTH2 = OAuth2Settings(
    url="oauth2.token.url",
    scope="any",
    mode="oauth2.client.auth.mode",
    in_header="header",
    in_body="url",
    mode_importance=_LOW,
    token="oauth2.token.property",
)


def define_login(definition: ConfigDef, *kinds: str) -> ConfigDef:
    """Define Confluent's `auth.type` for these kinds and none, in lower or upper case."""
    return (
        definition.define(
            "auth.type",
            _STRING,
            "none",
            _HIGH,
            "Type of login.",
            validator=one_of("none", *kinds, "NONE", *map(str.upper, kinds)),
        )
        .define("connection.user", _STRING, "", _MEDIUM, "User name.")
        .define("connection.password", ConfigType.PASSWORD, "", _MEDIUM, "Password.")
    )


def basic_login(settings: Mapping[str, Any]) -> tuple[str, str] | None:
    if settings["auth.type"].lower() != "basic":
        return None
    return settings["connection.user"], settings["connection.password"]


def define_batches(
    definition: ConfigDef,
    *,
    most: int,
    suffix: str,
    separator: str,
    importance: Importance,
) -> ConfigDef:
    return (
        definition.define(
            "batch.max.size",
            _INT,
            most,
            importance,
            "Maximum records per request.",
            validator=between(1, 1_000_000),
        )
        .define("batch.prefix", _STRING, "", importance, "Text before the records of a request.")
        .define("batch.suffix", _STRING, suffix, importance, "Text after the records of a request.")
        .define(
            "batch.separator", _STRING, separator, importance, ("Separator between the records of a request.")
        )
    )


def define_retries(definition: ConfigDef, most: int) -> ConfigDef:
    return definition.define(
        "max.retries", _INT, most, _MEDIUM, "Number of retries of a request.", validator=at_least(0)
    ).define(
        "retry.backoff.ms",
        _INT,
        3000,
        _MEDIUM,
        "Time before the first retry; doubled for each further retry.",
        validator=at_least(0),
    )

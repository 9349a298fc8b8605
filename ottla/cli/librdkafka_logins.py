"""Logins that librdkafka does not know by the names of Java's properties, or not at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.cli.errors import JobError
from ottla.client.settings import Settings, jaas_options

if TYPE_CHECKING:
    from ottla.oauth.tokens import OAuth

_JAAS = "sasl.jaas.config"
# Names of options of a login module, as librdkafka has them.
_KERBEROS = {"principal": "principal", "keyTab": "keytab", "serviceName": "service.name"}


def needs_jaas(properties: Mapping[str, str], options: Mapping[str, str]) -> bool:
    return mechanism_of(properties) in ("OAUTHBEARER", "GSSAPI") or options.get("tokenauth", "") == "true"


def mechanism_of(properties: Mapping[str, Any]) -> str:
    return str(properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "")


def with_login(config: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(config)
    options = jaas_options(found.pop(_JAAS, ""))
    if options.get("tokenauth") == "true":
        raise JobError(
            "librdkafka, which produces and consumes here, cannot log in with a delegation token: use a user's login."
        )
    mechanism = mechanism_of(found)
    if mechanism == "GSSAPI":
        for option, name in _KERBEROS.items():
            if option in options:
                found.setdefault(f"sasl.kerberos.{name}", options[option])
    elif mechanism == "OAUTHBEARER" and str(found.get("sasl.oauthbearer.method", "")).lower() != "oidc":
        sasl = Settings.from_properties(
            {key: value for key, value in config.items() if isinstance(value, str)}
        ).sasl
        if sasl is not None and sasl.oauth is not None:
            found = {key: value for key, value in found.items() if not key.startswith("sasl.oauthbearer.")}
            found["oauth_cb"] = _tokens(sasl.oauth)
    return found


def _tokens(settings: OAuth) -> Callable[[str], tuple[str, float, str, dict[str, str]]]:
    def token(_config: str) -> tuple[str, float, str, dict[str, str]]:
        from ottla.oauth import tokens as oauth_tokens

        found = oauth_tokens.token(settings)
        return found, time.time() + oauth_tokens.seconds_left(found), "", dict(settings.extensions)

    return token

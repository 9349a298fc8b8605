"""Token requirements of an OAUTHBEARER listener. Tokens without a verifiable signature are rejected by default."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

from ottla.broker.security.issuer_keys import IssuerKeys, Refreshing
from ottla.broker.security.jaas_settings import login_module
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.metadata.configs.config_defs import Value
from ottla.metadata.configs.listeners import listener_value
from ottla.oauth.endpoints import UrlNotAllowed, check_url, shown, trust_of
from ottla.security.bearer_tokens import Rules, validate_unsecured
from ottla.security.java_options import ALLOWED_URLS, allowed_urls, system_properties
from ottla.security.sasl.oauthbearer import MECHANISM, BearerToken

_UNSECURED = "ottla.sasl.oauthbearer.unsecured.tokens"
_URL = "sasl.oauthbearer.jwks.endpoint.url"
_ISSUER = "sasl.oauthbearer.expected.issuer"
_AUDIENCE = "sasl.oauthbearer.expected.audience"


class TokenValidator(Protocol):
    """Accepts or rejects tokens."""

    @property
    def warning(self) -> str | None:
        """Warning for the operator."""

    def open(self) -> None:
        """Fetch everything needed to validate tokens. Raises ConfigError. Blocks."""

    def close(self) -> None: ...

    def validate(self, token: str) -> BearerToken:
        """Raises TokenRefused."""
        ...


class UnsecuredTokens:
    """Accepts every token. Used only if the operator configured it."""

    def __init__(self, listener: str, scope_claim: str) -> None:
        self.warning = (
            f"Listener {listener} accepts unsigned tokens: anyone with network access can claim to be "
            "any user."
        )
        self._scope_claim = scope_claim

    def open(self) -> None:
        pass

    def close(self) -> None:
        pass

    def validate(self, token: str) -> BearerToken:
        return validate_unsecured(token, scope_claim=self._scope_claim)


def listed_urls(config: BrokerConfig, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """Return the allowed URLs for keys and tokens; none means any https URL."""
    listed = config.get_list("org.apache.kafka.sasl.oauthbearer.allowed.urls")
    return tuple(map(str, listed)) or allowed_urls(system_properties(environment).get(ALLOWED_URLS))


def token_validator(
    config: BrokerConfig, listener: str, environment: Mapping[str, str] = os.environ
) -> TokenValidator:
    """Return the validator without fetching anything. Raises ConfigError naming the missing or invalid setting."""

    def value(name: str) -> Value:
        return listener_value(config.values, listener, name, MECHANISM)

    def seconds(name: str) -> float:
        found = value(name)
        return found / 1000 if isinstance(found, int) else 0.0

    module = login_module(config, listener, MECHANISM, environment)
    scope_claim = str(value("sasl.oauthbearer.scope.claim.name"))
    if value(_UNSECURED):
        return UnsecuredTokens(listener, scope_claim)
    if module is not None and any(option.startswith("unsecured") for option in module.options):
        raise ConfigError(
            f"The login module of OAUTHBEARER on listener {listener} has options for tokens that nobody has signed: "
            f"remove them, or set {_UNSECURED}=true to let anybody be anybody."
        )
    url, issuer, audiences = value(_URL), value(_ISSUER), value(_AUDIENCE)
    for name, given in ((_URL, url), (_ISSUER, issuer), (_AUDIENCE, audiences)):
        if not given:
            raise ConfigError(
                f"Listener {listener} enables OAUTHBEARER, but {name} is not set: without it tokens of others "
                "would be believed."
            )
    try:
        check_url(str(url), listed_urls(config, environment))
    except UrlNotAllowed as error:
        raise ConfigError(f"{_URL}={shown(str(url))} cannot be used: {error}.") from None
    skew = value("sasl.oauthbearer.clock.skew.seconds")
    backoff = max(seconds("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"), 0.01)
    return IssuerKeys(
        Refreshing(
            str(url),
            max(seconds("sasl.oauthbearer.jwks.endpoint.refresh.ms"), backoff),
            backoff,
            max(seconds("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"), backoff),
            None if module is None else trust_of(module.options),
        ),
        Rules(
            issuer=str(issuer),
            audiences=tuple(map(str, audiences)) if isinstance(audiences, list | tuple) else (),
            skew_seconds=skew if isinstance(skew, int) else 0,
            scope_claim=scope_claim,
            sub_claim=str(value("sasl.oauthbearer.sub.claim.name")),
        ),
    )

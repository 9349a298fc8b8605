"""OAUTHBEARER listeners: requirements of tokens, and the keys of their issuer."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from ottla.broker.security.sasl_settings import login_module
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.metadata.configs.config_defs import Value
from ottla.metadata.configs.listeners import listener_value
from ottla.security import bearer_tokens
from ottla.security.bearer_tokens import BadKeys, Key, Rules, UnknownKey, validate_unsecured
from ottla.security.jaas import ALLOWED_URLS, allowed_urls, system_properties
from ottla.security.oauth import EndpointError, UrlNotAllowed, check_url, fetch, shown, trust_of
from ottla.security.sasl.oauthbearer import MECHANISM, BearerToken
from ottla.security.tls.settings import StoreSettings

# Token signing keys, refreshed regularly from their issuer in a separate thread.

logger = logging.getLogger(__name__)

_URL = "sasl.oauthbearer.jwks.endpoint.url"
# An unknown key may be new. This pause stops invented key names from causing constant requests.
_BETWEEN_EARLY_REFRESHES = 10.0
_FIRST_ATTEMPTS = 3


class Refreshing(NamedTuple):
    """URL of the keys and refresh intervals, in seconds."""

    url: str
    every: float
    backoff: float
    max_backoff: float
    trust: StoreSettings | None = None  # default: the certificates trusted by this machine


class IssuerKeys:
    """Invariant: the last fetched keys stay in use until a newer fetch succeeds.

    Owner: the event loop; the thread only replaces the tuple of keys.
    """

    warning: str | None = None

    def __init__(self, refreshing: Refreshing, rules: Rules) -> None:
        self._refreshing = refreshing
        self._rules = rules
        self._keys: tuple[Key, ...] = ()
        self._wake = threading.Event()
        self._closed = False
        self._asked_early = 0.0
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Fetch the keys and start refreshing them. Raises ConfigError. Blocks: call it in a thread."""
        pause = self._refreshing.backoff
        for left in reversed(range(_FIRST_ATTEMPTS)):
            try:
                self._keys = self._fetched()
                break
            except (EndpointError, BadKeys) as error:
                if not left:
                    raise ConfigError(
                        f"Cannot read the keys of {_URL}={shown(self._refreshing.url)}: {error}."
                    ) from None
            time.sleep(pause)
            pause = min(2 * pause, self._refreshing.max_backoff)
        self._thread = threading.Thread(target=self._refresh, name="issuer-keys", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    def validate(self, token: str) -> BearerToken:
        try:
            return bearer_tokens.validate(token, self._keys, self._rules)
        except UnknownKey:
            now = time.monotonic()
            if now - self._asked_early >= _BETWEEN_EARLY_REFRESHES or not self._asked_early:
                self._asked_early = now
                self._wake.set()
            raise

    def _fetched(self) -> tuple[Key, ...]:
        document = fetch(
            self._refreshing.url, headers={"Accept": "application/json"}, trust=self._refreshing.trust
        )
        return bearer_tokens.parse_keys(document)

    def _refresh(self) -> None:
        _, every, backoff, max_backoff, _ = self._refreshing
        pause, failed = every, False
        while not self._closed:
            self._wake.wait(pause)
            self._wake.clear()
            if self._closed:
                return
            try:
                self._keys = self._fetched()
            except Exception as error:  # the thread must survive, or keys would never be refreshed again
                if not failed:
                    logger.warning(
                        "Cannot refresh the keys of %s and will try again; those that are known stay in use: %s",
                        shown(self._refreshing.url),
                        error,
                    )
                pause = min(2 * pause, max_backoff) if failed else backoff
                failed = True
            else:
                if failed:
                    logger.info("The keys of %s can be read again", shown(self._refreshing.url))
                pause, failed = every, False


# Token requirements of an OAUTHBEARER listener. Tokens without a verifiable signature are rejected by default.

_UNSECURED = "ottla.sasl.oauthbearer.unsecured.tokens"
_ISSUER = "sasl.oauthbearer.expected.issuer"
_AUDIENCE = "sasl.oauthbearer.expected.audience"
# Settings that make another one optional.
_OPT_OUTS = {
    _ISSUER: "sasl.oauthbearer.allow.unverified.issuer",
    _AUDIENCE: "sasl.oauthbearer.allow.unverified.audience",
}


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
        opt_out = _OPT_OUTS.get(name)
        if not given and not (opt_out is not None and value(opt_out)):
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
            issuer=str(issuer) if issuer else None,
            audiences=tuple(map(str, audiences)) if isinstance(audiences, list | tuple) else (),
            skew_seconds=skew if isinstance(skew, int) else 0,
            scope_claim=scope_claim,
            sub_claim=str(value("sasl.oauthbearer.sub.claim.name")),
        ),
    )

"""OAUTHBEARER settings that apply to a listener."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.security.oauthbearer import IssuerKeys, listed_urls, token_validator
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError

PREFIX = "listener.name.internal"
COMMON = {
    "listeners": "INTERNAL://127.0.0.1:1,OTHER://127.0.0.1:2",
    "listener.security.protocol.map": "INTERNAL:SASL_SSL,OTHER:SASL_SSL",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "sasl.oauthbearer.jwks.endpoint.url": "https://one.example/keys",
    "sasl.oauthbearer.expected.issuer": "https://one.example",
    "sasl.oauthbearer.expected.audience": "kafka,other",
}


def rules_of(listener: str, **more: str) -> Any:
    validator = token_validator(BrokerConfig.embedded({**COMMON, **more}), listener, {})
    assert isinstance(validator, IssuerKeys)
    return validator._refreshing, validator._rules


def test_a_listener_may_have_an_issuer_of_its_own() -> None:
    own = {
        f"{PREFIX}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": "https://two.example/keys",
        f"{PREFIX}.oauthbearer.sasl.oauthbearer.expected.issuer": "https://two.example",
        f"{PREFIX}.sasl.oauthbearer.expected.audience": "internal",
        f"{PREFIX}.sasl.oauthbearer.clock.skew.seconds": "5",
        f"{PREFIX}.sasl.oauthbearer.sub.claim.name": "azp",
        f"{PREFIX}.sasl.oauthbearer.jwks.endpoint.refresh.ms": "60000",
    }
    refreshing, rules = rules_of("INTERNAL", **own)
    assert (refreshing.url, refreshing.every) == ("https://two.example/keys", 60.0)
    assert (rules.issuer, rules.audiences, rules.skew_seconds, rules.sub_claim) == (
        "https://two.example",
        ("internal",),
        5,
        "azp",
    )
    refreshing, rules = rules_of("OTHER", **own)
    assert (refreshing.url, rules.issuer, rules.audiences) == (
        "https://one.example/keys",
        "https://one.example",
        ("kafka", "other"),
    )
    assert (refreshing.every, rules.skew_seconds, rules.sub_claim) == (3600.0, 30, "sub")


def test_allowed_urls_are_those_of_the_file_or_of_kafka_opts() -> None:
    name = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
    variable = {"KAFKA_OPTS": f"-D{name}=https://a.example,file:///b"}
    assert listed_urls(BrokerConfig.embedded(COMMON), variable) == ("https://a.example", "file:///b")
    assert listed_urls(BrokerConfig.embedded(COMMON | {name: "https://c.example"}), variable) == (
        "https://c.example",
    )
    assert listed_urls(BrokerConfig.embedded(COMMON), {}) == ()
    with pytest.raises(ConfigError, match=r"one.example/keys cannot be used: it is not allowed"):
        token_validator(BrokerConfig.embedded(COMMON), "OTHER", variable)


def test_passwords_in_urls_are_not_repeated() -> None:
    url = "http://ann:hunter2@one.example/keys?token=hunter2"
    with pytest.raises(ConfigError, match=r"http://one.example/keys cannot be used") as refused:
        token_validator(
            BrokerConfig.embedded(COMMON | {"sasl.oauthbearer.jwks.endpoint.url": url}), "OTHER", {}
        )
    assert "hunter2" not in str(refused.value)

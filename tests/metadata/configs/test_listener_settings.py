"""Kafka's precedence for listener settings: the most specific wins, and the broker-wide value comes last."""

from __future__ import annotations

from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.configs.listeners import listener_value, own_listener_value

REAUTH = "connections.max.reauth.ms"


def config(*settings: str) -> BrokerConfig:
    return BrokerConfig.parse("\n".join(settings))


def test_a_mechanism_on_a_listener_comes_before_the_listener_and_the_broker() -> None:
    values = config(
        f"{REAUTH}=1",
        f"listener.name.outside.{REAUTH}=2",
        f"listener.name.outside.scram-sha-256.{REAUTH}=3",
    ).values
    assert listener_value(values, "OUTSIDE", REAUTH, "SCRAM-SHA-256") == 3
    assert listener_value(values, "OUTSIDE", REAUTH, "PLAIN") == 2
    assert listener_value(values, "OUTSIDE", REAUTH) == 2
    assert listener_value(values, "INSIDE", REAUTH, "SCRAM-SHA-256") == 1


def test_what_nobody_set_has_the_broker_s_default() -> None:
    assert listener_value(config().values, "OUTSIDE", REAUTH) == 0


def test_a_limit_of_one_listener_is_not_the_broker_s() -> None:
    values = config("max.connections=10", "listener.name.outside.max.connections=5").values
    assert own_listener_value(values, "OUTSIDE", "max.connections") == 5
    assert own_listener_value(values, "INSIDE", "max.connections") is None

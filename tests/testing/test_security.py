"""Promise: a test declares its broker's security and its users' rights, and gets their client settings."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from ottla.testing import Broker, acl
from ottla.testing.security import PROTOCOLS


def error_of_a_message(broker: Broker, user: str | None, topic: str) -> KafkaError | None:
    outcome: list[KafkaError | None] = []
    producer = Producer({**broker.client_config(user=user), "message.timeout.ms": "20000"})
    producer.produce(topic, b"x", on_delivery=lambda error, _: outcome.append(error))
    producer.flush(30)
    [error] = outcome
    return error


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_users_may_do_what_the_acls_allow(protocol):
    acls = [acl("ann", "WRITE", topic="orders"), acl("bob", "WRITE", topic="ord", prefixed=True)]
    with Broker(security=protocol, users={"ann": "secret", "bob": 'with "quotes"'}, acls=acls) as broker:
        for topic in ("orders", "other"):
            broker.create_topic(topic)
        for user in ("ann", "bob", None):
            assert error_of_a_message(broker, user, "orders") is None
        refused = error_of_a_message(broker, "ann", "other")
        assert refused is not None
        assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert error_of_a_message(broker, None, "other") is None
        broker.restart()
        assert error_of_a_message(broker, "ann", "orders") is None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_without_acls_who_is_let_in_may_do_everything(protocol):
    with Broker(security=protocol, users={"ann": "secret"}) as broker:
        broker.create_topic("orders")
        assert error_of_a_message(broker, "ann", "orders") is None
        assert "orders" in AdminClient(broker.client_config("ann")).list_topics(timeout=20).topics


def test_java_has_names_of_its_own():
    with Broker(security="SASL_PLAINTEXT", users={"ann": 'se"cret'}) as broker:
        properties = broker.client_properties(user="ann")
    assert properties["security.protocol"] == "SASL_PLAINTEXT"
    assert 'username="ann" password="se\\"cret";' in properties["sasl.jaas.config"]


def test_what_makes_no_sense_is_said_at_once():
    with pytest.raises(ValueError, match="security is one of SASL_SSL, SASL_PLAINTEXT, SSL, not 'TLS'"):
        Broker(security="TLS")
    with pytest.raises(ValueError, match="users and acls need security"):
        Broker(users={"ann": "secret"})
    with pytest.raises(ValueError, match="an ACL is about one resource"):
        acl("ann", "READ", topic="t", group="g")
    with pytest.raises(ValueError, match="there is no user 'eve'"):
        Broker(security="SASL_SSL").client_config("eve")
    with pytest.raises(ValueError, match="the broker has no users"):
        Broker().client_config("eve")


def test_without_security_the_settings_of_a_client_are_its_address():
    with Broker() as broker:
        assert (
            broker.client_config()
            == broker.client_properties()
            == {"bootstrap.servers": broker.bootstrap_servers}
        )

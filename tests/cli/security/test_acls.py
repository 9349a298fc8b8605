"""`ottla acls …`, and the rights that its ACLs give."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from ottla.testing import Broker


@pytest.fixture(scope="module")
def broker():
    with Broker(security="SASL_PLAINTEXT", users={"ann": "a", "bob": "b"}, acls=[]) as broker:
        for topic in ("orders", "payments"):
            broker.create_topic(topic)
            broker.produce(topic, b"one")
        yield broker


@pytest.fixture(scope="module")
def acls(broker, tmp_path_factory, new_ottla):
    """`acls("list")` runs `ottla acls list` as the admin."""
    file = tmp_path_factory.mktemp("admin") / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in broker.client_config().items()))
    ottla = new_ottla(OTTLA_COMMAND_CONFIG=str(file), OTTLA_BOOTSTRAP_SERVER="localhost:9092")

    def run(*args, **options):
        return ottla("acls", *args, **options)

    run.file = file
    return run


def may_write(broker, user, topic):
    producer = Producer({**broker.client_config(user), "message.timeout.ms": 10_000})
    outcome = []
    producer.produce(topic, b"x", on_delivery=lambda error, _: outcome.append(error))
    producer.flush(20)
    [error] = outcome
    assert error is None or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    return error is None


def may_read(broker, user, topic, group):
    config = {**broker.client_config(user), "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer(config)
    refused = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED)
    try:
        consumer.subscribe([topic])
        for _ in range(60):
            try:
                message = consumer.poll(0.5)
            except KafkaException as error:
                if error.args[0].code() in refused:
                    return False
                raise
            if message is not None:
                if message.error() is None:
                    return True
                if message.error().code() in refused:
                    return False
        raise AssertionError("neither a message nor a refusal")
    finally:
        consumer.close()


def test_reading_needs_the_topic_and_the_group(broker, acls):
    assert not may_read(broker, "ann", "orders", "g1")
    added = acls("add", "ann", "--read", "orders", "--group", "g1")
    assert added.lines == ["User:ann may READ topic orders.", "User:ann may READ group g1."]
    assert may_read(broker, "ann", "orders", "g1")
    assert not may_read(broker, "ann", "orders", "g2")
    assert not may_read(broker, "ann", "payments", "g1")
    assert not may_read(broker, "bob", "orders", "g1")
    removed = acls("remove", "ann", "--read", "orders")
    assert removed.lines == ["Removed: User:ann may READ topic orders."]
    assert not may_read(broker, "ann", "orders", "g1")
    acls("remove", "ann", "--yes")


def test_prefixes_denials_and_everybody(broker, acls):
    acls("add", "*", "--write", "pay", "--prefix")
    assert may_write(broker, "bob", "payments")
    assert not may_write(broker, "bob", "orders")
    said = acls("add", "bob", "--write", "payments", "--deny")
    assert said.lines == ["User:bob must not WRITE topic payments."]
    assert (may_write(broker, "ann", "payments"), may_write(broker, "bob", "payments")) == (True, False)
    listed = acls("list", "--topic", "payments", "--json").json
    assert {(each["principal"], each["permission"], each["pattern"]) for each in listed} == {
        ("User:*", "ALLOW", "PREFIXED"),
        ("User:bob", "DENY", "LITERAL"),
    }
    assert acls("list", "bob").lines[1].split() == [
        "User:bob", "DENY", "WRITE", "TOPIC", "payments", "LITERAL", "*"
    ]  # fmt: skip
    acls("remove", "bob", "--yes")
    acls("remove", "User:*", "--write", "pay", "--prefix")
    assert "no such ACLs" in acls("list", "bob").err


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("remove", "ann", "--read", "nothing"), "User:ann has no such ACL."),
        (("add", "ann", "--read", ""), "--read needs a name. Use '*' for all."),
        (("add", "", "--read", "t"), "The user is missing. Pass a name, or '*' for every user."),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_one_sentence(acls, args, sentence):
    failed = acls(*args, check=False)
    assert (failed.code, failed.err) == (1, f"Error: {sentence}\n")


def test_a_user_who_may_not_is_told_so(broker, acls, tmp_path):
    file = tmp_path / "ann.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in broker.client_config("ann").items()))
    failed = acls("add", "ann", "--read", "orders", "--command-config", file, check=False)
    assert (failed.code, failed.err) == (1, "Error: Not authorized to do this on the cluster.\n")


def test_without_an_authorizer_there_are_no_acls(ottla):
    failed = ottla("acls", "list", check=False)
    assert (failed.code, len(failed.err.splitlines())) == (1, 1)
    assert failed.err.startswith("Error: No Authorizer is configured")

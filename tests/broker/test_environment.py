"""Settings of a broker from environment variables: names, files with secrets, listeners, and variables for KRaft."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.environment import settings_from_environment
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError

LISTENERS = {"KAFKA_LISTENERS": "PLAINTEXT://:9092"}


def settings(host_name: str = "host", **variables: str) -> dict[str, str]:
    found = settings_from_environment({**LISTENERS, **variables}, host_name=host_name)
    return {name: value for name, value in found.items() if name != "listeners"}


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_LOG_RETENTION_HOURS", "log.retention.hours"),
        ("KAFKA_BROKER_ID", "broker.id"),
        ("KAFKA_ZOOKEEPER_CONNECT", "zookeeper.connect"),
        ("KAFKA_MY__OWN___NAME", "my_own-name"),
        (
            "KAFKA_LISTENER_NAME_INSIDE_SCRAM___SHA___512_SASL_JAAS_CONFIG",
            "listener.name.inside.scram-sha-512.sasl.jaas.config",
        ),
        ("OTTLA_METRICS_PORT", "metrics.port"),
        ("OTTLA_AUDIT_ENABLE", "ottla.audit.enable"),
        ("OTTLA_SHUTDOWN_TIMEOUT_MS", "ottla.shutdown.timeout.ms"),
    ],
)
def test_variables_name_settings_as_in_kafkas_image(variable: str, name: str) -> None:
    assert settings(**{variable: "7"}) == {name: "7"}


@pytest.mark.parametrize(
    "variable",
    [
        "KAFKA_HEAP_OPTS",
        "KAFKA_JMX_PORT",
        "OTTLA_LOG_FORMAT",
        "OTTLA_PORT",
        "PATH",
        "CLUSTER_ID",
        "XKAFKA_BROKER_ID",
    ],
)
def test_other_variables_are_no_settings(variable: str) -> None:
    assert settings(**{variable: "tcp://10.0.0.1:9092"}) == {}


def test_a_secret_comes_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("s3cret \n")
    assert settings(KAFKA_SSL_KEYSTORE_PASSWORD_FILE=str(secret)) == {"ssl.keystore.password": "s3cret "}
    assert settings(KAFKA_LISTENER_NAME_IN_SSL_KEY_PASSWORD_FILE=str(secret)) == {
        "listener.name.in.ssl.key.password": "s3cret "
    }
    assert settings(OTTLA_METRICS_OTLP_HEADERS_FILE=str(secret)) == {"metrics.otlp.headers": "s3cret "}
    with pytest.raises(ConfigError, match=r"KAFKA_SSL_KEY_PASSWORD_FILE: cannot read /nowhere: No such file"):
        settings(KAFKA_SSL_KEY_PASSWORD_FILE="/nowhere")
    with pytest.raises(ConfigError, match=r"_PASSWORD and KAFKA_SSL_KEYSTORE_PASSWORD_FILE are both set"):
        settings(KAFKA_SSL_KEYSTORE_PASSWORD="x", KAFKA_SSL_KEYSTORE_PASSWORD_FILE=str(secret))


@pytest.mark.parametrize(
    ("host_name", "base", "broker_id"),
    [("kafka-broker-2", "0", "2"), ("big-12.kafka.default.svc", "100", "112")],
)
def test_the_broker_id_follows_from_the_host_name(host_name: str, base: str, broker_id: str) -> None:
    assert settings(host_name, OTTLA_BROKER_ID_BASE=base) == {"broker.id": broker_id}
    assert settings(host_name, OTTLA_BROKER_ID_BASE=base, KAFKA_BROKER_ID="5") == {"broker.id": "5"}


def test_a_host_name_without_a_number_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="needs a host name that ends with a number, and this one is laptop"
    ):
        settings("laptop", OTTLA_BROKER_ID_BASE="0")
    with pytest.raises(ConfigError, match="is not a number"):
        settings("kafka-1", OTTLA_BROKER_ID_BASE="x")


@pytest.mark.parametrize(
    ("variables", "listeners", "advertised"),
    [
        ({}, "PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://localhost:9092"),
        (
            {"KAFKA_ADVERTISED_LISTENERS": "IN://broker:29092, OUT://localhost:9092"},
            "IN://0.0.0.0:29092,OUT://0.0.0.0:9092",
            "IN://broker:29092, OUT://localhost:9092",
        ),
        ({"KAFKA_LISTENERS": "PLAINTEXT://:9999"}, "PLAINTEXT://:9999", None),
    ],
)
def test_listeners_and_advertised_listeners_fit(
    variables: dict[str, str], listeners: str, advertised: str | None
) -> None:
    found = settings_from_environment(variables)
    assert (found["listeners"], found.get("advertised.listeners")) == (listeners, advertised)


def test_brokers_that_share_variables_advertise_addresses_of_their_own() -> None:
    shared = {
        "OTTLA_BROKER_ID_BASE": "100",
        "KAFKA_ADVERTISED_LISTENERS": "A://b-{broker}.x:9094,B://x:32000+{broker}",
    }
    assert settings("pod-2", **shared)["advertised.listeners"] == "A://b-102.x:9094,B://x:32102"
    del shared["OTTLA_BROKER_ID_BASE"]
    with pytest.raises(ConfigError, match="needs KAFKA_BROKER_ID or OTTLA_BROKER_ID_BASE"):
        settings(**shared)


def test_variables_for_one_node_of_kraft_start_a_broker() -> None:
    found = settings_from_environment(
        {
            "KAFKA_NODE_ID": "1",
            "KAFKA_PROCESS_ROLES": "broker,controller",
            "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://localhost:9093",
            "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
            "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
            "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
            "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        }
    )
    config = BrokerConfig.embedded(found)
    assert config.broker_id == 1
    assert [(each.name, each.port) for each in config.listeners] == [("PLAINTEXT", 9092)]
    assert config.warnings == []


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        (
            {"KAFKA_PROCESS_ROLES": "broker", "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@a:1,2@b:1"},
            "set KAFKA_ZOOKEEPER_CONNECT instead",
        ),
        ({"KAFKA_PROCESS_ROLES": "controller"}, "leave this container out"),
    ],
)
def test_a_quorum_of_kraft_is_refused(variables: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        settings_from_environment(variables)

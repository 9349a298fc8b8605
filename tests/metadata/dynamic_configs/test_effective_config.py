"""DescribeConfigs responses, compared with an Apache Kafka 4.3 of the same configuration."""

from __future__ import annotations

import pytest

from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.configs.config_defs import ConfigSource, ConfigType
from ottla.metadata.configs.topic_configs import TOPIC_CONFIGS
from ottla.metadata.dynamic_configs.dynamic_broker_config import DynamicBrokerConfig
from ottla.metadata.dynamic_configs.effective_config import (
    ConfigEntry,
    TopicConfig,
    effective_broker_config,
    effective_cluster_default_config,
    effective_topic_config,
)
from ottla.protocol.errors import ErrorCode, KafkaError

TOPIC = ConfigSource.DYNAMIC_TOPIC_CONFIG
BROKER = ConfigSource.DYNAMIC_BROKER_CONFIG
CLUSTER = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
STATIC = ConfigSource.STATIC_BROKER_CONFIG
DEFAULT = ConfigSource.DEFAULT_CONFIG


@pytest.fixture
def broker() -> BrokerConfig:
    config = BrokerConfig({"broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:19092"})
    config.set_dynamic(
        broker={"log.retention.ms": "800000"},
        cluster_default={"log.retention.ms": "700000", "log.segment.bytes": "2000000"},
    )
    return config


def summary(
    entry: ConfigEntry,
) -> tuple[str | None, ConfigSource, list[tuple[str, str | None, ConfigSource]]]:
    return entry.value, entry.source, [tuple(synonym) for synonym in entry.synonyms]  # type: ignore[misc]


class TestTopics:
    def test_every_public_configuration_is_there(self, broker: BrokerConfig) -> None:
        ours = {name for name in TOPIC_CONFIGS if name.startswith(("confluent.", "ottla."))}
        assert set(effective_topic_config(broker, {})) == set(TOPIC_CONFIGS) - ours - {
            "internal.segment.bytes"
        }

    def test_what_is_not_of_kafka_is_there_where_it_is_set(self, broker: BrokerConfig) -> None:
        name = "confluent.value.schema.validation"
        assert effective_topic_config(broker, {name: "true"})[name].value == "true"
        assert not any("confluent" in name for name in effective_broker_config(broker))

    def test_an_override_comes_first_and_everything_it_hides_after_it(self, broker: BrokerConfig) -> None:
        entry = effective_topic_config(broker, {"retention.ms": "1000"})["retention.ms"]
        assert summary(entry) == (
            "1000",
            TOPIC,
            [
                ("retention.ms", "1000", TOPIC),
                ("log.retention.ms", "800000", BROKER),
                ("log.retention.ms", "700000", CLUSTER),
                ("log.retention.hours", "168", DEFAULT),
            ],
        )

    def test_without_an_override_the_broker_s_value_counts_with_its_source(
        self, broker: BrokerConfig
    ) -> None:
        entry = effective_topic_config(broker, {})["segment.bytes"]
        assert summary(entry) == (
            "2000000",
            CLUSTER,
            [("log.segment.bytes", "2000000", CLUSTER), ("log.segment.bytes", "1073741824", DEFAULT)],
        )

    def test_a_family_that_does_not_name_its_first_member_stays_unmentioned(self) -> None:
        entries = effective_topic_config(BrokerConfig(), {"segment.ms": "+5"})
        assert summary(entries["retention.ms"]) == ("604800000", DEFAULT, [])
        assert summary(entries["segment.ms"]) == ("5", TOPIC, [("segment.ms", "5", TOPIC)])
        assert summary(entries["flush.ms"]) == ("9223372036854775807", DEFAULT, [])

    def test_hours_of_the_broker_become_milliseconds_of_the_topic(self) -> None:
        entry = effective_topic_config(BrokerConfig.parse("log.retention.hours=2"), {})["retention.ms"]
        assert entry.value == "7200000"

    def test_values_are_shown_tidied_up(self, broker: BrokerConfig) -> None:
        entries = effective_topic_config(broker, {"cleanup.policy": "compact, delete"})
        assert entries["cleanup.policy"].value == "compact,delete"
        assert entries["cleanup.policy"].type is ConfigType.LIST
        twice = effective_topic_config(broker, {"cleanup.policy": "delete,delete"})
        assert twice["cleanup.policy"].value == "delete"
        assert entries["min.cleanable.dirty.ratio"].value == "0.5"
        assert entries["leader.replication.throttled.replicas"].value == ""

    def test_typed_values_are_the_same_ones(self, broker: BrokerConfig) -> None:
        config = TopicConfig(
            broker, {"cleanup.policy": "compact", "max.message.bytes": "bad", "unheard.of": "1"}
        )
        assert config.get_int("retention.ms") == 800000
        assert config.get_list("cleanup.policy") == ["compact"]
        assert config.get_float("min.cleanable.dirty.ratio") == 0.5
        assert config.get_int("max.message.bytes") == 1048588
        assert config.get_optional_int("internal.segment.bytes") is None


class TestBrokers:
    def test_each_layer_is_named(self, broker: BrokerConfig) -> None:
        entries = effective_broker_config(broker)
        assert summary(entries["log.retention.ms"]) == (
            "800000",
            BROKER,
            [
                ("log.retention.ms", "800000", BROKER),
                ("log.retention.ms", "700000", CLUSTER),
                ("log.retention.hours", "168", DEFAULT),
            ],
        )
        assert summary(entries["log.retention.hours"])[:2] == ("168", DEFAULT)
        assert summary(entries["broker.id"]) == (
            "1",
            STATIC,
            [("broker.id", "1", STATIC), ("broker.id", "-1", DEFAULT)],
        )
        assert summary(entries["log.roll.ms"]) == (None, DEFAULT, [])

    def test_what_cannot_be_changed_while_running_is_read_only(self, broker: BrokerConfig) -> None:
        entries = effective_broker_config(broker)
        assert entries["log.retention.hours"].read_only
        assert not entries["log.retention.ms"].read_only
        assert not entries["listeners"].read_only

    def test_secrets_are_not_shown_nor_is_what_nobody_knows(self) -> None:
        config = BrokerConfig.parse("ssl.key.password=geheim\nmy.plugin.token=geheim")
        entries = effective_broker_config(config)
        for name in ("ssl.key.password", "my.plugin.token"):
            assert entries[name].sensitive
            assert "geheim" not in repr(entries[name])
        assert entries["my.plugin.token"].type is ConfigType.UNKNOWN

    def test_a_listener_s_own_setting_hides_the_general_one(self) -> None:
        config = BrokerConfig.parse("listener.name.ssl.ssl.client.auth=required")
        entry = effective_broker_config(config)["listener.name.ssl.ssl.client.auth"]
        assert summary(entry) == (
            "required",
            STATIC,
            [("listener.name.ssl.ssl.client.auth", "required", STATIC), ("ssl.client.auth", "none", DEFAULT)],
        )

    def test_the_default_of_all_brokers_shows_only_what_was_set_there(self, broker: BrokerConfig) -> None:
        entries = effective_cluster_default_config(broker)
        assert {name: summary(entry) for name, entry in entries.items()} == {
            "log.retention.ms": ("700000", CLUSTER, [("log.retention.ms", "700000", CLUSTER)]),
            "log.segment.bytes": ("2000000", CLUSTER, [("log.segment.bytes", "2000000", CLUSTER)]),
        }


class TestChanges:
    @pytest.mark.parametrize(
        ("changed", "cluster_default", "message"),
        [
            ({"broker.id": "3"}, False, "Cannot update these configs dynamically: [broker.id]"),
            (
                {"log.retention.hours": "5"},
                True,
                "Cannot update these configs dynamically: [log.retention.hours]",
            ),
            (
                {"ssl.keystore.location": "/x"},
                False,
                "These security configs can be dynamically updated only per-listener using the listener "
                "prefix: [ssl.keystore.location]",
            ),
            (
                {"max.connections": "x"},
                False,
                "Invalid value x for configuration max.connections: Not a number of type INT",
            ),
            (
                {"log.roll.ms": "0"},
                False,
                "requirement failed: log.roll.ms must be greater than or equal to 1",
            ),
            (
                {"listener.name.plaintext.ssl.keystore.location": "/x"},
                True,
                "Cannot update these configs at default cluster level, broker id must be specified: "
                "[listener.name.plaintext.ssl.keystore.location]",
            ),
        ],
    )
    def test_what_kafka_refuses_is_refused_in_its_words(
        self, broker: BrokerConfig, changed: dict[str, str], cluster_default: bool, message: str
    ) -> None:
        with pytest.raises(KafkaError) as caught:
            DynamicBrokerConfig(broker).validate(changed, cluster_default=cluster_default)
        assert (caught.value.code, caught.value.message) == (ErrorCode.INVALID_REQUEST, message)

    @pytest.mark.parametrize(
        "changed",
        [
            {"log.retention.ms": "-5"},
            {"nonsense": "5"},
            {"listener.name.plaintext.ssl.keystore.location": "/x"},
        ],
    )
    def test_what_kafka_takes_is_taken(self, broker: BrokerConfig, changed: dict[str, str]) -> None:
        DynamicBrokerConfig(broker).validate(changed, cluster_default=False)


@pytest.mark.parametrize("with_file", [False, True])
def test_what_the_command_line_gives_is_static_even_if_it_is_the_default(tmp_path, with_file):
    given = {"listeners": "PLAINTEXT://127.0.0.1:9999", "num.partitions": "1", "log.retention.hours": "168"}
    if with_file:
        file = tmp_path / "server.properties"
        file.write_text("listeners=PLAINTEXT://:9092\n")
        broker = BrokerConfig.load(file, given)
    else:
        broker = BrokerConfig.embedded(given)
    entries = effective_broker_config(broker)
    assert {name: (entries[name].value, entries[name].source) for name in given} == {
        name: (value, STATIC) for name, value in given.items()
    }
    assert entries["num.network.threads"].source is DEFAULT


def test_advertised_listeners_that_follow_from_listeners_are_static():
    broker = BrokerConfig.embedded({"listeners": "PLAINTEXT://127.0.0.1:9999"})
    entry = effective_broker_config(broker)["advertised.listeners"]
    assert (entry.value, entry.source) == ("PLAINTEXT://127.0.0.1:9999", STATIC)

"""A broker reads server.properties like Kafka, and reports errors clearly."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError, embedded_defaults
from ottla.metadata.configs.broker_config_table import BROKER_CONFIGS
from ottla.metadata.nodes import Endpoint

RUNBOOK = """
# Every key that runbooks use
broker.id=3
listeners=PLAINTEXT://:9092
advertised.listeners=PLAINTEXT://broker3.example.com:9092
log.dirs=/data/a,/data/b
zookeeper.connect=zk1:2181,zk2:2181/kafka
zookeeper.session.timeout.ms=6000
num.partitions=3
default.replication.factor=3
log.retention.hours=24
log.retention.minutes=5
log.retention.ms=1000
log.retention.bytes=1073741824
log.segment.bytes=1048576
log.roll.ms=60000
log.cleanup.policy=compact,delete
log.cleaner.backoff.ms=100
min.insync.replicas=2
unclean.leader.election.enable=false
auto.create.topics.enable=false
delete.topic.enable=true
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
group.initial.rebalance.delay.ms=0
broker.rack=r1
replica.lag.time.max.ms=10000
message.max.bytes=2000000
log.message.timestamp.type=LogAppendTime
"""


class TestValues:
    def test_a_runbooks_file_is_read_without_a_warning(self) -> None:
        config = BrokerConfig.parse(RUNBOOK)
        assert config.warnings == []
        assert config.broker_id == 3
        assert config.zookeeper_connect == "zk1:2181,zk2:2181/kafka"
        assert config.log_dirs == [Path("/data/a"), Path("/data/b")]
        assert config.get_int("num.partitions") == 3
        assert config.get_bool("auto.create.topics.enable") is False
        assert config.get_list("log.cleanup.policy") == ["compact", "delete"]
        assert config.get_optional_str("broker.rack") == "r1"
        assert config.advertised_listeners() == (
            Endpoint("PLAINTEXT", "PLAINTEXT", "broker3.example.com", 9092),
        )

    def test_without_a_word_every_value_is_kafkas_default(self) -> None:
        config = BrokerConfig()
        assert set(config.values) == set(BROKER_CONFIGS)
        assert config.get_int("socket.request.max.bytes") == 104857600
        assert config.get_float("log.cleaner.min.cleanable.ratio") == 0.5
        assert config.get_optional_int("log.roll.ms") is None
        assert config.broker_id == -1

    def test_asking_for_another_type_is_a_bug(self) -> None:
        config = BrokerConfig()
        for read in (config.get_bool, config.get_float, config.get_str, config.get_list):
            with pytest.raises(TypeError, match=r"num\.partitions is 1"):
                read("num.partitions")
        for name in ("broker.rack", "auto.create.topics.enable"):
            with pytest.raises(TypeError):
                config.get_int(name)

    @pytest.mark.parametrize(
        ("text", "milliseconds"),
        [
            ("", 7 * 24 * 3600 * 1000),
            ("log.retention.hours=2", 2 * 3600 * 1000),
            ("log.retention.hours=2\nlog.retention.minutes=3", 3 * 60 * 1000),
            ("log.retention.hours=2\nlog.retention.minutes=3\nlog.retention.ms=4", 4),
            ("log.retention.hours=-1", -1),
            ("log.retention.minutes=-7", -1),
            ("log.retention.ms=-7", -1),
        ],
    )
    def test_retention_is_taken_from_the_finest_unit(self, text: str, milliseconds: int) -> None:
        assert BrokerConfig.parse(text).topic_default("retention.ms") == milliseconds

    def test_so_are_roll_jitter_and_flush(self) -> None:
        config = BrokerConfig.parse(
            "log.roll.hours=1\nlog.roll.jitter.hours=1\nlog.flush.scheduler.interval.ms=9"
        )
        names = ("segment.ms", "segment.jitter.ms", "flush.ms")
        assert [config.topic_default(name) for name in names] == [3600_000, 3600_000, 9]
        config = BrokerConfig.parse("log.roll.ms=5\nlog.roll.jitter.ms=6\nlog.flush.interval.ms=7")
        assert [config.topic_default(name) for name in names] == [5, 6, 7]

    def test_log_dir_stands_in_for_log_dirs(self) -> None:
        assert BrokerConfig.parse("log.dir=/one").log_dirs == [Path("/one")]
        assert BrokerConfig.parse("log.dir=/one\nlog.dirs=/two").log_dirs == [Path("/two")]

    def test_the_last_of_several_lines_counts(self) -> None:
        assert BrokerConfig.parse("num.partitions=2\nnum.partitions=4").get_int("num.partitions") == 4

    def test_node_id_is_another_name_for_broker_id(self) -> None:
        assert BrokerConfig.parse("node.id=7").broker_id == 7
        assert BrokerConfig.parse("node.id=7\nbroker.id=7").broker_id == 7


class TestOverrides:
    def test_they_win_over_the_file(self) -> None:
        config = BrokerConfig.parse("num.partitions=2", overrides=["num.partitions=5", " log.dirs = /x "])
        assert config.get_int("num.partitions") == 5
        assert config.log_dirs == [Path("/x")]

    def test_a_mapping_will_do_as_well(self) -> None:
        assert BrokerConfig.embedded({"num.partitions": "5"}).get_int("num.partitions") == 5

    def test_one_without_a_value_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"'num\.partitions' sets nothing; write key=value"):
            BrokerConfig.embedded(["num.partitions"])

    def test_a_bad_one_is_not_blamed_on_the_file(self) -> None:
        with pytest.raises(ConfigError, match=r"^num\.partitions cannot be 'x'"):
            BrokerConfig.parse("num.partitions=2", overrides=["num.partitions=x"])


class TestDefaultsOfOneBroker:
    def test_a_broker_without_a_file_keeps_to_this_machine_and_replicates_nothing(self) -> None:
        config = BrokerConfig.embedded()
        assert config.broker_id == 0
        assert config.listeners[0].host == "127.0.0.1"
        assert config.get_int("offsets.topic.replication.factor") == 1
        assert set(embedded_defaults()) <= set(config.static)

    def test_a_file_without_zookeeper_is_a_broker_on_its_own_that_listens_as_kafka_does(self) -> None:
        config = BrokerConfig.parse("log.dirs=/x")
        assert config.get_int("transaction.state.log.min.isr") == 1
        assert config.listeners[0].host == ""

    def test_a_file_with_zookeeper_has_kafkas_defaults(self) -> None:
        config = BrokerConfig.parse("zookeeper.connect=localhost:2181\nbroker.id=1")
        assert config.get_int("offsets.topic.replication.factor") == 3
        assert config.get_int("group.initial.rebalance.delay.ms") == 3000


class TestWarnings:
    @pytest.mark.parametrize(
        ("line", "warning"),
        [
            (
                "log.retention.hour=1",
                "server.properties:1: log.retention.hour is not a setting of a broker and is ignored; "
                "did you mean log.retention.hours?",
            ),
            ("qqq=1", "server.properties:1: qqq is not a setting of a broker and is ignored."),
            (
                "retention.ms=1",
                "server.properties:1: retention.ms is a setting of topics and is ignored; "
                "did you mean log.retention.ms?",
            ),
            (
                "controller.quorum.voters=1@localhost:9093",
                "server.properties:1: controller.quorum.voters is a setting of Kafka that Ottla does not use"
                "; it is ignored.",
            ),
            ("log.segment.ms=5000", "server.properties:1: log.segment.ms is read as log.roll.ms."),
        ],
    )
    def test_an_unknown_key_is_a_warning_that_helps(self, line: str, warning: str) -> None:
        assert BrokerConfig.parse(line).warnings == [warning]

    def test_the_name_that_people_write_for_log_roll_ms_counts(self) -> None:
        assert BrokerConfig.parse("log.segment.ms=5000").topic_default("segment.ms") == 5000

    def test_settings_of_one_listener_are_known(self) -> None:
        config = BrokerConfig.parse("listener.name.sasl_ssl.plain.sasl.jaas.config=secret")
        assert config.warnings == []


class TestErrors:
    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            (
                "num.partitions=many",
                "server.properties:1: num.partitions cannot be 'many'; give a whole number of at least 1.",
            ),
            (
                "\n\nnum.partitions=0",
                "server.properties:3: num.partitions cannot be '0'; give a whole number of at least 1.",
            ),
            (
                "auto.create.topics.enable=yes",
                "server.properties:1: auto.create.topics.enable cannot be 'yes'; give true or false.",
            ),
            (
                "log.cleanup.policy=shred",
                "server.properties:1: log.cleanup.policy cannot be 'shred'; give one of compact, delete.",
            ),
            (
                "log.retention.ms=0",
                "server.properties:1: log.retention.ms must be unlimited (-1) or, equal or greater than 1.",
            ),
            ("log.segment.ms=0", "server.properties:1: log.roll.ms must be greater than or equal to 1."),
            (
                "listeners=localhost:9092",
                "server.properties:1: listeners: 'localhost:9092' is not a listener: "
                "write NAME://host:port, such as PLAINTEXT://:9092.",
            ),
            (
                "listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://0.0.0.0:9092",
                "server.properties:2: advertised.listeners: clients cannot connect to 0.0.0.0: "
                "name a host that clients can reach, or none at all.",
            ),
            (
                "listener.security.protocol.map=A:B",
                "server.properties:1: listener.security.protocol.map: 'A:B' is not a pair of a listener and "
                "a protocol: write NAME:PROTOCOL with one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL.",
            ),
            (
                "node.id=1\nbroker.id=2",
                "server.properties:1: node.id is 1 but broker.id is 2; set one of them.",
            ),
            ("a=\\u12", "server.properties:1: \\u needs four hexadecimal digits."),
        ],
    )
    def test_a_bad_value_is_one_sentence_with_file_and_line(self, text: str, sentence: str) -> None:
        with pytest.raises(ConfigError) as caught:
            BrokerConfig.parse(text)
        assert str(caught.value) == sentence

    def test_a_file_that_is_not_there_is_one_sentence(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"Cannot read .*none.properties: No such file or directory\."):
            BrokerConfig.load(tmp_path / "none.properties")

    def test_a_file_is_named_in_its_errors(self, tmp_path: Path) -> None:
        file = tmp_path / "server0.properties"
        file.write_text("broker.id=zero\n")
        with pytest.raises(ConfigError, match=r"server0\.properties:1: broker\.id cannot be 'zero'"):
            BrokerConfig.load(file)


class TestListeners:
    def test_the_advertised_port_follows_the_one_that_was_picked(self) -> None:
        config = BrokerConfig.embedded({"listeners": "PLAINTEXT://127.0.0.1:0"})
        (endpoint,) = config.advertised_listeners({"PLAINTEXT": 41234})
        assert str(endpoint) == "PLAINTEXT://127.0.0.1:41234"

    def test_several_listeners_with_names_of_their_own(self) -> None:
        config = BrokerConfig.parse(
            "listeners=INTERNAL://:9092,EXTERNAL://:9093\n"
            "advertised.listeners=INTERNAL://10.0.0.1:9092,EXTERNAL://kafka.example.com:443\n"
            "listener.security.protocol.map=INTERNAL:PLAINTEXT,EXTERNAL:SSL\n"
            "inter.broker.listener.name=internal"
        )
        assert [listener.name for listener in config.listeners] == ["INTERNAL", "EXTERNAL"]
        assert config.advertised_listeners()[1] == Endpoint("EXTERNAL", "SSL", "kafka.example.com", 443)
        assert config.inter_broker_listener_name == "INTERNAL"


class TestDynamic:
    def test_this_broker_wins_over_all_brokers_over_the_file(self) -> None:
        config = BrokerConfig.parse("log.segment.bytes=2000000")
        config.set_dynamic(cluster_default={"log.segment.bytes": "3000000"})
        assert config.get_int("log.segment.bytes") == 3000000
        config.set_dynamic(broker={"log.segment.bytes": "4000000"})
        assert config.get_int("log.segment.bytes") == 4000000
        config.set_dynamic(broker={}, cluster_default={})
        assert config.get_int("log.segment.bytes") == 2000000

    def test_what_was_stored_by_another_version_does_not_stop_the_broker(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        config = BrokerConfig()
        with caplog.at_level(logging.WARNING):
            config.set_dynamic(broker={"log.segment.bytes": "tiny", "unheard.of": "1"})
        assert config.get_int("log.segment.bytes") == 1073741824
        assert "Invalid value tiny for configuration log.segment.bytes" in caplog.text

"""Invalid topic configs are rejected like in Kafka 4.3."""

from __future__ import annotations

import pytest

from ottla.cluster.topics.topic_decisions import check_tiering
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.configs.broker_config_table import BROKER_CONFIGS
from ottla.metadata.configs.config_defs import parse_value
from ottla.metadata.configs.topic_configs import TOPIC_CONFIGS, TOPIC_SYNONYMS, validate_topic_configs
from ottla.metadata.dynamic_configs.effective_config import TopicConfig
from ottla.protocol.errors import ErrorCode, KafkaError


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"nonsense": "1"}, "Unknown topic config name: nonsense"),
        ({"retention.ms": "x", "nonsense": "1"}, "Unknown topic config name: nonsense"),
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
        (
            {"retention.ms": "foo"},
            "Invalid value foo for configuration retention.ms: Not a number of type LONG",
        ),
        (
            {"retention.ms": "-2"},
            "Invalid value -2 for configuration retention.ms: Value must be at least -1",
        ),
        (
            {"cleanup.policy": "foo"},
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ({"cleanup.policy": "delete,"}, "Configuration 'cleanup.policy' values must not be empty."),
        (
            {"compression.type": "GZIP"},
            "Invalid value GZIP for configuration compression.type: String must be one of: "
            "uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        (
            {"leader.replication.throttled.replicas": "*,0:1"},
            "Invalid value [*, 0:1] for configuration leader.replication.throttled.replicas: "
            "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the "
            "following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
    ],
)
def test_what_kafka_refuses_is_refused_in_its_words(configs: dict[str, str | None], message: str) -> None:
    with pytest.raises(KafkaError) as caught:
        validate_topic_configs(configs)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert caught.value.message == message


@pytest.mark.parametrize(
    "configs",
    [
        {},
        {"cleanup.policy": ""},
        {"cleanup.policy": "compact, delete"},
        {"min.cleanable.dirty.ratio": "0.001", "segment.ms": "5000"},
        {"compression.gzip.level": "-1"},
        {"leader.replication.throttled.replicas": "0:1,1:2"},
        {"retention.bytes": "-5"},
        {"internal.segment.bytes": "1000"},
        {"min.insync.replicas": "5"},
    ],
)
def test_what_kafka_takes_is_taken(configs: dict[str, str]) -> None:
    validate_topic_configs(configs)


def test_synonyms_are_broker_configurations_with_the_same_default() -> None:
    for name, synonyms in TOPIC_SYNONYMS.items():
        default = parse_value(TOPIC_CONFIGS[name], TOPIC_CONFIGS[name].default)
        last = BROKER_CONFIGS[synonyms[-1].name]
        value = parse_value(last, last.default)
        assert default == (value * synonyms[-1].factor if isinstance(value, int) else value), name


def test_synonyms_come_in_kafkas_order() -> None:
    assert [synonym.name for synonym in TOPIC_SYNONYMS["retention.ms"]] == [
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    ]
    assert [synonym.name for synonym in TOPIC_SYNONYMS["segment.ms"]] == ["log.roll.ms", "log.roll.hours"]


def test_what_kafka_39_allowed_stays_and_is_not_set_anew() -> None:
    before = {"segment.bytes": "14", "message.format.version": "3.0-IV1", "retention.ms": "1"}
    validate_topic_configs({**before, "retention.ms": "2"}, before)
    for wrong in ({"segment.bytes": "15"}, {"message.format.version": "2.8"}, {"segment.bytes": "13"}):
        with pytest.raises(KafkaError):
            validate_topic_configs({**before, **wrong}, before)
    assert TopicConfig(BrokerConfig(), before).get_int("segment.bytes") == 14
    assert BrokerConfig.parse("log.segment.bytes=200000").get_int("log.segment.bytes") == 200000


_ON = {"remote.storage.enable": "true"}
_OFF_AGAIN = (
    "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote data and "
    "turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If you want to disable "
    "remote storage and delete all remote data, please set "
    "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
)
_IDENTICAL = (
    "must be set to the identical value because there will be no more logs copied to the remote storage."
)


@pytest.mark.parametrize(
    ("configs", "before", "enabled", "message"),
    [
        (
            _ON,
            {},
            False,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        ),
        (
            _ON | {"cleanup.policy": "compact,delete"},
            {},
            True,
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list.",
        ),
        (
            _ON | {"retention.bytes": "10", "local.retention.bytes": "11"},
            {},
            True,
            "Invalid value 11 for configuration local.retention.bytes: "
            "Value must not be more than retention.bytes property value: 10",
        ),
        (
            _ON | {"retention.ms": "10", "local.retention.ms": "-1"},
            {},
            True,
            "Invalid value -1 for configuration local.retention.ms: "
            "Value must not be -1 as retention.ms value is set as 10.",
        ),
        (
            _ON | {"remote.log.copy.disable": "true", "retention.ms": "10", "local.retention.ms": "5"},
            _ON,
            True,
            "When `remote.log.copy.disable` is set to true, the `local.retention.ms` and `retention.ms` "
            + _IDENTICAL,
        ),
        ({"remote.storage.enable": "false"}, _ON, True, _OFF_AGAIN),
        ({}, _ON, True, _OFF_AGAIN),
    ],
)
def test_settings_of_tiered_storage_are_refused_in_kafkas_words(
    configs: dict[str, str], before: dict[str, str], enabled: bool, message: str
) -> None:
    broker = BrokerConfig.embedded({"remote.log.storage.system.enable": str(enabled).lower()})
    with pytest.raises(KafkaError) as caught:
        check_tiering(broker, configs, before)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("configs", "before"),
    [
        (_ON | {"local.retention.bytes": "11"}, {}),
        (_ON | {"cleanup.policy": ""}, {}),
        (_ON | {"remote.log.copy.disable": "true"}, _ON),
        ({"remote.log.delete.on.disable": "true"}, _ON),
        ({"local.retention.ms": "5"}, {}),
    ],
)
def test_settings_of_tiered_storage_that_kafka_accepts(
    configs: dict[str, str], before: dict[str, str]
) -> None:
    check_tiering(BrokerConfig.embedded({"remote.log.storage.system.enable": "true"}), configs, before)

"""Settings of topics that are tables: valid and invalid values, at the broker and in the table job."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from ottla.metadata.configs.topic_configs import TOPIC_CONFIGS, validate_topic_configs
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.table_settings import (
    DEFAULTS,
    FORMAT,
    PREFIX,
    PartitionField,
    TableSettingError,
    parse_partition_spec,
    parse_table_settings,
)
from ottla.testing import Broker

ICEBERG = {FORMAT: "iceberg"}


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("", ()),
        ("region", (PartitionField("region"),)),
        ("(day(__timestamp))", (PartitionField("__timestamp", "day"),)),
        (
            " hour(__timestamp) , bucket(16, customer.id),region",
            (
                PartitionField("__timestamp", "hour"),
                PartitionField("customer.id", "bucket", 16),
                PartitionField("region"),
            ),
        ),
        ("truncate(4, name)", (PartitionField("name", "truncate", 4),)),
    ],
)
def test_a_partition_spec_is_a_list_of_columns_and_transforms(
    text: str, fields: tuple[PartitionField, ...]
) -> None:
    assert parse_partition_spec(text) == fields


REFUSED = [
    ({FORMAT: "hudi"}, "String must be one of: iceberg, delta"),
    ({**ICEBERG, f"{PREFIX}mode": "avro"}, "String must be one of: key_value, value_schema_id"),
    ({**ICEBERG, f"{PREFIX}write.mode": "merge"}, "String must be one of: append, upsert"),
    ({**ICEBERG, f"{PREFIX}target.lag.ms": "0"}, "Value must be at least 1"),
    ({**ICEBERG, f"{PREFIX}target.lag.ms": "soon"}, "Not a number of type LONG"),
    ({**ICEBERG, f"{PREFIX}namespace": "a..b"}, "it must be names of letters, digits, _ and -"),
    ({**ICEBERG, f"{PREFIX}catalog": ""}, "it must be a name of letters, digits, _ and -"),
    ({**ICEBERG, f"{PREFIX}partition.spec": "day("}, "it must be a list such as day(__timestamp)"),
    ({**ICEBERG, f"{PREFIX}partition.spec": "a,"}, "it must be a list such as day(__timestamp)"),
    ({**ICEBERG, f"{PREFIX}partition.spec": "week(a)"}, "week is none of identity, year, month"),
    ({**ICEBERG, f"{PREFIX}partition.spec": "bucket(a)"}, "bucket needs a number, as in bucket(16, a)"),
    ({**ICEBERG, f"{PREFIX}partition.spec": "day(3, a)"}, "day takes no number"),
    ({**ICEBERG, f"{PREFIX}partition.spec": "a, a"}, "it names the same partition twice"),
    ({FORMAT: "delta", f"{PREFIX}partition.spec": "day(a)"}, "a Delta table names columns only, and not day"),
    ({**ICEBERG, f"{PREFIX}speed": "9"}, "Unknown topic config name: ottla.table.speed"),
]


@pytest.mark.parametrize(("configs", "reason"), REFUSED)
def test_the_broker_refuses_bad_values_in_one_sentence(configs: dict[str, str], reason: str) -> None:
    with pytest.raises(KafkaError) as caught:
        validate_topic_configs(configs)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert reason in (caught.value.message or "")


@pytest.mark.parametrize("configs", [configs for configs, _ in REFUSED])
def test_so_does_the_table_job_for_topics_of_other_brokers(configs: dict[str, str]) -> None:
    with pytest.raises(TableSettingError) as caught:
        parse_table_settings("orders", configs)
    assert str(caught.value).startswith("Topic orders")
    assert str(caught.value).endswith(".")


def test_the_defaults_of_broker_and_table_job_agree() -> None:
    ours = {name: each.default for name, each in TOPIC_CONFIGS.items() if name.startswith(PREFIX)}
    assert ours == {FORMAT: None, **DEFAULTS}
    validate_topic_configs({**ICEBERG, **DEFAULTS})
    assert parse_table_settings("orders", {**ICEBERG, **DEFAULTS}) == parse_table_settings("orders", ICEBERG)
    assert parse_table_settings("orders", {"retention.ms": "1"}) is None


def test_clients_set_and_see_them_like_every_topic_config(ottla_broker: Broker) -> None:
    ottla_broker.create_topic("lake", config={FORMAT: "iceberg", f"{PREFIX}target.lag.ms": "1000"})
    admin = AdminClient({"bootstrap.servers": ottla_broker.bootstrap_servers})
    resource = ConfigResource(ResourceType.TOPIC, "lake")
    [described] = admin.describe_configs([resource]).values()
    found = {name: each.value for name, each in described.result().items() if name.startswith(PREFIX)}
    assert found == {FORMAT: "iceberg", f"{PREFIX}target.lag.ms": "1000"}
    wrong = ConfigEntry(FORMAT, "csv", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "lake", incremental_configs=[wrong])
    [altered] = admin.incremental_alter_configs([resource]).values()
    with pytest.raises(KafkaException, match="must be one of: iceberg, delta"):
        altered.result()

"""Settings of the JDBC sink: Confluent's names and defaults, plus our own `offsets.table`."""

from __future__ import annotations

from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance, at_least, one_of
from ottla.connect.connectors.jdbc.source_config import connection_settings

SINK_CONFIG = (
    connection_settings(ConfigDef())
    .define(
        "insert.mode",
        ConfigType.STRING,
        "insert",
        Importance.HIGH,
        "insert, upsert (by the primary key) or update.",
        validator=one_of("insert", "upsert", "update"),
    )
    .define(
        "batch.size",
        ConfigType.INT,
        3000,
        Importance.MEDIUM,
        "Records that one statement is given at most.",
        validator=at_least(1),
    )
    .define(
        "delete.enabled",
        ConfigType.BOOLEAN,
        False,
        Importance.MEDIUM,
        "Whether a record without a value deletes the row of its key. Needs pk.mode=record_key.",
    )
    .define("table.types", ConfigType.LIST, ["TABLE"], Importance.LOW, "Accepted for Confluent's sake.")
    .define(
        "table.name.format",
        ConfigType.STRING,
        "${topic}",
        Importance.MEDIUM,
        "The table, with ${topic} for the topic's name; a schema or database goes before it with a point.",
    )
    .define(
        "pk.mode",
        ConfigType.STRING,
        "none",
        Importance.HIGH,
        "Where the primary key comes from: none, kafka (topic, partition, offset), record_key or record_value.",
        validator=one_of("none", "kafka", "record_key", "record_value"),
    )
    .define("pk.fields", ConfigType.LIST, [], Importance.MEDIUM, "Names of the primary key's columns.")
    .define(
        "fields.whitelist",
        ConfigType.LIST,
        [],
        Importance.MEDIUM,
        "The fields of the value to store; empty: all. Fields of the primary key are always stored.",
    )
    .define(
        "auto.create", ConfigType.BOOLEAN, False, Importance.MEDIUM, "Whether a missing table is created."
    )
    .define("auto.evolve", ConfigType.BOOLEAN, False, Importance.MEDIUM, "Whether missing columns are added.")
    .define(
        "max.retries",
        ConfigType.INT,
        10,
        Importance.MEDIUM,
        "How often a batch is tried again after an error that may go away.",
        validator=at_least(0),
    )
    .define(
        "retry.backoff.ms",
        ConfigType.INT,
        3000,
        Importance.MEDIUM,
        "Pause before the batch is tried again.",
        validator=at_least(0),
    )
    .define(
        "offsets.table",
        ConfigType.STRING,
        "",
        Importance.LOW,
        "A table that keeps, in the transaction of each batch, up to which offset each partition is stored. With it "
        "every insert.mode is exactly once, also without a primary key.",
    )
)

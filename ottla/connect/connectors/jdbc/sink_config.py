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
        "Maximum records per statement.",
        validator=at_least(1),
    )
    .define(
        "delete.enabled",
        ConfigType.BOOLEAN,
        False,
        Importance.MEDIUM,
        "Delete the row for a record without a value. Requires pk.mode=record_key.",
    )
    .define(
        "table.types",
        ConfigType.LIST,
        ["TABLE"],
        Importance.LOW,
        ("No effect; accepted for compatibility with Confluent."),
    )
    .define(
        "table.name.format",
        ConfigType.STRING,
        "${topic}",
        Importance.MEDIUM,
        "Table, optionally with schema or database (schema.table); ${topic} is replaced by the topic.",
    )
    .define(
        "pk.mode",
        ConfigType.STRING,
        "none",
        Importance.HIGH,
        "Source of the primary key: none, kafka (topic, partition, offset), record_key or record_value.",
        validator=one_of("none", "kafka", "record_key", "record_value"),
    )
    .define("pk.fields", ConfigType.LIST, [], Importance.MEDIUM, "Names of the primary key's columns.")
    .define(
        "fields.whitelist",
        ConfigType.LIST,
        [],
        Importance.MEDIUM,
        "Fields of the value to store. Fields of the primary key are always stored. [default: all]",
    )
    .define("auto.create", ConfigType.BOOLEAN, False, Importance.MEDIUM, "Create a missing table.")
    .define("auto.evolve", ConfigType.BOOLEAN, False, Importance.MEDIUM, "Add missing columns.")
    .define(
        "max.retries",
        ConfigType.INT,
        10,
        Importance.MEDIUM,
        "Number of retries of a batch after a temporary error.",
        validator=at_least(0),
    )
    .define(
        "retry.backoff.ms",
        ConfigType.INT,
        3000,
        Importance.MEDIUM,
        "Time before a retry.",
        validator=at_least(0),
    )
    .define(
        "offsets.table",
        ConfigType.STRING,
        "",
        Importance.LOW,
        (
            "Table for the offsets of each partition, updated in the transaction of each batch. With "
            "it every insert.mode is exactly once, even without a primary key."
        ),
    )
)

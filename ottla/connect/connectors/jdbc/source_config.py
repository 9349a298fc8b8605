"""Settings of the JDBC source, with Confluent's names and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance, at_least, one_of
from ottla.connect.connectors.jdbc.column_schemas import GRANULARITIES
from ottla.connect.connectors.jdbc.criteria import Criteria

MODES = ("bulk", "incrementing", "timestamp", "timestamp+incrementing")


def connection_settings(definition: ConfigDef) -> ConfigDef:
    return (
        definition.define(
            "connection.url",
            ConfigType.STRING,
            importance=Importance.HIGH,
            documentation="Where the database is: jdbc:postgresql://host:port/database, jdbc:mariadb://…, "
            "jdbc:mysql://… or jdbc:sqlite:/path.",
        )
        .define("connection.user", ConfigType.STRING, None, Importance.HIGH, "The user to log in with.")
        .define("connection.password", ConfigType.PASSWORD, None, Importance.HIGH, "The user's password.")
        .define(
            "connection.attempts",
            ConfigType.INT,
            3,
            Importance.LOW,
            "How often a connection is tried before the task fails.",
            validator=at_least(1),
        )
        .define(
            "connection.backoff.ms",
            ConfigType.LONG,
            10_000,
            Importance.LOW,
            "Pause between the attempts to connect.",
        )
        .define(
            "dialect.name",
            ConfigType.STRING,
            "",
            Importance.LOW,
            "The dialect, if it is not to be found by connection.url: PostgreSqlDatabaseDialect, "
            "MySqlDatabaseDialect or SqliteDatabaseDialect.",
        )
        .define(
            "db.timezone",
            ConfigType.STRING,
            "UTC",
            Importance.MEDIUM,
            "The time zone of times that the database keeps without one.",
        )
        .define(
            "quote.sql.identifiers",
            ConfigType.STRING,
            "ALWAYS",
            Importance.MEDIUM,
            "Whether names of tables and columns are quoted.",
            validator=lambda name, value: one_of("ALWAYS", "NEVER")(name, str(value).upper()),
        )
    )


SOURCE_CONFIG = (
    connection_settings(ConfigDef())
    .define(
        "topic.prefix",
        ConfigType.STRING,
        "",
        Importance.HIGH,
        "Before the table's name it gives the topic; with query it is the topic.",
    )
    .define(
        "mode",
        ConfigType.STRING,
        importance=Importance.HIGH,
        documentation="How new rows are found: bulk reads everything each time, incrementing by a number that "
        "grows, timestamp by a time that grows, timestamp+incrementing by both.",
        validator=one_of(*MODES),
    )
    .define(
        "incrementing.column.name",
        ConfigType.STRING,
        "",
        Importance.MEDIUM,
        "The column that grows; empty: the one that the database counts up.",
    )
    .define(
        "timestamp.column.name",
        ConfigType.LIST,
        [],
        Importance.MEDIUM,
        "Columns of the time of the last change: the first that is not null counts.",
    )
    .define(
        "timestamp.initial",
        ConfigType.LONG,
        None,
        Importance.LOW,
        "Where to begin, in milliseconds since 1970; -1 is now.",
    )
    .define(
        "validate.non.null",
        ConfigType.BOOLEAN,
        True,
        Importance.LOW,
        "Whether incrementing and timestamp columns must be NOT NULL.",
    )
    .define(
        "query",
        ConfigType.STRING,
        "",
        Importance.MEDIUM,
        "A query to read instead of tables. Conditions are appended to it.",
    )
    .define("query.suffix", ConfigType.STRING, "", Importance.LOW, "Appended to each query.")
    .define("table.whitelist", ConfigType.LIST, [], Importance.MEDIUM, "The tables to read.")
    .define("table.blacklist", ConfigType.LIST, [], Importance.MEDIUM, "Tables not to read.")
    .define(
        "table.include.list",
        ConfigType.LIST,
        [],
        Importance.MEDIUM,
        "Patterns of the tables to read, as catalog.schema.table.",
    )
    .define("table.exclude.list", ConfigType.LIST, [], Importance.MEDIUM, "Patterns of tables not to read.")
    .define(
        "catalog.pattern",
        ConfigType.STRING,
        None,
        Importance.MEDIUM,
        "Reads only tables of catalogs that this LIKE pattern matches.",
    )
    .define(
        "schema.pattern",
        ConfigType.STRING,
        None,
        Importance.MEDIUM,
        "Reads only tables of schemas that this LIKE pattern matches.",
    )
    .define(
        "table.types",
        ConfigType.LIST,
        ["TABLE"],
        Importance.LOW,
        "TABLE, VIEW …: which kinds of tables are read.",
    )
    .define(
        "numeric.mapping",
        ConfigType.STRING,
        None,
        Importance.LOW,
        "What becomes of NUMERIC and DECIMAL.",
        validator=lambda name, value: (
            value is None
            or one_of("none", "precision_only", "best_fit", "best_fit_eager_double")(name, value)
        ),
    )
    .define(
        "numeric.precision.mapping",
        ConfigType.BOOLEAN,
        False,
        Importance.LOW,
        "Old name of numeric.mapping=precision_only.",
    )
    .define(
        "timestamp.granularity",
        ConfigType.STRING,
        "connect_logical",
        Importance.LOW,
        "How timestamps are written.",
        validator=one_of(*GRANULARITIES),
    )
    .define(
        "timestamp.delay.interval.ms",
        ConfigType.LONG,
        0,
        Importance.HIGH,
        "Rows younger than this wait, as transactions with older times may still be open.",
    )
    .define(
        "poll.interval.ms", ConfigType.INT, 5000, Importance.HIGH, "Pause between two queries of a table."
    )
    .define(
        "batch.max.rows",
        ConfigType.INT,
        100,
        Importance.LOW,
        "Rows that one poll returns at most, except for more rows of one time.",
        validator=at_least(1),
    )
    .define(
        "table.poll.interval.ms",
        ConfigType.LONG,
        60_000,
        Importance.LOW,
        "Accepted; new tables are found when the connector starts.",
    )
)


def read_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Derive newer settings from their older names."""
    if settings["numeric.mapping"] is None:
        settings["numeric.mapping"] = "precision_only" if settings["numeric.precision.mapping"] else "none"
    return settings


def criteria_of(settings: Mapping[str, Any]) -> Criteria:
    mode = settings["mode"]
    by_number = "incrementing" in mode
    return Criteria(
        settings["incrementing.column.name"] if by_number else None,
        settings["timestamp.column.name"] if "timestamp" in mode else [],
    )

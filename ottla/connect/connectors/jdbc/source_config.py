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
            documentation=(
                "URL of the database: jdbc:postgresql://host:port/database, jdbc:mariadb://…, "
                "jdbc:mysql://… or jdbc:sqlite:/path."
            ),
        )
        .define("connection.user", ConfigType.STRING, None, Importance.HIGH, "User name.")
        .define("connection.password", ConfigType.PASSWORD, None, Importance.HIGH, "Password.")
        .define(
            "connection.attempts",
            ConfigType.INT,
            3,
            Importance.LOW,
            "Number of connection attempts before the task fails.",
            validator=at_least(1),
        )
        .define(
            "connection.backoff.ms",
            ConfigType.LONG,
            10_000,
            Importance.LOW,
            "Time between connection attempts.",
        )
        .define(
            "dialect.name",
            ConfigType.STRING,
            "",
            Importance.LOW,
            (
                "Dialect, if connection.url does not imply it: PostgreSqlDatabaseDialect, "
                "MySqlDatabaseDialect or SqliteDatabaseDialect."
            ),
        )
        .define(
            "db.timezone",
            ConfigType.STRING,
            "UTC",
            Importance.MEDIUM,
            "Time zone of database times without a zone.",
        )
        .define(
            "quote.sql.identifiers",
            ConfigType.STRING,
            "ALWAYS",
            Importance.MEDIUM,
            "Quote the names of tables and columns.",
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
        "Prefix of the topic, followed by the table name. With query it is the whole topic name.",
    )
    .define(
        "mode",
        ConfigType.STRING,
        importance=Importance.HIGH,
        documentation=(
            "Detection of new rows: bulk reads everything each time, incrementing uses a growing "
            "number, timestamp a growing time, timestamp+incrementing both."
        ),
        validator=one_of(*MODES),
    )
    .define(
        "incrementing.column.name",
        ConfigType.STRING,
        "",
        Importance.MEDIUM,
        "Growing column. [default: the auto-increment column]",
    )
    .define(
        "timestamp.column.name",
        ConfigType.LIST,
        [],
        Importance.MEDIUM,
        "Columns with the time of the last change. The first that is not null is used.",
    )
    .define(
        "timestamp.initial",
        ConfigType.LONG,
        None,
        Importance.LOW,
        "Start time in milliseconds since 1970; -1 means now.",
    )
    .define(
        "validate.non.null",
        ConfigType.BOOLEAN,
        True,
        Importance.LOW,
        "Require NOT NULL for incrementing and timestamp columns.",
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
    .define("table.blacklist", ConfigType.LIST, [], Importance.MEDIUM, "Tables to skip.")
    .define(
        "table.include.list",
        ConfigType.LIST,
        [],
        Importance.MEDIUM,
        "Patterns of the tables to read, as catalog.schema.table.",
    )
    .define("table.exclude.list", ConfigType.LIST, [], Importance.MEDIUM, "Patterns of tables to skip.")
    .define(
        "catalog.pattern",
        ConfigType.STRING,
        None,
        Importance.MEDIUM,
        "LIKE pattern of the catalogs to read.",
    )
    .define(
        "schema.pattern",
        ConfigType.STRING,
        None,
        Importance.MEDIUM,
        "LIKE pattern of the schemas to read.",
    )
    .define(
        "table.types",
        ConfigType.LIST,
        ["TABLE"],
        Importance.LOW,
        "Types of tables to read: TABLE, VIEW, …",
    )
    .define(
        "numeric.mapping",
        ConfigType.STRING,
        None,
        Importance.LOW,
        "Mapping of NUMERIC and DECIMAL.",
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
        "Format of timestamps.",
        validator=one_of(*GRANULARITIES),
    )
    .define(
        "timestamp.delay.interval.ms",
        ConfigType.LONG,
        0,
        Importance.HIGH,
        "Minimum age of rows. Transactions with older times may still be open.",
    )
    .define(
        "poll.interval.ms", ConfigType.INT, 5000, Importance.HIGH, ("Time between two queries of a table.")
    )
    .define(
        "batch.max.rows",
        ConfigType.INT,
        100,
        Importance.LOW,
        "Maximum rows per poll. Rows with the same time stay together.",
        validator=at_least(1),
    )
    .define(
        "table.poll.interval.ms",
        ConfigType.LONG,
        60_000,
        Importance.LOW,
        "No effect; new tables are found when the connector starts.",
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

"""Settings shared by Debezium's relational connectors, with Debezium's names and defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance, at_least, one_of
from ottla.connect.connectors.cdc import decimals, temporal

_STRING, _LIST, _INT, _LONG, _BOOLEAN = (
    ConfigType.STRING,
    ConfigType.LIST,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.BOOLEAN,
)


def common_settings(*, port: int, schemas: str, database_required: bool) -> ConfigDef:
    """`schemas` is the database's word for the qualifier of a table name: schema or database."""
    definition = ConfigDef()

    def low(name: str, type_: ConfigType, default: Any, text: str, validator: Any = None) -> None:
        definition.define(name, type_, default, Importance.LOW, text, validator=validator)

    def medium(name: str, type_: ConfigType, default: Any, text: str, validator: Any = None) -> None:
        definition.define(name, type_, default, Importance.MEDIUM, text, validator=validator)

    definition.define(
        "topic.prefix",
        _STRING,
        importance=Importance.HIGH,
        documentation="Name of the database server: the prefix of topics, and part of the offsets' keys.",
    )
    definition.define(
        "database.hostname", _STRING, importance=Importance.HIGH, documentation="Host of the server."
    )
    definition.define("database.port", _INT, port, Importance.HIGH, "The server's port.")
    definition.define("database.user", _STRING, importance=Importance.HIGH, documentation="User name.")
    definition.define("database.password", ConfigType.PASSWORD, None, Importance.HIGH, "Password.")
    if database_required:
        definition.define(
            "database.dbname", _STRING, importance=Importance.HIGH, documentation="The database to capture."
        )
    medium("table.include.list", _LIST, [], f"Patterns of the tables to capture, as {schemas}.table.")
    medium("table.exclude.list", _LIST, [], f"Patterns of tables not to capture, as {schemas}.table.")
    medium(f"{schemas}.include.list", _LIST, [], f"Patterns of the {schemas}s to capture.")
    medium(f"{schemas}.exclude.list", _LIST, [], f"Patterns of {schemas}s not to capture.")
    medium(
        "column.include.list", _LIST, [], f"Patterns of the columns to capture, as {schemas}.table.column."
    )
    medium(
        "column.exclude.list", _LIST, [], f"Patterns of columns not to capture, as {schemas}.table.column."
    )
    medium("tombstones.on.delete", _BOOLEAN, True, "Write a tombstone after a delete.")
    medium("decimal.handling.mode", _STRING, "precise", "precise, double or string.", one_of(*decimals.MODES))
    medium("binary.handling.mode", _STRING, "bytes", "Format of binary columns.",
        one_of("bytes", "base64", "base64-url-safe", "hex"))  # fmt: skip
    medium("skipped.operations", _LIST, ["t"], "Operations to skip: c, u, d, t, or none.")
    medium("provide.transaction.metadata", _BOOLEAN, False, "Add transaction metadata to changes.")
    medium(
        "topic.transaction", _STRING, "transaction", "End of the name of the topic with transaction metadata."
    )
    medium("heartbeat.interval.ms", _INT, 0,
        "Interval of heartbeats, which advance the offset while there are no changes.",
        at_least(0))  # fmt: skip
    low(
        "topic.heartbeat.prefix",
        _STRING,
        "__debezium-heartbeat",
        "Prefix of the heartbeat topic, followed by topic.prefix.",
    )
    low("max.batch.size", _INT, 2048, "Maximum records per poll.", at_least(1))
    low("max.queue.size", _INT, 8192, "Number of changes to fetch at once.", at_least(1))
    low(
        "poll.interval.ms",
        _LONG,
        500,
        "Time before reading the log again when there are no new changes.",
        at_least(0),
    )
    low(
        "snapshot.fetch.size",
        _INT,
        10_240,
        "Rows per fetch during a snapshot.",
        at_least(1),
    )
    low(
        "message.key.columns",
        _STRING,
        "",
        f"Key columns: {schemas}.table:a,b;{schemas}.table2:c",
    )
    low(
        "extended.headers.enabled",
        _BOOLEAN,
        True,
        "Add headers with the names of connector and task to each record.",
    )
    low("unavailable.value.placeholder", _STRING, "__debezium_unavailable_value",
        "Placeholder for a value that the database did not send.")  # fmt: skip
    return definition


def time_precision(definition: ConfigDef, default: str) -> ConfigDef:
    return definition.define(
        "time.precision.mode",
        _STRING,
        default,
        Importance.MEDIUM,
        "Format of dates and times.",
        validator=one_of(*temporal.MODES),
    )


def snapshot_mode(definition: ConfigDef, *modes: str) -> ConfigDef:
    return definition.define(
        "snapshot.mode",
        _STRING,
        "initial",
        Importance.MEDIUM,
        "When to read whole tables before their changes: " + ", ".join(modes),
        validator=_lower(one_of(*modes)),
    )


def _lower(check: Callable[[str, Any], None]) -> Callable[[str, Any], None]:
    return lambda name, value: check(name, str(value).lower())


def key_columns(text: str) -> dict[str, list[str]]:
    found = {}
    for part in filter(None, (each.strip() for each in text.split(";"))):
        table, _, columns = part.rpartition(":")
        found[table.strip()] = [each.strip() for each in columns.split(",")]
    return found

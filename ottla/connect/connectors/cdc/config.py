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
        documentation="The name of the database server: topics begin with it, and offsets are kept by it.",
    )
    definition.define(
        "database.hostname", _STRING, importance=Importance.HIGH, documentation="Where the server is."
    )
    definition.define("database.port", _INT, port, Importance.HIGH, "The server's port.")
    definition.define(
        "database.user", _STRING, importance=Importance.HIGH, documentation="The user to log in with."
    )
    definition.define("database.password", ConfigType.PASSWORD, None, Importance.HIGH, "The user's password.")
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
    medium(
        "tombstones.on.delete", _BOOLEAN, True, "Whether a delete is followed by a record without a value."
    )
    medium("decimal.handling.mode", _STRING, "precise", "precise, double or string.", one_of(*decimals.MODES))
    medium("binary.handling.mode", _STRING, "bytes", "How binary columns are written.",
        one_of("bytes", "base64", "base64-url-safe", "hex"))  # fmt: skip
    medium(
        "skipped.operations", _LIST, ["t"], "Of c, u, d, t: changes that are not published; none for no such."
    )
    medium(
        "provide.transaction.metadata", _BOOLEAN, False, "Whether changes say their place in the transaction."
    )
    medium("heartbeat.interval.ms", _INT, 0, "How often a heartbeat moves the offset while nothing is captured.",
        at_least(0))  # fmt: skip
    low(
        "topic.heartbeat.prefix",
        _STRING,
        "__debezium-heartbeat",
        "Before topic.prefix it gives the heartbeats' topic.",
    )
    low("max.batch.size", _INT, 2048, "Records that one poll returns at most.", at_least(1))
    low("max.queue.size", _INT, 8192, "Changes that are asked for at once.", at_least(1))
    low(
        "poll.interval.ms",
        _LONG,
        500,
        "Pause before the log is read again after there was nothing new.",
        at_least(0),
    )
    low(
        "snapshot.fetch.size",
        _INT,
        10_240,
        "Rows that are fetched at once while a snapshot is taken.",
        at_least(1),
    )
    low(
        "message.key.columns",
        _STRING,
        "",
        f"Columns that are to be the key: {schemas}.table:a,b;{schemas}.table2:c",
    )
    low("unavailable.value.placeholder", _STRING, "__debezium_unavailable_value",
        "Stands for a value that the database did not send.")  # fmt: skip
    return definition


def time_precision(definition: ConfigDef, default: str) -> ConfigDef:
    return definition.define(
        "time.precision.mode",
        _STRING,
        default,
        Importance.MEDIUM,
        "How dates and times are written.",
        validator=one_of(*temporal.MODES),
    )


def snapshot_mode(definition: ConfigDef, *modes: str) -> ConfigDef:
    return definition.define(
        "snapshot.mode",
        _STRING,
        "initial",
        Importance.MEDIUM,
        "When the tables are read as they are, before their changes: " + ", ".join(modes),
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

"""The sink for Iceberg tables, based on pyiceberg, with the settings of Iceberg's own Kafka Connect sink.

The connector class is `org.apache.iceberg.connect.IcebergSinkConnector`. Delivery is exactly once: the summary of each
snapshot holds the next offsets of all partitions in the table. A restarted task reads them from the newest snapshot
that has them and skips the stored records.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyiceberg import exceptions, expressions
from pyiceberg.catalog import load_catalog

from ottla.connect.api import Config, SinkConnector, SinkTaskContext, TopicPartition
from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance, one_of
from ottla.connect.config.local_files import local_path
from ottla.connect.connectors.tables.changes import Change, ChangeRules, where
from ottla.connect.connectors.tables.schemas import by_name, new_columns, rows_table
from ottla.connect.connectors.tables.sink import (
    Conflict,
    TableSinkTask,
    TableWriter,
    raised,
    strip_prefix,
)
from ottla.connect.connectors.values.plain import field_value
from ottla.connect.data.record import SinkRecord
from ottla.connect.errors import ConnectError, DataError

_HIGH, _MEDIUM = Importance.HIGH, Importance.MEDIUM
_CATALOG = "iceberg.catalog."
_PLACES = (f"{_CATALOG}warehouse", f"{_CATALOG}uri")


class IcebergSinkConnector(SinkConnector):
    config_def = (
        ConfigDef()
        .define("iceberg.tables", ConfigType.LIST, [], _HIGH, ("Tables; ${topic} is replaced by the topic."))
        .define(
            "iceberg.tables.dynamic-enabled",
            ConfigType.BOOLEAN,
            False,
            _MEDIUM,
            "Read the table name from the route field.",
        )
        .define(
            "iceberg.tables.route-field",
            ConfigType.STRING,
            "",
            _MEDIUM,
            "Field with the table of a record.",
        )
        .define(
            "iceberg.tables.auto-create-enabled",
            ConfigType.BOOLEAN,
            False,
            _MEDIUM,
            "Create missing tables.",
        )
        .define(
            "iceberg.tables.evolve-schema-enabled",
            ConfigType.BOOLEAN,
            False,
            _MEDIUM,
            "Add missing columns to the tables.",
        )
        .define(
            "iceberg.tables.upsert-mode-enabled",
            ConfigType.BOOLEAN,
            False,
            _MEDIUM,
            "Replace the row with the record's key.",
        )
        .define("iceberg.tables.default-id-columns", ConfigType.LIST, [], _MEDIUM, "The columns of the key.")
        .define(
            "iceberg.tables.cdc-field",
            ConfigType.STRING,
            "",
            _MEDIUM,
            "Field with the operation: insert, update or delete.",
        )
        .define(
            "cdc.envelope",
            ConfigType.STRING,
            "none",
            _MEDIUM,
            "Read values as changes in Debezium's envelope.",
            validator=one_of("none", "debezium"),
        )
        .define(
            "iceberg.catalog",
            ConfigType.STRING,
            "iceberg",
            _MEDIUM,
            "The name of the catalog; iceberg.catalog.* are its properties.",
        )
    )
    summary = "Iceberg tables, by appending or by key"
    delivery = "exactly once by offsets in the summaries of snapshots"

    def local_paths(self, config: Config) -> Mapping[str, str]:
        given = {name: local_path(config[name]) for name in _PLACES if config.get(name)}
        return {name: path for name, path in given.items() if path is not None}

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        parsed = self.config_def.parse(config)
        if parsed["iceberg.tables.dynamic-enabled"]:
            if not parsed["iceberg.tables.route-field"]:
                return {"iceberg.tables.route-field": ["Must be set with iceberg.tables.dynamic-enabled."]}
        elif not parsed["iceberg.tables"]:
            return {"iceberg.tables": ["Must specify table name(s)."]}
        return {}

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config) for _ in range(max_tasks)]


class IcebergSinkTask(TableSinkTask):
    def start(self, config: Config, context: SinkTaskContext) -> None:
        super().start(config, context)
        self._settings = IcebergSinkConnector.config_def.parse(config)
        properties = strip_prefix(config, _CATALOG)
        try:
            self._catalog = load_catalog(self._settings["iceberg.catalog"], **properties)
            self._catalog.list_namespaces()
        except Exception as error:
            # Every catalog type raises different errors.
            raise raised(error, "The Iceberg catalog cannot be used: check iceberg.catalog.*") from None

    def rules(self, table: str) -> ChangeRules:
        settings = self._settings
        columns = self._columns(table)
        cdc = settings["iceberg.tables.cdc-field"]
        debezium = settings["cdc.envelope"] == "debezium"
        upsert = settings["iceberg.tables.upsert-mode-enabled"] or bool(cdc) or debezium
        return ChangeRules(
            upsert=upsert,
            key_from="record_value" if columns else "record_key",
            key_fields=columns,
            deletes=upsert and not columns,
            debezium=debezium,
            operation_field=cdc,
        )

    def _columns(self, table: str) -> list[str]:
        own = self.config.get(f"iceberg.table.{table}.id-columns")
        if own:
            return [each.strip() for each in own.split(",")]
        columns: list[str] = self._settings["iceberg.tables.default-id-columns"]
        return columns

    def tables(self, record: SinkRecord) -> Sequence[str]:
        names = [each.replace("${topic}", record.topic) for each in self._settings["iceberg.tables"]]
        field = self._settings["iceberg.tables.route-field"]
        if not field:
            return names
        try:
            route = str(field_value(record.value, field))
        except KeyError:
            raise DataError(
                f"{where(record)} has no field {field!r}, which iceberg.tables.route-field names."
            ) from None
        if self._settings["iceberg.tables.dynamic-enabled"]:
            return [route.lower()]
        return [
            name
            for name in names
            if re.fullmatch(self.config.get(f"iceberg.table.{name}.route-regex", "(?!)"), route)
        ]

    def open_table(self, name: str) -> TableWriter:
        return IcebergTableWriter(self._catalog, name, self.config.get("name", ""), self._settings)


class IcebergTableWriter:
    def __init__(self, catalog: Any, name: str, connector: str, settings: Mapping[str, Any]) -> None:
        self._catalog, self._name, self._settings = catalog, name, settings
        self._property = f"kafka.connect.offsets.{connector}"
        self._table: Any = None
        self.refresh()

    def refresh(self) -> None:
        try:
            self._table = _without_retries(self._catalog.load_table(self._name))
        except (exceptions.NoSuchTableError, exceptions.NoSuchNamespaceError):
            if not self._settings["iceberg.tables.auto-create-enabled"]:
                raise ConnectError(
                    f"There is no Iceberg table {self._name}. Create it, or set "
                    "iceberg.tables.auto-create-enabled to true."
                ) from None
            self._table = None
        except (exceptions.RESTError, OSError, ValueError) as error:
            raise raised(error, f"The Iceberg table {self._name} cannot be opened") from None

    def _offsets(self) -> dict[str, int]:
        """Return the offsets of the newest snapshot with offsets. Compaction, for example, writes none."""
        snapshot = None if self._table is None else self._table.current_snapshot()
        while snapshot is not None:
            found = snapshot.summary.additional_properties.get(self._property) if snapshot.summary else None
            if found is not None:
                offsets: dict[str, int] = json.loads(found)
                return offsets
            snapshot = (
                None
                if snapshot.parent_snapshot_id is None
                else self._table.snapshot_by_id(snapshot.parent_snapshot_id)
            )
        return {}

    def committed(self, at: TopicPartition) -> int:
        return self._offsets().get(f"{at.topic}-{at.partition}", 0)

    def write(
        self, changes: Sequence[Change], key_columns: Sequence[str], offsets: Mapping[TopicPartition, int]
    ) -> None:
        rows = rows_table(changes, small_integers=False)
        if self._table is None:
            if rows.num_columns == 0:
                return
            self._create(rows.schema)
        known = self._offsets() | {f"{at.topic}-{at.partition}": offset for at, offset in offsets.items()}
        summary = {self._property: json.dumps(known, sort_keys=True)}
        try:
            self._commit(changes, rows, key_columns, summary)
        except (exceptions.CommitFailedException, exceptions.ValidationException) as error:
            raise Conflict(
                f"The Iceberg table {self._name} is being changed by somebody else: {error}."
            ) from None
        except (exceptions.RESTError, exceptions.ValidationError, OSError, ValueError) as error:
            raise raised(error, f"The Iceberg table {self._name} cannot be written") from None
        self.refresh()

    def _create(self, schema: Any) -> None:
        namespace = self._name.rpartition(".")[0]
        try:
            if namespace:
                self._catalog.create_namespace_if_not_exists(namespace)
            self._table = _without_retries(self._catalog.create_table(self._name, schema))
        except exceptions.TableAlreadyExistsError:
            raise Conflict(f"The Iceberg table {self._name} was created by somebody else.") from None
        except (exceptions.RESTError, OSError, ValueError) as error:
            raise raised(error, f"The Iceberg table {self._name} cannot be created") from None

    def _commit(
        self, changes: Sequence[Change], rows: Any, key_columns: Sequence[str], summary: dict[str, str]
    ) -> None:
        existing = self._table.schema().as_arrow()
        new = new_columns(
            self._name, existing, rows.schema, evolve=self._settings["iceberg.tables.evolve-schema-enabled"]
        )
        with self._table.transaction() as transaction:
            if new:
                with transaction.update_schema() as update:
                    update.union_by_name(pa.schema(new))
            if key_columns and changes[0].key is not None:
                keys = [change.key for change in changes if change.key is not None]
                if self._table.current_snapshot() is not None:
                    # Suppress the warning that no row matches, which is normal.
                    with warnings.catch_warnings(action="ignore", category=UserWarning):
                        transaction.delete(_any_of(by_name(key_columns, keys)), snapshot_properties=summary)
            if rows.num_rows:
                transaction.append(_complete(rows, existing, new), snapshot_properties=summary)


def _without_retries(table: Any) -> Any:
    """Disable retries for this table object.

    On a conflict, pyiceberg would append the same records again after another writer's commit.
    """
    table.metadata.properties["commit.retry.num-retries"] = "0"
    return table


def _any_of(keys: Mapping[str, list[Any]]) -> Any:
    if len(keys) == 1:
        [(name, values)] = keys.items()
        return expressions.In(name, values)
    each = [
        expressions.And(*(expressions.EqualTo(name, value) for name, value in zip(keys, values, strict=True)))
        for values in zip(*keys.values(), strict=True)
    ]
    return expressions.Or(*each) if len(each) > 1 else each[0]


def _complete(rows: Any, existing: Any, new: Sequence[Any]) -> Any:
    """Return all columns of the table, with nulls where the records lack a column."""
    columns = []
    for field in [*existing, *new]:
        at = rows.schema.get_field_index(field.name)
        columns.append(pa.nulls(rows.num_rows, field.type) if at < 0 else rows.column(at).cast(field.type))
    return pa.table(
        columns, schema=pa.schema([pa.field(f.name, f.type, f.nullable) for f in [*existing, *new]])
    )


IcebergSinkConnector.task_class = IcebergSinkTask

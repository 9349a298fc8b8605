"""The sink for Delta tables, based on deltalake. It needs neither a JVM nor Spark.

Delivery is exactly once: each commit to the table carries the next offset of every partition in it, as Delta
application transactions. A restarted task reads these offsets from the table and skips the stored records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from ottla.connect.api import Config, SinkConnector, SinkTaskContext, TopicPartition
from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance, not_empty, one_of
from ottla.connect.config.local_files import local_path
from ottla.connect.connectors.tables.changes import Change, ChangeRules
from ottla.connect.connectors.tables.schemas import by_name, new_columns, rows_table
from ottla.connect.connectors.tables.sink import (
    Conflict,
    TableSinkTask,
    TableWriter,
    raised,
    strip_prefix,
)
from ottla.connect.data.record import SinkRecord
from ottla.connect.errors import ConnectError

_STORAGE = "delta.storage."
_DELETED = "__deleted"
_HIGH, _MEDIUM = Importance.HIGH, Importance.MEDIUM


class DeltaSinkConnector(SinkConnector):
    config_def = (
        ConfigDef()
        .define(
            "table.uri",
            ConfigType.STRING,
            importance=_HIGH,
            documentation="Location of the table; ${topic} is replaced by the topic.",
            validator=not_empty,
        )
        .define(
            "insert.mode",
            ConfigType.STRING,
            "insert",
            _HIGH,
            "insert appends, upsert replaces the row of the key.",
            validator=one_of("insert", "upsert"),
        )
        .define(
            "pk.mode",
            ConfigType.STRING,
            "none",
            _HIGH,
            "Source of the key for upserts.",
            validator=one_of("none", "record_key", "record_value"),
        )
        .define(
            "pk.fields",
            ConfigType.LIST,
            [],
            _MEDIUM,
            "Columns of the key. [default: all fields of the record's key]",
        )
        .define(
            "delete.enabled",
            ConfigType.BOOLEAN,
            False,
            _MEDIUM,
            "Delete the row for a record without a value.",
        )
        .define(
            "cdc.envelope",
            ConfigType.STRING,
            "none",
            _MEDIUM,
            "Read values as changes in Debezium's envelope.",
            validator=one_of("none", "debezium"),
        )
        .define("auto.create", ConfigType.BOOLEAN, True, _MEDIUM, "Create a missing table.")
        .define(
            "auto.evolve",
            ConfigType.BOOLEAN,
            True,
            _MEDIUM,
            "Add missing columns to the table.",
        )
        .define("partition.by", ConfigType.LIST, [], _MEDIUM, "Partition columns of a new table.")
    )
    summary = "Delta tables, by appending or by key"
    delivery = "exactly once by application transactions in the table, one for each topic partition"

    def local_paths(self, config: Config) -> Mapping[str, str]:
        path = local_path(config.get("table.uri") or "")
        return {} if path is None else {"table.uri": path}

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        parsed = self.config_def.parse(config)
        if parsed["insert.mode"] == "upsert" and parsed["pk.mode"] == "none":
            return {"pk.mode": ["Upserts need a key: set pk.mode to record_key or record_value."]}
        if parsed["pk.mode"] == "record_value" and not parsed["pk.fields"]:
            return {"pk.fields": ["With pk.mode record_value, pk.fields has to name the columns of the key."]}
        if parsed["delete.enabled"] and parsed["pk.mode"] != "record_key":
            return {
                "delete.enabled": [
                    "Deletes need pk.mode record_key: a record without a value has only its key."
                ]
            }
        return {}

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config) for _ in range(max_tasks)]


class DeltaSinkTask(TableSinkTask):
    def start(self, config: Config, context: SinkTaskContext) -> None:
        super().start(config, context)
        self._settings = DeltaSinkConnector.config_def.parse(config)

    def rules(self, table: str) -> ChangeRules:
        settings = self._settings
        return ChangeRules(
            upsert=settings["insert.mode"] == "upsert",
            key_from=settings["pk.mode"],
            key_fields=settings["pk.fields"],
            deletes=settings["delete.enabled"],
            debezium=settings["cdc.envelope"] == "debezium",
        )

    def tables(self, record: SinkRecord) -> Sequence[str]:
        return [self._settings["table.uri"].replace("${topic}", record.topic)]

    def open_table(self, name: str) -> TableWriter:
        storage = strip_prefix(self.config, _STORAGE)
        return DeltaTableWriter(name, self.config.get("name", ""), self._settings, storage)


class DeltaTableWriter:
    def __init__(
        self, uri: str, connector: str, settings: Mapping[str, Any], storage: dict[str, str]
    ) -> None:
        self._uri, self._connector, self._settings = uri, connector, settings
        self._storage = storage
        self._table: DeltaTable | None = None
        self.refresh()

    def refresh(self) -> None:
        try:
            self._table = DeltaTable(self._uri, storage_options=self._storage)
        except TableNotFoundError:
            if not self._settings["auto.create"]:
                raise ConnectError(
                    f"There is no Delta table at {self._uri}. Create it, or set auto.create to true."
                ) from None
            self._table = None
        except (DeltaError, OSError, ValueError) as error:
            raise raised(error, f"The Delta table {self._uri} cannot be opened") from None

    def committed(self, at: TopicPartition) -> int:
        found = None if self._table is None else self._table.transaction_version(self._application(at))
        return found or 0

    def _application(self, at: TopicPartition) -> str:
        return f"connect-{self._connector}:{at.topic}:{at.partition}"

    def write(
        self, changes: Sequence[Change], key_columns: Sequence[str], offsets: Mapping[TopicPartition, int]
    ) -> None:
        properties = CommitProperties(
            app_transactions=[Transaction(self._application(at), offset) for at, offset in offsets.items()]
        )
        rows = rows_table(changes, small_integers=True)
        if self._table is not None:
            existing = pa.schema(self._table.schema())
            new_columns(self._uri, existing, rows.schema, evolve=self._settings["auto.evolve"])
            rows = rows.cast(_as_in_table(rows.schema, existing))
        try:
            if self._settings["insert.mode"] == "insert":
                self._append(rows, properties)
            else:
                self._upsert(changes, rows, key_columns, properties)
        except CommitFailedError as error:
            raise Conflict(
                f"The Delta table {self._uri} is being changed by somebody else: {error}."
            ) from None
        except (DeltaError, OSError, ValueError) as error:
            if self._table is None and DeltaTable.is_deltatable(self._uri, self._storage):
                raise Conflict(f"The Delta table {self._uri} was created by somebody else.") from None
            raise raised(error, f"The Delta table {self._uri} cannot be written") from None
        self.refresh()

    def _append(self, rows: Any, properties: CommitProperties) -> None:
        write_deltalake(
            self._uri if self._table is None else self._table,
            rows,
            mode="error" if self._table is None else "append",
            schema_mode=None if self._table is None else "merge",
            partition_by=self._settings["partition.by"] or None if self._table is None else None,
            storage_options=self._storage if self._table is None else None,
            commit_properties=properties,
        )

    def _upsert(
        self, changes: Sequence[Change], rows: Any, key_columns: Sequence[str], properties: CommitProperties
    ) -> None:
        deleted = [change.key for change in changes if change.row is None and change.key is not None]
        if self._table is None:
            if rows.num_columns == 0:
                # Only deletes, and the table does not exist.
                return
            self._append(rows, properties)
            return
        source = rows.append_column(_DELETED, pa.array([False] * rows.num_rows, pa.bool_()))
        if deleted:
            source = _with_deletes(source, by_name(key_columns, deleted), pa.schema(self._table.schema()))
        same = " AND ".join(f"t.`{name}` = s.`{name}`" for name in key_columns)
        merger = self._table.merge(
            source, same, source_alias="s", target_alias="t", merge_schema=True, commit_properties=properties
        )
        kept = f"s.{_DELETED} = false"
        if deleted:
            merger = merger.when_matched_delete(f"s.{_DELETED} = true")
        merger = merger.when_matched_update_all(kept, except_cols=[_DELETED])
        merger.when_not_matched_insert_all(kept, except_cols=[_DELETED]).execute()


def _as_in_table(incoming: Any, existing: Any) -> Any:
    fields = []
    for field in incoming:
        at = existing.get_field_index(field.name)
        fields.append(field if at < 0 else pa.field(field.name, existing.field(at).type))
    return pa.schema(fields)


def _with_deletes(source: Any, keys: Mapping[str, list[Any]], existing: Any) -> Any:
    count = len(next(iter(keys.values())))
    columns = {}
    for name, values in keys.items():
        columns[name] = pa.array(values, existing.field(name).type)
    columns[_DELETED] = pa.array([True] * count, pa.bool_())
    return pa.concat_tables([source, pa.table(columns)], promote_options="default")


DeltaSinkConnector.task_class = DeltaSinkTask

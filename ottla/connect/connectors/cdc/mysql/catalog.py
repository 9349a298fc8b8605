"""Table definitions from the data dictionary (information_schema)."""

from __future__ import annotations

import datetime as dt
import decimal
import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla.connect.connectors.cdc.config import key_columns
from ottla.connect.connectors.cdc.envelope import CapturedColumn, CapturedTable
from ottla.connect.connectors.cdc.filters import Filters
from ottla.connect.connectors.cdc.mysql.columns import ColumnForm, from_dictionary
from ottla.connect.connectors.cdc.mysql.connection import rows_of
from ottla.connect.connectors.cdc.mysql.types import ColumnType, type_of
from ottla.connect.data.schema import Schema

log = logging.getLogger(__name__)

_SYSTEM = ("mysql", "information_schema", "performance_schema", "sys")
#: Key types that sort the same way here and in the database. Texts are compared as binary.
ORDERED = ("tinyint", "smallint", "mediumint", "int", "bigint")


class ColumnFacts(NamedTuple):
    form: ColumnForm
    is_required: bool
    default: str | None


class Catalog:
    def __init__(
        self,
        connection: Any,
        settings: Mapping[str, Any],
        filters: Filters,
        source: Schema,
        *,
        is_mariadb: bool,
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._filters = filters
        self._source = source
        self._is_mariadb = is_mariadb
        self._chosen_keys = key_columns(settings["message.key.columns"])

    def tables(self) -> list[tuple[str, str]]:
        rows = rows_of(
            self._connection,
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' "
            "AND table_schema NOT IN %s",
            [_SYSTEM],
        )
        found = [(database, table) for database, table in rows if self._filters.has_table(database, table)]
        return sorted(found, key=lambda each: f"{each[0]}.{each[1]}")

    def columns(self, database: str, table: str) -> list[ColumnFacts]:
        rows = rows_of(
            self._connection,
            "SELECT column_name, data_type, column_type, numeric_precision, numeric_scale, datetime_precision, "
            "character_maximum_length, is_nullable, column_default, extra FROM information_schema.columns "
            "WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
            [database, table],
        )
        found = []
        for name, data_type, column_type, precision, scale, digits, length, nullable, default, extra in rows:
            if "VIRTUAL" in extra.upper():
                continue
            form = from_dictionary(name, data_type, column_type, precision, scale, digits, length)
            found.append(ColumnFacts(form, nullable == "NO", default))
        return found

    def keys(self, database: str, table: str) -> list[str]:
        chosen = self._chosen_keys.get(f"{database}.{table}")
        if chosen is not None:
            return chosen
        rows = rows_of(
            self._connection,
            "SELECT index_name, column_name FROM information_schema.statistics WHERE table_schema = %s "
            "AND table_name = %s AND non_unique = 0 ORDER BY index_name = 'PRIMARY' DESC, index_name, seq_in_index",
            [database, table],
        )
        return [column for index, column in rows if index == rows[0][0]]

    def captured(self, event_table: Any, forms: Sequence[ColumnForm]) -> CapturedTable | None:
        """Return the table with the columns at the time of the change, or None if the table is not captured."""
        database, table = event_table.schema, event_table.table
        if not self._filters.has_table(database, table):
            return None
        facts = {each.form.name: each for each in self.columns(database, table)}
        keys = self.keys(database, table)
        names = {form.name for form in forms}
        if not keys or not names.issuperset(keys):
            keys = [column.name for column in event_table.columns if column.is_primary]
        return self._table(database, table, forms, facts, keys)

    def described(self, database: str, table: str) -> tuple[CapturedTable, list[ColumnFacts]]:
        facts = self.columns(database, table)
        by_name = {each.form.name: each for each in facts}
        keys = self.keys(database, table)
        return self._table(database, table, [each.form for each in facts], by_name, keys), facts

    def _table(
        self,
        database: str,
        table: str,
        forms: Sequence[ColumnForm],
        facts: Mapping[str, ColumnFacts],
        keys: Sequence[str],
    ) -> CapturedTable:
        captured = []
        for position, form in enumerate(forms):
            if form.name not in keys and not self._filters.has_column(database, table, form.name):
                continue
            found = type_of(form, self._settings)
            if found is None:
                log.warning("Column %s.%s.%s is left out: type %s.", database, table, form.name, form.kind)
                continue
            mask = self._filters.mask(database, table, form.name)
            captured.append(self._column(form.name, position, found, facts.get(form.name), mask))
        topic = f"{self._settings['topic.prefix']}.{database}.{table}"
        return CapturedTable(database, table, topic, captured, keys, self._source)

    def _column(
        self, name: str, position: int, found: ColumnType, facts: ColumnFacts | None, mask: Any
    ) -> CapturedColumn:
        required = facts is not None and facts.is_required
        default = self._default(facts, found) if facts is not None else None
        old = found.schema
        schema = Schema(old.type, not required, default, old.name, old.version, old.doc, old.parameters)
        missing = (found.missing if default is None else default) if required else None
        return CapturedColumn(name, schema, found.read, position, missing, mask)

    def _default(self, facts: ColumnFacts, found: ColumnType) -> Any:
        """Parse a column default. MariaDB's dictionary quotes texts and writes NULL, MySQL's does neither."""
        text = facts.default
        if text is None or text.upper() == "NULL":
            return None
        if text.upper().startswith("CURRENT_TIMESTAMP"):
            return found.missing if facts.is_required else None
        if self._is_mariadb and text.startswith("'"):
            text = text[1:-1].replace("''", "'")
        return default_value(text, facts.form, found)


def default_value(text: str, form: ColumnForm, found: ColumnType) -> Any:
    try:
        if form.kind in (*ORDERED, "year"):
            return found.read(int(text))
        if form.kind in ("float", "double"):
            return float(text)
        if form.kind == "decimal":
            return found.read(decimal.Decimal(text))
        if form.kind in ("varchar", "enum", "set"):
            return text
        if form.kind == "date":
            return found.read(dt.date.fromisoformat(text))
        if form.kind in ("datetime", "timestamp"):
            return found.read(dt.datetime.fromisoformat(text))
        if form.kind == "bit":
            return found.read(text.removeprefix("b").strip("'"))
    except (ValueError, decimal.DecimalException):
        return None
    return None

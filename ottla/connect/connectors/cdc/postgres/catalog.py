"""Table definitions: columns, keys and types that the pgoutput messages omit."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import psycopg

from ottla.connect.connectors.cdc.config import key_columns
from ottla.connect.connectors.cdc.envelope import CapturedColumn, CapturedTable
from ottla.connect.connectors.cdc.filters import Filters
from ottla.connect.connectors.cdc.postgres.defaults import default_value
from ottla.connect.connectors.cdc.postgres.pgoutput import UNCHANGED, Relation, RelationColumn
from ottla.connect.connectors.cdc.postgres.types import ColumnType, PgType, Types, of_schema
from ottla.connect.data.schema import Schema, SchemaType

log = logging.getLogger(__name__)

#: Types that sort the same way here and in PostgreSQL. Texts use COLLATE "C".
ORDERED_NUMBERS = {"int2", "int4", "int8"}
ORDERED_TEXTS = {"text", "varchar", "uuid"}


class ColumnFacts(NamedTuple):
    name: str
    type_oid: int
    modifier: int
    is_required: bool
    default: str | None


class Catalog:
    """Reads through its own connection with autocommit."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        settings: Mapping[str, Any],
        filters: Filters,
        source: Schema,
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._filters = filters
        self._source = source
        self._types: dict[int, PgType] = {}
        self._captured: dict[int, tuple[Any, CapturedTable]] = {}
        self._chosen_keys = key_columns(settings["message.key.columns"])
        self.types = Types(settings, self.pg_type)

    def pg_type(self, oid: int) -> PgType:
        found = self._types.get(oid)
        if found is None:
            row = self._connection.execute(
                "SELECT t.typname, t.typtype, CASE WHEN t.typcategory = 'A' THEN t.typelem ELSE 0 END::bigint, "
                "t.typbasetype::bigint, t.typtypmod, ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = t.oid "
                "ORDER BY enumsortorder) FROM pg_type t WHERE t.oid = %s",
                [oid],
            ).fetchone()
            name, kind, element, base, modifier, labels = row or (f"type {oid}", "?", 0, 0, -1, [])
            kind = kind.decode() if isinstance(kind, bytes) else kind
            found = PgType(oid, name, kind, element, base, modifier, tuple(labels))
            self._types[oid] = found
        return found

    def tables(self) -> list[tuple[str, str]]:
        rows = self._connection.execute(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname NOT LIKE 'pg\\_%%' "
            "AND n.nspname <> 'information_schema'",
            [],
        ).fetchall()
        found = [(schema, name) for schema, name in rows if self._filters.has_table(schema, name)]
        return sorted(found, key=lambda each: f"{each[0]}.{each[1]}")

    def columns(self, schema: str, table: str) -> list[ColumnFacts]:
        rows = self._connection.execute(
            "SELECT a.attname, a.atttypid::bigint, a.atttypmod, a.attnotnull, pg_get_expr(d.adbin, d.adrelid) "
            "FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
            "LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.attgenerated = '' "
            "WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped "
            "AND a.attgenerated = '' ORDER BY a.attnum",
            [schema, table],
        ).fetchall()
        return [ColumnFacts(*row) for row in rows]

    def keys(self, schema: str, table: str) -> list[str]:
        """Return the primary key, or the first unique index on plain columns."""
        chosen = self._chosen_keys.get(f"{schema}.{table}")
        if chosen is not None:
            return chosen
        rows = self._connection.execute(
            "SELECT ARRAY(SELECT a.attname::text FROM unnest(i.indkey) WITH ORDINALITY AS k(number, place) "
            "JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number ORDER BY k.place) "
            "FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
            "JOIN pg_class x ON x.oid = i.indexrelid "
            "WHERE n.nspname = %s AND c.relname = %s AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL "
            "ORDER BY i.indisprimary DESC, x.relname LIMIT 1",
            [schema, table],
        ).fetchone()
        return list(rows[0]) if rows is not None else []

    def captured(self, relation: Relation) -> CapturedTable | None:
        """Return the table with the columns at the time of the change, or None if the table is not captured."""
        if not self._filters.has_table(relation.schema, relation.name):
            return None
        facts = self.columns(relation.schema, relation.name)
        keys = self.keys(relation.schema, relation.name)
        # Each read describes the same tables again. Reusing the schema object keeps the later stages fast.
        known = self._captured.get(relation.oid)
        if known is not None and known[0] == (relation, facts, keys):
            return known[1]
        by_name = {each.name: each for each in facts}
        table = self._table(relation.schema, relation.name, relation.columns, by_name, keys)
        self._captured[relation.oid] = (relation, facts, keys), table
        return table

    def described(self, schema: str, table: str) -> tuple[CapturedTable, list[ColumnFacts]]:
        facts = self.columns(schema, table)
        columns = [RelationColumn(each.name, each.type_oid, each.modifier, False) for each in facts]
        by_name = {each.name: each for each in facts}
        return self._table(schema, table, columns, by_name, self.keys(schema, table)), facts

    def _table(
        self,
        schema: str,
        table: str,
        columns: Sequence[RelationColumn],
        facts: Mapping[str, ColumnFacts],
        keys: Sequence[str],
    ) -> CapturedTable:
        captured = []
        for position, column in enumerate(columns):
            if column.name not in keys and not self._filters.has_column(schema, table, column.name):
                continue
            found = self.types.column(column.type_oid, column.type_modifier, column.name)
            if found is None:
                log.warning("Column %s.%s.%s is left out: its type is not known.", schema, table, column.name)
                continue
            mask = self._filters.mask(schema, table, column.name)
            captured.append(self._column(column.name, position, found, facts.get(column.name), mask))
        topic = f"{self._settings['topic.prefix']}.{schema}.{table}"
        return CapturedTable(schema, table, topic, captured, keys, self._source)

    def _column(
        self, name: str, position: int, found: ColumnType, facts: ColumnFacts | None, mask: Any
    ) -> CapturedColumn:
        required = facts is not None and facts.is_required
        default = (
            default_value(facts.default, found, required) if facts is not None and facts.default else None
        )
        old = found.schema
        schema = Schema(
            old.type,
            not required,
            default,
            old.name,
            old.version,
            old.doc,
            old.parameters,
            old.fields,
            old.key_schema,
            old.value_schema,
        )
        missing = (found.missing if default is None else default) if required else None
        found = found._replace(read=of_schema(found.read, schema))
        return CapturedColumn(name, schema, self._with_placeholder(found), position, missing, mask)

    def _with_placeholder(self, found: ColumnType) -> Any:
        """Return a reader that substitutes a placeholder for unsent values, where the type allows one."""
        read = found.read
        text: str = self._settings["unavailable.value.placeholder"]
        placeholder: Any = None
        if found.schema.type is SchemaType.STRING:
            placeholder = text
        elif found.schema.type is SchemaType.BYTES and found.schema.name is None:
            placeholder = text.encode()
        elif found.schema.type is SchemaType.ARRAY and found.schema.value_schema is not None:
            inner = found.schema.value_schema.type
            placeholder = [text] if inner is SchemaType.STRING else []
        if placeholder is None:
            missing = found.missing
            # Only variable-length values are stored out of line (TOAST).
            is_variable = found.schema.type in (SchemaType.BYTES, SchemaType.STRUCT)
            return (lambda data: missing if data is UNCHANGED else read(data)) if is_variable else read
        return lambda data: placeholder if data is UNCHANGED else read(data)

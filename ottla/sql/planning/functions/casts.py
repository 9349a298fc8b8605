"""CAST with ksqlDB's rules: structs by field name, ksqlDB's text format, and null instead of a failed query."""

from __future__ import annotations

from ottla.spark.formats.value_format import quoted
from ottla.sql.planning.functions.rules import NUMBERS, Argument
from ottla.sql.sql_types import SqlType

_INTO = {
    "BOOLEAN": (),
    "STRING": ("BOOLEAN", *NUMBERS, "TIMESTAMP", "DATE", "TIME"),
    "TIMESTAMP": ("TIME", "DATE"),
    "DATE": ("TIMESTAMP",),
    **dict.fromkeys(NUMBERS, NUMBERS),
}


def can_cast(source: SqlType, target: SqlType) -> bool:
    if source == target:
        return True
    if target.name == "STRING":
        return source.name != "BYTES"
    if source.element is not None and target.element is not None:
        return source.name == target.name and can_cast(source.element, target.element)
    if source.name == target.name == "STRUCT":
        there = {field.name: field.type for field in source.fields}
        return all(can_cast(there[each.name], each.type) for each in target.fields if each.name in there)
    return target.name in _INTO.get(source.name, ())


def cast(value: Argument, target: SqlType, depth: int = 0) -> str:
    source = value.type
    if source is None:
        return f"try_cast({value.sql} AS {target.ddl})"
    if target.name == "STRING":
        return shown(value, depth)
    if source.name == "STRING" and target.name == "BOOLEAN":
        return f"(lower({value.sql}) = 'true')"
    if source.name in NUMBERS and target.name in ("INTEGER", "BIGINT", "DOUBLE"):
        # As in Java: truncate fractions, and wrap or saturate values that do not fit.
        return f"CAST({value.sql} AS {target.ddl})"
    if source.name == target.name and source != target:
        if source.element is not None and target.element is not None:
            variable = f"x{depth}"
            inner = cast(Argument(variable, source.element), target.element, depth + 1)
            if source.name == "ARRAY":
                return f"transform({value.sql}, {variable} -> {inner})"
            return f"transform_values({value.sql}, (k{depth}, {variable}) -> {inner})"
        if source.name == "STRUCT":
            return _struct(value.sql, source, target, depth)
    return f"try_cast({value.sql} AS {target.ddl})"


def _struct(value: str, source: SqlType, target: SqlType, depth: int) -> str:
    """Match fields by name. Missing fields are null."""
    there = {field.name: field.type for field in source.fields}
    parts = []
    for field in target.fields:
        if field.name in there:
            member = Argument(f"x{depth}.{quoted(field.name)}", there[field.name])
            sql = cast(member, field.type, depth + 1)
        else:
            sql = f"CAST(NULL AS {field.type.ddl})"
        name = field.name.replace("'", "\\'")
        parts.append(f"'{name}', {sql}")
    built = f"IF(x{depth} IS NULL, NULL, named_struct({', '.join(parts)}))"
    return f"transform(array({value}), x{depth} -> {built})[0]"


def shown(value: Argument, depth: int = 0) -> str:
    """Render a value as text: `[1, 2]`, `{a=1}`, `Struct{A=1}`, and times in ISO 8601."""
    kind = value.type
    if kind is None or kind.name in NUMBERS:
        return f"try_cast({value.sql} AS STRING)"
    if kind.name == "TIMESTAMP":
        return f"date_format({value.sql}, 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSS')"
    variable = f"x{depth}"
    if kind.name == "STRUCT":
        parts = [
            f"concat('{field.name}=', coalesce("
            f"{shown(Argument(f'{variable}.{quoted(field.name)}', field.type), depth + 1)}, 'null'))"
            for field in kind.fields
        ]
        text = f"IF({variable} IS NULL, NULL, concat('Struct{{', concat_ws(',', {', '.join(parts)}), '}}'))"
        return f"transform(array({value.sql}), {variable} -> {text})[0]"
    if kind.element is not None:
        member = variable if kind.name == "ARRAY" else f"{variable}.value"
        inner = f"coalesce({shown(Argument(member, kind.element), depth + 1)}, 'null')"
        if kind.name == "ARRAY":
            return f"concat('[', array_join(transform({value.sql}, {variable} -> {inner}), ', '), ']')"
        pairs = f"transform(map_entries({value.sql}), {variable} -> concat({variable}.key, '=', {inner}))"
        return f"concat('{{', array_join({pairs}, ', '), '}}')"
    return f"try_cast({value.sql} AS STRING)"

"""Avro schemas and values for hypothesis, and fastavro's results in the form of our columns."""

from __future__ import annotations

import datetime
import io
import uuid
from decimal import Decimal
from typing import Any

import fastavro
from hypothesis import strategies as st

from ottla.spark.formats.avro.schema import Node

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
LOGICAL = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "uuid": "string",
}


@st.composite
def schemas(draw: Any, depth: int = 3, names: list[int] | None = None, in_union: bool = False) -> Any:
    """Return the JSON of a schema in which each named type has a unique name."""
    names = names if names is not None else [0]
    kinds = ["primitive", "logical", "decimal", "enum", "fixed"]
    if depth:
        kinds += [
            "record",
            "record",
            "array",
            "map",
            *([] if in_union else ["nullable", "nullable", "union"]),
        ]
    kind = draw(st.sampled_from(kinds))
    if kind == "primitive":
        return draw(st.sampled_from(PRIMITIVES))
    if kind == "logical":
        logical = draw(st.sampled_from(sorted(LOGICAL)))
        return {"type": LOGICAL[logical], "logicalType": logical}
    if kind == "nullable":
        inner = draw(schemas(depth - 1, names, True).filter(lambda each: each != "null"))
        return draw(st.permutations(["null", inner]))
    if kind == "union":
        branches = draw(
            st.lists(schemas(depth - 1, names, True), min_size=1, max_size=4, unique_by=_union_key).filter(
                _can_be_written
            )
        )
        return branches
    if kind == "array":
        return {"type": "array", "items": draw(schemas(depth - 1, names))}
    if kind == "map":
        return {"type": "map", "values": draw(schemas(depth - 1, names))}
    names[0] += 1
    name = f"T{names[0]}"
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": ["A", "B", "Long_symbol"][: draw(st.integers(1, 3))]}
    if kind == "fixed":
        return {"type": "fixed", "name": name, "size": draw(st.integers(0, 20))}
    if kind == "decimal":
        precision = draw(st.integers(1, 38))
        decimal = {"logicalType": "decimal", "precision": precision, "scale": draw(st.integers(0, precision))}
        if draw(st.booleans()):
            return {"type": "bytes", **decimal}
        return {"type": "fixed", "name": name, "size": 17, **decimal}
    count = draw(st.integers(0, 4))
    fields = [{"name": f"f{index}", "type": draw(schemas(depth - 1, names))} for index in range(count)]
    return {"type": "record", "name": name, "fields": fields}


def _union_key(schema: Any) -> str:
    """Return a key that keeps types out of one union if fastavro cannot tell their values apart."""
    kind = schema["type"] if isinstance(schema, dict) else str(schema)
    if kind == "record":
        return str(schema["name"])
    return {"fixed": "bytes", "enum": "string"}.get(kind, kind)


def _can_be_written(branches: list[Any]) -> bool:
    """Return False for unions with a date and a text, because fastavro parses every text as a date."""
    has_date = any(isinstance(each, dict) and each.get("logicalType") == "date" for each in branches)
    return not has_date or all(_union_key(each) != "string" for each in branches)


def values(schema: Any) -> Any:
    """Return a strategy for values that fastavro writes with a schema."""
    if isinstance(schema, list):
        return st.one_of([_branch_values(each, schema) for each in schema])
    if isinstance(schema, str):
        return _PRIMITIVE_VALUES[schema]
    kind = schema["type"]
    logical = schema.get("logicalType")
    if logical == "decimal":
        most = 10 ** schema["precision"] - 1
        return st.integers(-most, most).map(lambda n: Decimal(n).scaleb(-schema["scale"], _WIDE))
    if logical is not None:
        return _LOGICAL_VALUES[logical]
    if kind == "record":
        return st.fixed_dictionaries({each["name"]: values(each["type"]) for each in schema["fields"]})
    if kind == "array":
        return st.lists(values(schema["items"]), max_size=5)
    if kind == "map":
        return st.dictionaries(st.text(max_size=5), values(schema["values"]), max_size=4)
    if kind == "enum":
        return st.sampled_from(schema["symbols"])
    if kind == "fixed":
        return st.binary(min_size=schema["size"], max_size=schema["size"])
    return _PRIMITIVE_VALUES[kind]


def _branch_values(branch: Any, union: list[Any]) -> Any:
    """Return values with an explicit branch if the value alone is ambiguous."""
    found = values(branch)
    if isinstance(branch, dict) and branch["type"] == "record":
        return found.map(lambda value: (branch["name"], value))
    return found


_WIDE = __import__("decimal").Context(prec=80)
_PRIMITIVE_VALUES: dict[str, Any] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=20),
    "string": st.text(max_size=20),
}
_instants = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))
_whole_ms = _instants.map(lambda each: each.replace(microsecond=each.microsecond // 1000 * 1000))
_LOGICAL_VALUES: dict[str, Any] = {
    "date": st.dates(),
    "time-millis": st.times().map(lambda each: each.replace(microsecond=each.microsecond // 1000 * 1000)),
    "time-micros": st.times(),
    "timestamp-millis": _whole_ms.map(lambda each: each.replace(tzinfo=datetime.UTC)),
    "timestamp-micros": _instants.map(lambda each: each.replace(tzinfo=datetime.UTC)),
    "local-timestamp-millis": _whole_ms,
    "local-timestamp-micros": _instants,
    "uuid": st.uuids(),
}


def written(schema: Any, value: Any) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, schema, value)
    return target.getvalue()


def read(data: bytes, writer: Any, reader: Any = None) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(data), writer, reader)


def plain(value: Any, node: Node) -> Any:
    """Convert our column values to fastavro's form, without the struct around union branches."""
    if value is None:
        return None
    if node.type == "union":
        members = [each for each in node.of if each.type != "null"]
        kinds = {each.type for each in members}
        if len(members) == 1:
            return plain(value, members[0])
        if (
            len(members) == 2
            and kinds in ({"int", "long"}, {"float", "double"})
            and not isinstance(value, dict)
        ):
            return value
        found = [
            plain(value[f"member{index}"], each)
            for index, each in enumerate(members)
            if value[f"member{index}"] is not None
        ]
        assert len(found) == 1
        return found[0]
    if node.type == "record":
        return {field.name: plain(value[field.name], field.node) for field in node.fields}
    if node.type == "array":
        return [plain(each, node.of[0]) for each in value]
    if node.type == "map":
        return {key: plain(each, node.of[0]) for key, each in value}
    if node.logical == "time-millis":
        return (datetime.datetime.min + datetime.timedelta(milliseconds=value)).time()
    if node.logical == "time-micros":
        return (datetime.datetime.min + datetime.timedelta(microseconds=value)).time()
    if node.logical == "uuid" and node.type == "string":
        return uuid.UUID(value)
    return value

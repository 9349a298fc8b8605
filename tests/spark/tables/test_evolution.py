"""How the columns of a table follow the schemas of its topic, and which schemas are breaking changes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa

from ottla.spark.tables.schemas.evolution import Breaking, Names, Shape, evolve, plain_shape
from ottla.spark.tables.schemas.projection import project

INT, LONG, FLOAT, DOUBLE, TEXT, BYTES = (
    pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(),
)  # fmt: skip


def struct(**fields: Any) -> Any:
    return pa.struct([pa.field(name, kind) for name, kind in fields.items()])


def array(kind: Any) -> Any:
    return pa.list_(pa.field("element", kind))


def schema(**fields: Any) -> Any:
    return pa.schema([pa.field(name, kind) for name, kind in fields.items()])


def shape(**fields: Any) -> Shape:
    return plain_shape("", struct(**fields))


CENTS, EUROS = pa.decimal128(5, 2), pa.decimal128(9, 2)
INTS, LONGS = pa.map_(TEXT, INT), pa.map_(TEXT, LONG)
X, XY = struct(x=INT), struct(x=INT, y=INT)


def test_a_new_table_has_all_fields() -> None:
    found = evolve(pa.schema([]), shape(id=LONG, at=struct(x=INT)), Names())
    assert found.columns == schema(id=LONG, at=struct(x=INT))


@pytest.mark.parametrize(
    ("before", "fields", "after", "changes"),
    [
        (schema(a=INT), {"a": INT, "b": TEXT}, schema(a=INT, b=TEXT), ["add b string"]),
        (schema(a=INT, b=TEXT), {"a": INT}, schema(a=INT, b=TEXT), []),
        (schema(a=INT), {"a": LONG}, schema(a=LONG), ["widen a bigint"]),
        (schema(a=LONG), {"a": INT}, schema(a=LONG), []),
        (schema(a=FLOAT), {"a": DOUBLE}, schema(a=DOUBLE), ["widen a double"]),
        (schema(a=DOUBLE), {"a": FLOAT}, schema(a=DOUBLE), []),
        (schema(a=DOUBLE), {"a": LONG}, schema(a=DOUBLE), []),
        (
            schema(a=pa.decimal128(5, 2)),
            {"a": pa.decimal128(9, 2)},
            schema(a=pa.decimal128(9, 2)),
            ["widen a decimal(9, 2)"],
        ),
        (
            schema(s=struct(x=INT)),
            {"s": struct(x=INT, y=INT)},
            schema(s=struct(x=INT, y=INT)),
            ["add s.y int"],
        ),
        (schema(s=struct(x=INT)), {"s": struct(x=LONG)}, schema(s=struct(x=LONG)), ["widen s.x bigint"]),
        (schema(l=array(INT)), {"l": array(LONG)}, schema(l=array(LONG)), ["widen l.element bigint"]),
        (
            schema(l=array(struct(x=INT))),
            {"l": array(struct(y=INT))},
            schema(l=array(struct(x=INT, y=INT))),
            ["add l.element.y int"],
        ),
        (
            schema(m=pa.map_(TEXT, INT)),
            {"m": pa.map_(TEXT, LONG)},
            schema(m=pa.map_(TEXT, LONG)),
            ["widen m.value bigint"],
        ),
        (schema(a=INT), {"a": pa.int8()}, schema(a=INT), []),
        (schema(a=INT), {"a": INT, "nothing": pa.null()}, schema(a=INT), []),
        (schema(a=INT), {"A": INT}, schema(a=INT, A=INT), ["add A int"]),
    ],
)
def test_columns_are_added_and_widened_and_never_dropped(
    before: Any, fields: dict[str, Any], after: Any, changes: list[str]
) -> None:
    found = evolve(before, shape(**fields), Names())
    assert found.columns == after
    assert [str(each) for each in found.changes] == changes


@pytest.mark.parametrize(
    ("before", "fields", "reason"),
    [
        (schema(a=INT), {"a": TEXT}, "its field a is string, but the column is int"),
        (schema(a=TEXT), {"a": INT}, "its field a is int, but the column is string"),
        (schema(a=TEXT), {"a": struct(x=INT)}, "its field a is struct, but the column is string"),
        (schema(a=LONG), {"a": DOUBLE}, "its field a is double, but the column is bigint"),
        (schema(a=BYTES), {"a": TEXT}, "its field a is string, but the column is binary"),
        (schema(s=struct(x=INT)), {"s": struct(x=TEXT)}, "its field s.x is string, but the column is int"),
        (schema(a=array(INT)), {"a": INT}, "its field a is int, but the column is array"),
        (
            schema(m=pa.map_(TEXT, INT)),
            {"m": pa.map_(LONG, INT)},
            "its field m is map, but the column is map",
        ),
        (schema(a=pa.decimal128(5, 2)), {"a": pa.decimal128(9, 3)}, "its field a is decimal(9, 3)"),
        (schema(), {"__offset": LONG}, "its field __offset has the name of a column that every table has"),
    ],
)
def test_other_changes_are_breaking(before: Any, fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(Breaking) as caught:
        evolve(before, shape(**fields), Names())
    assert reason in str(caught.value)


def test_conflicts_can_be_skipped_for_inferred_columns() -> None:
    found = evolve(schema(a=INT), shape(a=TEXT, b=TEXT, __key=TEXT), Names(), skip_conflicts=True)
    assert found.columns == schema(a=INT, b=TEXT)


def aliased(name: str, *aliases: str, kind: Any = TEXT, number: int = 0) -> Shape:
    return Shape(name, kind, aliases, number)


def version(*fields: Shape) -> Shape:
    return Shape("", pa.struct([pa.field(each.name, each.type) for each in fields]), children=fields)


def test_an_alias_renames_a_column_and_old_records_go_to_the_new_one() -> None:
    first, second = version(aliased("name")), version(aliased("customer", "name"), aliased("city"))
    names = Names()
    names.learn(first)
    names.learn(second)
    found = evolve(schema(name=TEXT), names.named(second), names)
    assert [str(each) for each in found.changes] == ["rename name to customer", "add city string"]
    assert found.columns == schema(customer=TEXT, city=TEXT)
    old = names.named(first)
    assert evolve(found.columns, old, names).changes == []
    values = pa.StructArray.from_arrays([pa.array(["ann"])], names=["name"])
    [row] = project(values, old, pa.struct(list(found.columns))).to_pylist()
    assert row == {"customer": "ann", "city": None}


def test_a_number_renames_a_column_of_protobuf() -> None:
    versions = [version(aliased(name, number=1)) for name in ("a", "b", "c")]
    names = Names()
    for each in versions:
        names.learn(each)
    assert [names.named(each).children[0].column for each in versions] == ["c", "c", "c"]
    assert str(evolve(schema(a=TEXT), names.named(versions[2]), names).changes[0]) == "rename a to c"


def test_a_field_that_takes_an_old_name_again_is_another_column() -> None:
    first = version(aliased("name"))
    second = version(aliased("customer", "name"), aliased("name", kind=INT))
    names = Names()
    names.learn(first)
    names.learn(second)
    named = names.named(second)
    assert [each.column for each in named.children] == ["customer", "name"]


def test_projection_fills_nulls_and_casts_inside_of_lists_and_maps() -> None:
    source = struct(
        n=INT, items=array(struct(x=INT)), tags=pa.map_(TEXT, INT), nested=struct(deep=struct(v=FLOAT))
    )
    target = struct(
        nested=struct(deep=struct(v=DOUBLE, w=INT)), items=array(struct(x=LONG, y=TEXT)),
        tags=pa.map_(TEXT, LONG), n=LONG, more=TEXT,
    )  # fmt: skip
    rows: list[Any] = [
        {"n": 1, "items": [{"x": 1}, None], "tags": [("a", 1)], "nested": {"deep": {"v": 0.5}}},
        None,
        {"n": None, "items": None, "tags": None, "nested": {"deep": None}},
        {"n": 4, "items": [], "tags": [], "nested": None},
    ]
    column = pa.array(rows, source)
    expected: list[Any] = [
        {
            "nested": {"deep": {"v": 0.5, "w": None}},
            "items": [{"x": 1, "y": None}, None],
            "tags": [("a", 1)],
            "n": 1,
            "more": None,
        },
        None,
        {"nested": {"deep": None}, "items": None, "tags": None, "n": None, "more": None},
        {"nested": None, "items": [], "tags": [], "n": 4, "more": None},
    ]
    wanted = plain_shape("", source)
    assert project(column, wanted, target).to_pylist() == expected
    assert project(column.slice(2, 2), wanted, target).to_pylist() == expected[2:]

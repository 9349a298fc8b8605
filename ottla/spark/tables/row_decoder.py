"""Records of a topic as rows of its table, and as dead letters. Runs in tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.spark.formats.json_decoder import JsonDecoder
from ottla.spark.formats.registered.decoder import FormatDecoder, Unreadable, format_decoder
from ottla.spark.formats.registered.framing import SchemaName, unframe
from ottla.spark.tables.schemas import json_inference
from ottla.spark.tables.schemas.columns import DEAD_LETTERS, FIXED_NAMES, HEADERS, KEY, VALUE
from ottla.spark.tables.schemas.evolution import Names, evolve, plain_shape
from ottla.spark.tables.schemas.projection import project
from ottla.spark.tables.schemas.schema_planner import UNFRAMED, Recipe
from ottla.table_settings import JSON, KEY_VALUE

_BAD_VALUE, _BAD_KEY = "BadValue", "BadKey"
_ROW = "__row"


@dataclass(frozen=True)
class DecodePlan:
    """Decoding for one state of the table: all its columns, and a recipe for each known writer schema."""

    mode: str
    columns: pa.Schema
    recipes: dict[str, Recipe] = field(default_factory=dict)
    needs_key: bool = False
    #: Whether records of unknown schemas are decoded as far as possible, because the table cannot change.
    is_final: bool = False


class Rows(NamedTuple):
    """`good` has the columns of the table, `dead` those of dead letters; `tombstones` marks rows of `good`."""

    good: pa.RecordBatch
    dead: pa.RecordBatch
    tombstones: pa.BooleanArray


class NewSchemas(Exception):
    """Records need schemas or columns that the plan lacks."""

    def __init__(
        self, names: frozenset[SchemaName] = frozenset(), inferred: pa.DataType | None = None
    ) -> None:
        super().__init__("The table's columns must follow the topic's schemas first.")
        self.names = names
        self.inferred = inferred


class RowDecoder:
    def __init__(self, plan: DecodePlan) -> None:
        self._plan = plan
        self._value_columns = pa.schema([each for each in plan.columns if each.name not in FIXED_NAMES])
        self._struct = pa.struct(list(self._value_columns))
        self._json: JsonDecoder | None = None
        if plan.mode == JSON:
            from pyspark.sql.pandas.types import from_arrow_schema

            self._json = JsonDecoder(from_arrow_schema(self._value_columns), "UTC")

    def decode(self, batch: pa.RecordBatch) -> Rows:
        """Decode records with the source's columns. Raises NewSchemas."""
        values = batch.column("value")
        reasons: dict[int, str] = {}
        if self._plan.mode == KEY_VALUE:
            columns = {VALUE: values}
        else:
            decoded = self._values(values, batch.column("headers"), reasons)
            columns = {each.name: decoded.field(index) for index, each in enumerate(self._struct)}
        errors = dict.fromkeys(reasons, _BAD_VALUE)
        if self._plan.needs_key and batch.column("key").null_count:
            for row in np.nonzero(batch.column("key").is_null().to_numpy(zero_copy_only=False))[0].tolist():
                reasons[row], errors[row] = "it has no key, which identifies its row", _BAD_KEY
        rows = _fixed(batch) | columns
        good = pa.RecordBatch.from_arrays(
            [_filled(rows.get(each.name), each.type, len(batch)) for each in self._plan.columns],
            schema=self._plan.columns,
        )
        tombstones = values.is_null()
        if not reasons:
            return Rows(good, pa.RecordBatch.from_pylist([], schema=DEAD_LETTERS), tombstones)
        bad = sorted(reasons)
        keep = np.ones(len(batch), np.bool_)
        keep[bad] = False
        mask = pa.array(keep)
        letters = {**_fixed(batch), VALUE: values}
        taken = [letters[name].take(pa.array(bad)) for name in DEAD_LETTERS.names[:-2]]
        taken += [pa.array([errors[row] for row in bad]), pa.array([reasons[row] for row in bad])]
        return Rows(
            good.filter(mask),
            pa.RecordBatch.from_arrays(taken, schema=DEAD_LETTERS),
            tombstones.filter(mask),
        )

    def _values(
        self, values: pa.BinaryArray, headers: pa.ListArray, reasons: dict[int, str]
    ) -> pa.StructArray:
        if self._json is not None:
            return self._json_values(values, reasons)
        framed = unframe(values, headers, "value")
        unframed = self._plan.recipes.get(UNFRAMED)
        recipes: list[Recipe] = []
        unknown = []
        for name in framed.names:
            recipe = self._plan.recipes.get(str(name))
            if recipe is None:
                unknown.append(name)
                recipe = Recipe(refusal=f"schema {name} is newer than the table")
            recipes.append(recipe)
        if unknown and not self._plan.is_final:
            raise NewSchemas(frozenset(unknown))
        which, skipped = framed.which, framed.skipped
        if unframed is not None and framed.reasons:
            which, skipped = which.copy(), skipped.copy()
            which[list(framed.reasons)] = len(recipes)
            skipped[list(framed.reasons)] = 0
            recipes.append(unframed)
        else:
            reasons.update(framed.reasons)
        return self._by_writer(values, recipes, which, skipped, reasons)

    def _by_writer(
        self, values: pa.BinaryArray, recipes: list[Recipe], which: Any, skipped: Any, reasons: dict[int, str]
    ) -> pa.StructArray:
        pieces: list[pa.StructArray] = []
        places: list[Any] = []
        for index, recipe in enumerate(recipes):
            [rows] = np.nonzero(which == index)
            if not len(rows):
                continue
            if recipe.refusal:
                reasons.update(dict.fromkeys(rows.tolist(), recipe.refusal))
                continue
            whole = len(rows) == len(values)
            part = values if whole else values.take(pa.array(rows))
            column, bad = _decoded(recipe, part, skipped if whole else skipped[rows])
            assert recipe.shape is not None
            if recipe.shape.type != column.type:  # a value without fields
                column = pa.StructArray.from_arrays([column], fields=list(recipe.shape.type))
            pieces.append(project(column, recipe.shape, self._struct))
            places.append(rows)
            reasons.update({int(rows[row]): reason for row, reason in bad.items()})
        if len(pieces) == 1 and len(pieces[0]) == len(values):
            return pieces[0]
        pieces.append(pa.nulls(1, self._struct))
        order = np.full(len(values), sum(map(len, pieces)) - 1)
        start = 0
        for rows in places:
            order[rows] = np.arange(start, start + len(rows))
            start += len(rows)
        return pa.concat_arrays(pieces).take(pa.array(order))

    def _json_values(self, values: pa.BinaryArray, reasons: dict[int, str]) -> pa.StructArray:
        assert self._json is not None
        if not self._plan.is_final and not json_inference.has_only(values, self._value_columns):
            inferred = json_inference.infer(values)
            shape = plain_shape("", inferred)
            if evolve(self._value_columns, shape, Names(), skip_conflicts=True).changes:
                raise NewSchemas(inferred=inferred)
        decoded = self._json.decode(values)
        reasons.update(decoded.reasons)
        return project(decoded.column, plain_shape("", decoded.column.type), self._struct)


def _decoded(recipe: Recipe, values: pa.BinaryArray, skipped: Any) -> tuple[pa.Array, dict[int, str]]:
    try:
        decoder, writer = _decoder(_Key(recipe))
    except Unreadable as error:
        return pa.nulls(len(values), recipe.shape.type if recipe.shape else pa.null()), dict.fromkeys(
            range(len(values)), str(error)
        )
    found = decoder.decode(values, np.full(len(values), writer), skipped)
    return found.column, found.reasons


class _Key:
    """A recipe as the key of a cache: recipes with the same reader and writer decode alike."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._key = (recipe.kind, recipe.source, recipe.reader, recipe.writer, recipe.rest)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._key == other._key


@lru_cache(maxsize=64)
def _decoder(key: _Key) -> tuple[FormatDecoder, int]:
    recipe = key.recipe
    decoder = format_decoder(recipe.kind, recipe.source, recipe.reader, None, "value")
    return decoder, decoder.add(recipe.writer, recipe.referenced, recipe.rest)


def _fixed(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    sources = ("partition", "offset", "timestamp", "key", "headers")
    found = {ours: batch.column(theirs) for ours, theirs in zip(FIXED_NAMES, sources, strict=True)}
    assert found[KEY].type == pa.binary()
    found[FIXED_NAMES[-1]] = found[FIXED_NAMES[-1]].cast(HEADERS)
    return found


def _filled(column: pa.Array | None, kind: pa.DataType, rows: int) -> pa.Array:
    if column is None:
        return pa.nulls(rows, kind)
    return column if column.type == kind else column.cast(kind)


def last_of_each_key(rows: pa.Table) -> pa.Table:
    """Return the last row of each key, in the order of the rows."""
    numbered = rows.append_column(_ROW, pa.array(np.arange(len(rows))))
    last = numbered.group_by(KEY).aggregate([(_ROW, "max")])[f"{_ROW}_max"]
    return rows.take(last.combine_chunks().sort())

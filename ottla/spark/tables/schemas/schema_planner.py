"""Which schema reads which record, and how the table's columns follow. Runs in the driver and asks the registry."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from ottla.client.errors import ClientError
from ottla.client.schema_registry import RegistryError, RegistrySettings, Schema, SchemaRegistry
from ottla.spark.formats.registered.framing import SchemaName
from ottla.spark.formats.registered.schema_source import SchemaSource, shared_registry
from ottla.spark.tables.schemas.columns import VALUE
from ottla.spark.tables.schemas.evolution import Breaking, Evolution, Names, Shape, evolve, plain_shape
from ottla.spark.tables.schemas.registered_shapes import kind_of, shape_of
from ottla.table_settings import JSON, KEY_VALUE, LATEST, TableSettings

#: Name of the schema for records without a schema id.
UNFRAMED = ""
_NO_SCHEMA = Schema("")


@dataclass(frozen=True)
class Recipe:
    """How to decode the records of one writer schema: to the shape of `reader`, or not at all, for a reason."""

    kind: str = ""
    source: SchemaSource = field(default_factory=SchemaSource)
    reader: Schema = _NO_SCHEMA
    writer: Schema = _NO_SCHEMA
    referenced: dict[str, Schema] = field(default_factory=dict)
    shape: Shape | None = None
    rest: bytes = b""
    refusal: str = ""


@dataclass(frozen=True)
class SchemaPlan:
    """Recipes by the name of a writer schema, and the evolutions of the table that they need, in order."""

    recipes: dict[str, Recipe] = field(default_factory=dict)
    evolutions: tuple[Evolution, ...] = ()
    columns: pa.Schema = field(default_factory=lambda: pa.schema([]))


class SchemaPlanner:
    """Plans for one topic. `plan` is called again whenever tasks meet a schema that no plan had."""

    def __init__(self, settings: TableSettings, registry: RegistrySettings | None) -> None:
        if settings.uses_registry and registry is None:
            raise ClientError(
                f"Topic {settings.topic} has ottla.table.mode={settings.mode}, which needs a schema registry: "
                "pass --schema-registry URL."
            )
        self._settings = settings
        self._registry = registry
        self._seen: dict[str, SchemaName] = {}

    def plan(
        self,
        columns: pa.Schema,
        unknown: Iterable[SchemaName] = (),
        inferred: pa.StructType | None = None,
    ) -> SchemaPlan:
        """Plan for a table with these columns of the value. `unknown` and `inferred` were found by tasks."""
        mode = self._settings.mode
        if mode == KEY_VALUE:
            shape = plain_shape("", pa.struct([pa.field(VALUE, pa.binary())]))
            return self._single(columns, shape)
        if mode == JSON:
            if inferred is None:
                return SchemaPlan(columns=columns)
            return self._single(columns, plain_shape("", inferred))
        self._seen |= {str(name): name for name in unknown}
        assert self._registry is not None
        registry = shared_registry(self._registry)
        return _RegistryPlan(registry, self._registry, self._settings, self._seen).plan(columns)

    def _single(self, columns: pa.Schema, shape: Shape) -> SchemaPlan:
        evolution = evolve(columns, shape, Names(), skip_conflicts=self._settings.mode == JSON)
        evolutions = (evolution,) if evolution.changes else ()
        return SchemaPlan({}, evolutions, evolution.columns)


class _RegistryPlan:
    def __init__(
        self,
        registry: SchemaRegistry,
        settings: RegistrySettings,
        table: TableSettings,
        seen: dict[str, SchemaName],
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._table = table
        self._seen = seen
        self._names = Names()
        self._recipes: dict[str, Recipe] = {}
        self._evolutions: list[Evolution] = []

    def plan(self, columns: pa.Schema) -> SchemaPlan:
        writers = self._writers()
        shapes: dict[str, Shape] = {}
        for name, writer in writers.items():
            try:
                shapes[name] = shape_of(writer, self._source(), self._registry.referenced(writer))
                self._names.learn(shapes[name])
            except (Breaking, ClientError, ValueError, RecursionError) as error:
                self._refuse(name, str(error).rstrip("."))
        if self._table.mode == LATEST:
            columns = self._plan_latest(columns, writers, shapes)
        else:
            for name, shape in shapes.items():
                columns = self._add(columns, name, writers[name], writers[name], shape)
        return SchemaPlan(self._recipes, tuple(self._evolutions), columns)

    def _writers(self) -> dict[str, Schema]:
        """Return the versions of the topic's subject, oldest first, and then other schemas that tasks have met."""
        subject = f"{self._table.topic}-value"
        found: dict[str, Schema] = {}
        try:
            for version in sorted(self._registry.versions(subject)):
                schema = self._registry.version(subject, version)
                found.setdefault(str(schema.id), schema)
        except RegistryError as error:
            if not error.is_not_found:
                raise
        for name, schema_name in self._seen.items():
            if name in found:
                continue
            try:
                found[name] = (
                    self._registry.by_guid(schema_name.guid)
                    if schema_name.guid
                    else self._registry.by_id(schema_name.id)
                )
            except RegistryError as error:
                if not error.is_not_found:
                    raise
                self._refuse(name, f"schema {name} is not in the registry")
        return found

    def _plan_latest(
        self, columns: pa.Schema, writers: dict[str, Schema], shapes: dict[str, Shape]
    ) -> pa.Schema:
        """Read all records with the newest version that fits the table. Newer versions are refused."""
        versions = [name for name in shapes if writers[name].version > 0]
        reader = None
        for name in reversed(versions):
            before = columns
            columns = self._add(columns, name, writers[name], writers[name], shapes[name])
            if not self._recipes[name].refusal:
                reader = name
                break
            columns = before
        if reader is None:
            return columns
        for name in shapes:
            if name not in self._recipes:
                chosen = self._recipes[reader]
                self._recipes[name] = replace(
                    chosen,
                    writer=writers[name],
                    referenced=self._registry.referenced(writers[name]),
                    rest=self._rest(name),
                )
        chosen = self._recipes[reader]
        if not chosen.reader.references:
            text = SchemaSource(text=chosen.reader.text)
            self._recipes[UNFRAMED] = replace(chosen, source=text, writer=chosen.reader, referenced={})
        return columns

    def _add(self, columns: pa.Schema, name: str, writer: Schema, reader: Schema, shape: Shape) -> pa.Schema:
        named = self._names.named(shape)
        try:
            evolution = evolve(columns, named, self._names)
            kind = kind_of(reader)
        except Breaking as error:
            self._refuse(name, str(error))
            return columns
        if evolution.changes:
            self._evolutions.append(evolution)
        referenced = self._registry.referenced(writer)
        self._recipes[name] = Recipe(
            kind, self._source(), reader, writer, referenced, named, self._rest(name)
        )
        return evolution.columns

    def _refuse(self, name: str, reason: str) -> None:
        self._recipes[name] = Recipe(refusal=f"it was written with schema {name}: {reason}")

    def _rest(self, name: str) -> bytes:
        return self._seen[name].rest if name in self._seen else b""

    def _source(self) -> SchemaSource:
        return SchemaSource(self._settings)


def value_columns(columns: pa.Schema) -> pa.Schema:
    """Return the columns of the value, without those that every table has."""
    from ottla.spark.tables.schemas.columns import FIXED_NAMES

    return pa.schema([each for each in columns if each.name not in FIXED_NAMES])

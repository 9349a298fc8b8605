"""The interfaces of transforms and predicates, and the common parts of Kafka's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance
from ottla.connect.data.columns import Columns, keep_in_step, only_schema
from ottla.connect.data.java_values import java_class_name
from ottla.connect.data.record import ConnectRecord, SinkRecord
from ottla.connect.data.schema import Field, Schema, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError

_MOST_SCHEMAS = 16

C = TypeVar("C", bound=Columns)


class Transform:
    """Maps one record to one record, or to None to drop it. One thread calls it at a time."""

    config_def: ClassVar[ConfigDef] = ConfigDef()
    version: ClassVar[str] = ""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        keep_in_step(cls, "apply", "apply_columns", Transform.apply_columns)

    def configure(self, config: Mapping[str, str]) -> None:
        """`config` holds the settings without the prefix `transforms.NAME.`. Raises ConfigError."""
        self.settings = self.config_def.parse(config)

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        raise NotImplementedError

    @property
    def takes_columns(self) -> bool:
        return type(self).apply_columns is not Transform.apply_columns

    def apply_columns(self, columns: C) -> C:
        """Apply the transform to all records, if it drops none and all still share topic and schemas.

        This method has no side effects and may raise any exception. The runtime then calls `apply` for each record.
        """
        raise NotImplementedError

    def close(self) -> None: ...


class Predicate:
    """Selects the records to transform."""

    config_def: ClassVar[ConfigDef] = ConfigDef()
    version: ClassVar[str] = ""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        keep_in_step(cls, "test", "test_columns", Predicate.test_columns)

    def configure(self, config: Mapping[str, str]) -> None:
        self.settings = self.config_def.parse(config)

    def test(self, record: ConnectRecord) -> bool:
        raise NotImplementedError

    @property
    def takes_columns(self) -> bool:
        return type(self).test_columns is not Predicate.test_columns

    def test_columns(self, columns: Columns) -> bool:
        """Return the common result of `test` for all records.

        This method has no side effects and may raise any exception, for example MixedRecordsError.
        """
        raise NotImplementedError

    def close(self) -> None: ...


class KeyOrValueTransform(Transform):
    """Works on the key or on the value: `Cast$Key` or `Cast$Value`."""

    of_key: ClassVar[bool] = False

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        keep_in_step(cls, "change", "change_all", KeyOrValueTransform.change_all)

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self.schemas = SchemaCache()

    def change(self, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
        """Return the new key or value. A transform that needs the whole record defines `apply` instead."""
        raise NotImplementedError

    def change_all(self, schema: Schema | None, values: list[Any]) -> tuple[Schema | None, list[Any]]:
        """Apply `change` to all values, and return their common schema with the results. Raises MixedRecordsError."""
        change = self.change
        schemas, changed = zip(*[change(schema, each) for each in values], strict=True)
        return only_schema(schemas), list(changed)

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.schema_of(record), self.value_of(record)
        new_schema, new_value = self.change(schema, value)
        if new_value is value and new_schema is schema:
            return record
        return self.changed(record, new_schema, new_value)

    def apply_columns(self, columns: C) -> C:
        if self.of_key:
            schema, keys = self.change_all(columns.key_schema, columns.keys)
            return columns.replaced(key_schema=schema, keys=keys)
        schema, values = self.change_all(columns.value_schema, columns.values)
        return columns.replaced(value_schema=schema, values=values)

    def schema_of(self, record: ConnectRecord) -> Schema | None:
        return record.key_schema if self.of_key else record.value_schema

    def value_of(self, record: ConnectRecord) -> Any:
        return record.key if self.of_key else record.value

    def changed(self, record: ConnectRecord, schema: Schema | None, value: Any) -> ConnectRecord:
        if self.of_key:
            return record.replaced(key_schema=schema, key=value)
        return record.replaced(value_schema=schema, value=value)

    def field_value(self, struct: Struct, field: Field) -> Any:
        value = struct.values[field.index]
        if value is None and self.settings["replace.null.with.default"]:
            return field.schema.default
        return value


class SchemaCache:
    """Caches updated schemas by original. Streams have few, and most records repeat the previous record's schema."""

    def __init__(self) -> None:
        self._kept: dict[Schema, Schema] = {}
        self._last: Schema | None = None
        self._last_updated: Schema | None = None

    def get(self, schema: Schema) -> Schema | None:
        if schema is not self._last:
            self._last, self._last_updated = schema, self._kept.get(schema)
        return self._last_updated

    def put(self, schema: Schema, updated: Schema) -> Schema:
        if len(self._kept) >= _MOST_SCHEMAS:
            self._kept.pop(next(iter(self._kept)))
        self._kept[schema] = updated
        self._last, self._last_updated = schema, updated
        return updated


def replace_null_setting(definition: ConfigDef) -> ConfigDef:
    return definition.define(
        "replace.null.with.default",
        ConfigType.BOOLEAN,
        True,
        Importance.MEDIUM,
        "Replace null by the field's default value.",
    )


# Schemas


def basics_of(schema: Schema, fields: tuple[Field, ...]) -> Schema:
    """Build a required struct with these fields, and the name, version, doc and parameters of `schema`."""
    return Schema(
        SchemaType.STRUCT,
        name=schema.name,
        version=schema.version,
        doc=schema.doc,
        parameters=schema.parameters or None,
        fields=fields,
    )


def basic_copy(schema: Schema) -> Schema:
    """Copy a schema as required and without its default."""
    return replace(schema, optional=False, default=None, fields=(), parameters=schema.parameters or None)


def numbered(named: list[tuple[str, Schema]]) -> tuple[Field, ...]:
    names: set[str] = set()
    for name, _ in named:
        if not name:
            raise DataError("fieldName cannot be null.")
        if name in names:
            raise DataError(f"Cannot create field because of field name duplication {name}")
        names.add(name)
    return tuple(Field(name, index, schema) for index, (name, schema) in enumerate(named))


# Type checks with the wording of Kafka's Requirements


def require_map(value: Any, purpose: str) -> dict[Any, Any]:
    if not isinstance(value, dict):
        raise DataError(
            f"Only Map objects supported in absence of schema for [{purpose}], found: {class_of(value)}"
        )
    return value


def require_struct(value: Any, purpose: str, schema: Schema | None = None) -> Struct:
    if not isinstance(value, Struct):
        raise DataError(f"Only Struct objects supported for [{purpose}], found: {class_of(value, schema)}")
    return value


def require_sink_record(record: ConnectRecord, purpose: str) -> SinkRecord:
    if not isinstance(record, SinkRecord):
        name = getattr(record, "java_name", type(record).__name__)
        raise DataError(f"Only SinkRecord supported for [{purpose}], found: {name}")
    return record


def class_of(value: Any, schema: Schema | None = None) -> str:
    return "null" if value is None else java_class_name(value, schema)

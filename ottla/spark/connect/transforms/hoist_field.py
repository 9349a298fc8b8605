"""HoistField: the whole key or value becomes the one field of a struct or map."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.spark.connect.config.config_def import ConfigDef, ConfigType, Importance
from ottla.spark.connect.data.record import ConnectRecord
from ottla.spark.connect.data.schema import Schema, SchemaType
from ottla.spark.connect.data.struct import Struct
from ottla.spark.connect.transforms.base import KeyOrValueTransform, numbered


class HoistField(KeyOrValueTransform):
    config_def = ConfigDef().define(
        "field",
        ConfigType.STRING,
        importance=Importance.MEDIUM,
        documentation="The name of the one field.",
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._field: str = self.settings["field"]

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        schema, value = self.schema_of(record), self.value_of(record)
        if schema is None:
            return self.changed(record, None, {self._field: value})
        updated = self.schemas.get(schema)
        if updated is None:
            updated = Schema(SchemaType.STRUCT, fields=numbered([(self._field, schema)]))
            self.schemas.put(schema, updated)
        return self.changed(record, updated, Struct(updated).put(self._field, value))


class HoistFieldKey(HoistField):
    of_key = True


class HoistFieldValue(HoistField): ...

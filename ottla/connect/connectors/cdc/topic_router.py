"""ByLogicalTableRouter: sends the tables of one logical table, such as shards, to one topic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

from ottla import __version__
from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance
from ottla.connect.config.validators import regex
from ottla.connect.connectors.cdc.unwrap import is_change_event
from ottla.connect.data.java_regex import compile_java, replacement
from ottla.connect.data.record import ConnectRecord
from ottla.connect.data.schema import STRING, Field, Schema
from ottla.connect.data.struct import Struct
from ottla.connect.transforms.base import Transform, numbered


class ByLogicalTableRouter(Transform):
    version: ClassVar[str] = __version__
    config_def = (
        ConfigDef()
        .define("topic.regex", ConfigType.STRING, importance=Importance.LOW,
            documentation="Which topics are routed.", validator=regex)
        .define("topic.replacement", ConfigType.STRING, importance=Importance.LOW,
            documentation="New topic; $1 is the first group.")
        .define("key.enforce.uniqueness", ConfigType.BOOLEAN, True, Importance.LOW,
            "Whether keys get a field with the old topic, as rows of two tables may have the same key.")
        .define("key.field.name", ConfigType.STRING, "__dbz__physicalTableIdentifier", Importance.LOW,
            "The name of that field.")
        .define("key.field.regex", ConfigType.STRING, None, Importance.LOW,
            "Part of the old topic for the value of that field.")
        .define("key.field.replacement", ConfigType.STRING, None, Importance.LOW,
            "The value of that field, with groups of key.field.regex.")
    )  # fmt: skip

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._pattern = compile_java(self.settings["topic.regex"])
        self._replacement: str = self.settings["topic.replacement"]
        key = self.settings["key.field.regex"]
        self._key_pattern = compile_java(key) if key else None
        self._renamed: dict[tuple[int, str], tuple[Schema, Schema]] = {}

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        if record.value is not None and not is_change_event(record.value):
            return record
        found = self._pattern.fullmatch(record.topic)
        if found is None:
            return record
        topic = replacement(self._replacement, found)
        key, key_schema = self._key(record, topic)
        value, value_schema = self._value(record.value, topic)
        return record.replaced(
            topic=topic, key=key, key_schema=key_schema, value=value, value_schema=value_schema
        )

    def _key(self, record: ConnectRecord, topic: str) -> tuple[Any, Schema | None]:
        schema = record.key_schema
        if not isinstance(record.key, Struct) or schema is None:
            return record.key, schema
        enforced = self.settings["key.enforce.uniqueness"]

        def build() -> Schema:
            fields = [(field.name, field.schema) for field in schema.fields]
            if enforced:
                fields.append((self.settings["key.field.name"], STRING))
            return replace(schema, name=f"{topic}.Key", fields=numbered(fields))

        changed = Struct(self._known(schema, topic, build))
        changed.values = list(record.key.values)
        if enforced:
            changed.values.append(self._identifier(record.topic))
        return changed, changed.schema

    def _identifier(self, topic: str) -> str:
        pattern, pattern_replacement = self._key_pattern, self.settings["key.field.replacement"]
        if pattern is None or pattern_replacement is None:
            return topic
        found: re.Match[str] | None = pattern.fullmatch(topic)
        return replacement(pattern_replacement, found) if found is not None else topic

    def _value(self, value: Any, topic: str) -> tuple[Any, Schema | None]:
        if value is None:
            return None, None
        old: Schema = value.schema

        def build() -> Schema:
            fields = []
            for field in old.fields:
                schema = field.schema
                if field.name in ("before", "after"):
                    schema = replace(schema, name=f"{topic}.Value")
                fields.append(Field(field.name, field.index, schema))
            return replace(old, name=f"{topic}.Envelope", fields=tuple(fields))

        changed = Struct(self._known(old, topic, build))
        changed.values = list(value.values)
        for number, field in enumerate(changed.schema.fields):
            if field.name in ("before", "after") and changed.values[number] is not None:
                row = Struct(field.schema)
                row.values = changed.values[number].values
                changed.values[number] = row
        return changed, changed.schema

    def _known(self, schema: Schema, topic: str, build: Any) -> Schema:
        """Cache by object identity. The cache keeps the schema alive, so its id stays unique."""
        known = self._renamed.get((id(schema), topic))
        if known is None:
            if len(self._renamed) >= 256:
                self._renamed.clear()
            known = self._renamed[id(schema), topic] = (schema, build())
        return known[1]

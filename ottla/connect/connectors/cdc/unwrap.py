"""ExtractNewRecordState: replaces Debezium's envelope with the row after the change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from ottla import __version__
from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance, one_of
from ottla.connect.data.record import ConnectRecord, Header
from ottla.connect.data.schema import STRING, Schema
from ottla.connect.data.struct import Struct
from ottla.connect.errors import DataError
from ottla.connect.transforms.base import SchemaCache, Transform, basics_of, numbered

MODES = ("drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone")
_OLD_MODES = ("drop", "none", "rewrite")
_OF_ENVELOPE = ("op", "ts_ms", "ts_us", "ts_ns")
DELETED = "__deleted"


class Added(NamedTuple):
    """A field of the envelope, or of a struct in it, and its name in the record."""

    struct: str | None
    field: str
    name: str

    @classmethod
    def parse(cls, text: str, prefix: str) -> Added:
        path, _, renamed = text.strip().partition(":")
        struct, _, field = path.rpartition(".")
        name = renamed or path.replace(".", "_")
        if not struct:
            return cls(None if field in _OF_ENVELOPE else "source", field, prefix + name)
        return cls(struct, field, prefix + name)

    def schema(self, envelope: Schema) -> Schema:
        holder: Schema | None = envelope
        if self.struct is not None:
            found = envelope.field(self.struct)
            holder = found.schema if found is not None else None
        field = holder.field(self.field) if holder is not None else None
        if field is None:
            raise DataError(
                f"There is no field {self.field} in {self.struct or 'the envelope'} of {envelope.name}: check "
                "add.fields and add.headers."
            )
        old = field.schema
        return Schema(old.type, True, None, old.name, old.version, old.doc, old.parameters, old.fields)

    def value(self, envelope: Struct) -> Any:
        holder = envelope if self.struct is None else envelope.get(self.struct)
        return holder.get(self.field) if holder is not None else None


class ExtractNewRecordState(Transform):
    version: ClassVar[str] = __version__
    config_def = (
        ConfigDef()
        .define(
            "delete.tombstone.handling.mode",
            ConfigType.STRING,
            "tombstone",
            Importance.MEDIUM,
            "Treatment of a delete and its tombstone: drop (nothing), tombstone (one record without a value), "
            "rewrite (the row with __deleted), rewrite-with-tombstone (both), delete-to-tombstone (one record "
            "without value and schema).",
            validator=one_of(*MODES),
        )
        .define(
            "delete.handling.mode",
            ConfigType.STRING,
            None,
            Importance.LOW,
            "Older than delete.tombstone.handling.mode: drop, none or rewrite.",
            validator=lambda name, value: value is None or one_of(*_OLD_MODES)(name, value),
        )
        .define(
            "drop.tombstones",
            ConfigType.BOOLEAN,
            True,
            Importance.LOW,
            "Counts together with delete.handling.mode.",
        )
        .define(
            "add.fields",
            ConfigType.LIST,
            [],
            Importance.LOW,
            "Fields of the envelope to add, as op,source.lsn.",
        )
        .define(
            "add.fields.prefix", ConfigType.STRING, "__", Importance.LOW, "Before the names of added fields."
        )
        .define(
            "add.headers", ConfigType.LIST, [], Importance.LOW, "Fields of the envelope to add as headers."
        )
        .define(
            "add.headers.prefix",
            ConfigType.STRING,
            "__",
            Importance.LOW,
            "Before the names of added headers.",
        )
        .define(
            "route.by.field", ConfigType.STRING, "", Importance.LOW, "The field whose value is the topic."
        )
        .define(
            "replace.null.with.default",
            ConfigType.BOOLEAN,
            True,
            Importance.MEDIUM,
            "Whether a null in a field with a default becomes that default where fields are added.",
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        settings = self.settings
        mode, old = settings["delete.tombstone.handling.mode"], settings["delete.handling.mode"]
        if old is None:
            self._keeps_tombstones = mode == "rewrite-with-tombstone"
            self._deletes = mode.removesuffix("-with-tombstone")
        else:
            self._keeps_tombstones = not settings["drop.tombstones"]
            self._deletes = {"drop": "drop", "none": "tombstone", "rewrite": "rewrite"}[old]
        self._added = [Added.parse(each, settings["add.fields.prefix"]) for each in settings["add.fields"]]
        self._headers = [
            Added.parse(each, settings["add.headers.prefix"]) for each in settings["add.headers"]
        ]
        self._route: str = settings["route.by.field"]
        self._replaces: bool = settings["replace.null.with.default"]
        self._schemas = SchemaCache()

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if record.value is None:
            return self._tombstone(record) if self._keeps_tombstones else None
        if not is_change_event(record.value):
            # Heartbeats, transactions and schema changes pass through.
            return record
        envelope: Struct = record.value
        after, before = envelope.get("after"), envelope.get("before")
        op = envelope.get("op")
        if op == "t":
            return None
        headers = [*record.headers, *self._added_headers(envelope)]
        if op == "d":
            return self._deleted(record, envelope, before, headers)
        return self._changed(record, envelope, after, headers, deleted="false")

    def _deleted(
        self, record: ConnectRecord, envelope: Struct, before: Struct | None, headers: list[Header]
    ) -> ConnectRecord | None:
        if self._deletes == "drop":
            return None
        if self._deletes == "delete-to-tombstone":
            return record.replaced(value=None, value_schema=None, headers=headers)
        if self._deletes == "tombstone" or before is None:
            # Debezium keeps the schema here. Some converters then write a non-empty value.
            return record.replaced(value=None, value_schema=envelope.schema.fields[1].schema, headers=headers)
        return self._changed(record, envelope, before, headers, deleted="true")

    def _tombstone(self, record: ConnectRecord) -> ConnectRecord:
        named = [each.name for each in self._headers if each.field == "op" and each.struct is None]
        added = [Header(name, "d", STRING.as_optional()) for name in named]
        return record.replaced(headers=[*record.headers, *added]) if added else record

    def _changed(
        self, record: ConnectRecord, envelope: Struct, row: Struct, headers: list[Header], deleted: str
    ) -> ConnectRecord:
        value = Struct(self._schema(envelope.schema, row.schema))
        value.values = [
            each if each is not None or not self._replaces else field.schema.default
            for field, each in zip(row.schema.fields, row.values, strict=True)
        ]
        if self._deletes == "rewrite":
            value.values.append(deleted)
        value.values += [added.value(envelope) for added in self._added]
        topic = record.topic
        if self._route:
            routed = row.get(self._route)
            topic = str(routed) if routed is not None else topic
        return record.replaced(topic=topic, value=value, value_schema=value.schema, headers=headers)

    def _schema(self, envelope: Schema, row: Schema) -> Schema:
        known = self._schemas.get(envelope)
        if known is not None:
            return known
        named = [(field.name, field.schema) for field in row.fields]
        if self._deletes == "rewrite":
            named.append((DELETED, STRING.as_optional()))
        named += [(added.name, added.schema(envelope)) for added in self._added]
        return self._schemas.put(envelope, basics_of(row, numbered(named)))

    def _added_headers(self, envelope: Struct) -> list[Header]:
        return [
            Header(each.name, each.value(envelope), each.schema(envelope.schema)) for each in self._headers
        ]


def is_change_event(value: Any) -> bool:
    return isinstance(value, Struct) and (value.schema.name or "").endswith(".Envelope")

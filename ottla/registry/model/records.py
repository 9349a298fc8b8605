"""The records of `_schemas`, byte for byte as in Confluent's registry."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from ottla.registry.model.contracts import Json, Reference, content_md5, guid_of

TENANT = "default"

SCHEMA = "SCHEMA"
CONFIG = "CONFIG"
MODE = "MODE"
DELETE_SUBJECT = "DELETE_SUBJECT"
CLEAR_SUBJECT = "CLEAR_SUBJECT"
NOOP = "NOOP"
CONTEXT = "CONTEXT"

_OF_SUBJECTS = (CONFIG, MODE, DELETE_SUBJECT, CLEAR_SUBJECT)


class Key(NamedTuple):
    """`subject` is None for config and mode of the default context. `context` belongs to a CONTEXT key."""

    keytype: str
    subject: str | None = None
    version: int = 0
    context: str = ""


class Write(NamedTuple):
    """A record to write; without a value it is a tombstone."""

    key: Key
    value: Json | None


def to_bytes(value: object) -> bytes:
    """Encode JSON like Jackson: without blanks or unnecessary escapes."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def encode_key(key: Key) -> bytes:
    if key.keytype == SCHEMA:
        fields: Json = {"keytype": SCHEMA, "subject": key.subject, "version": key.version, "magic": 1}
    elif key.keytype == NOOP:
        fields = {"keytype": NOOP, "magic": 0}
    elif key.keytype == CONTEXT:
        fields = {"keytype": CONTEXT, "tenant": TENANT, "context": key.context}
    else:
        fields = {"keytype": key.keytype, "subject": key.subject, "magic": 0}
    return to_bytes(fields)


def decode_key(data: bytes) -> Key | None:
    """Return None for unknown keys."""
    try:
        fields = json.loads(data)
        keytype = fields["keytype"]
        if keytype == SCHEMA:
            return Key(SCHEMA, str(fields["subject"]), int(fields["version"]))
        if keytype == NOOP:
            return Key(NOOP)
        if keytype == CONTEXT:
            return Key(CONTEXT, context=str(fields["context"]))
        if keytype in _OF_SUBJECTS:
            return Key(keytype, fields.get("subject"))
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


@dataclass(frozen=True)
class SchemaVersion:
    """A version of a subject, as in a SCHEMA record."""

    subject: str
    version: int
    id: int
    schema: str
    schema_type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    metadata: Json | None = None
    rule_set: Json | None = None
    deleted: bool = False
    offset: int = field(default=-1, compare=False)
    timestamp: int = field(default=-1, compare=False)

    @cached_property
    def md5(self) -> bytes:
        """Hash of the actual content: older records lack it, and copied ones are not trusted."""
        return content_md5(self.schema, self.references, self.metadata, self.rule_set)

    @property
    def guid(self) -> str:
        return guid_of(self.md5)

    @property
    def key(self) -> Key:
        return Key(SCHEMA, self.subject, self.version)

    def to_value(self) -> Json:
        value: Json = {
            "subject": self.subject,
            "version": self.version,
            "id": self.id,
            "md5": base64.b64encode(self.md5).decode(),
        }
        if self.schema_type != "AVRO":
            value["schemaType"] = self.schema_type
        if self.references:
            value["references"] = [each.to_json() for each in self.references]
        if self.metadata is not None:
            value["metadata"] = self.metadata
        if self.rule_set is not None:
            value["ruleSet"] = self.rule_set
        value["schema"] = self.schema
        value["deleted"] = self.deleted
        return value

    def write(self) -> Write:
        return Write(self.key, self.to_value())

    def as_deleted(self) -> SchemaVersion:
        return replace(self, deleted=True)


def schema_version(value: Json, offset: int, timestamp: int) -> SchemaVersion:
    """Raises ValueError, KeyError or TypeError for an invalid SCHEMA value."""
    references = tuple(
        Reference(str(each["name"]), str(each["subject"]), int(each["version"]))
        for each in value.get("references") or ()
    )
    return SchemaVersion(
        subject=str(value["subject"]),
        version=int(value["version"]),
        id=int(value["id"]),
        schema=str(value["schema"]),
        schema_type=value.get("schemaType") or "AVRO",
        references=references,
        metadata=_json_object(value.get("metadata")),
        rule_set=_json_object(value.get("ruleSet")),
        deleted=value.get("deleted") is True,
        offset=offset,
        timestamp=int(value.get("ts") or timestamp),
    )


def _json_object(value: Any) -> Json | None:
    if value is not None and not isinstance(value, dict):
        raise TypeError("not an object")
    return value

"""Formats of keys and values: a format with a schema, text, or raw bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.spark.options import OptionError

if TYPE_CHECKING:
    from ottla.spark.formats.registered.schema_source import SchemaSource

_WHOLE_TYPE = re.compile(r"(STRUCT|ARRAY|MAP)\s*<", re.IGNORECASE)


#: Formats with schemas in a registry.
REGISTERED = ("avro", "protobuf", "jsonschema")


@dataclass(frozen=True)
class Format:
    """`name` is the value of keyFormat or valueFormat, and `schema` is Spark DDL."""

    name: str
    schema: str | None = None
    #: Schema of a registry format.
    source: SchemaSource | None = None
    #: The schema as options without the prefix `key` or `value`.
    given: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def may_be_bad(self) -> bool:
        return self.schema is not None or self.name in REGISTERED

    @property
    def sql_type(self) -> str:
        """Return the column type as Spark DDL. This may ask a registry."""
        if self.source is not None and self.schema is None:
            from ottla.spark.formats.registered.planning import planned_type

            return planned_type(self.name, self.source)
        if self.schema is None:
            return "STRING" if self.name == "text" else "BINARY"
        return self.schema if _WHOLE_TYPE.match(self.schema.strip()) else f"STRUCT<{self.schema}>"

    def options(self, part: str) -> dict[str, str]:
        schema = {} if self.schema is None else {f"{part}Schema": self.schema}
        return {f"{part}Format": self.name, **schema} | {
            f"{part}{name[0].upper()}{name[1:]}": value for name, value in self.given.items()
        }


text = Format("text")
raw = Format("raw")


def json(schema: Any) -> Format:
    """Describe values in JSON. `schema` is DDL such as "user STRING, likes INT", or a StructType."""
    if isinstance(schema, str):
        if not schema.strip():
            raise OptionError("The JSON schema is empty. List its fields, as in 'user STRING'.")
        return Format("json", schema.strip())
    if hasattr(schema, "simpleString"):
        return Format("json", ddl(schema))
    raise OptionError(f"The schema of the JSON must be DDL or a StructType, not {schema!r}.")


def avro(
    schema: Any = None, *, subject: str | None = None, version: int | None = None, id: int | None = None
) -> Format:
    """Describe values in Avro with schemas in a registry.

    Columns come from the latest version of the topic's subject, or from another `subject`, `version` or `id`. Otherwise
    `schema` gives them: DDL, a StructType, or an Avro schema.
    """
    return _registered("avro", schema, subject=subject, version=version, id=id)


def protobuf(
    schema: Any = None,
    *,
    message: str | None = None,
    subject: str | None = None,
    version: int | None = None,
    id: int | None = None,
) -> Format:
    """Describe values in Protobuf, as with `avro`. `message` selects a message other than the first of its file."""
    return _registered("protobuf", schema, message=message, subject=subject, version=version, id=id)


def jsonschema(
    schema: Any = None, *, subject: str | None = None, version: int | None = None, id: int | None = None
) -> Format:
    """Describe values in JSON with schemas in a registry, as with `avro`."""
    return _registered("jsonschema", schema, subject=subject, version=version, id=id)


def _registered(
    name: str,
    schema: Any,
    *,
    subject: str | None = None,
    version: int | None = None,
    id: int | None = None,
    message: str | None = None,
) -> Format:
    given = {"subject": subject, "schemaVersion": version, "schemaId": id, "message": message}
    text = schema if schema is None or isinstance(schema, str) else ddl(schema)
    return Format(name, text, None, {key: str(value) for key, value in given.items() if value is not None})


def as_format(given: Any, what: str) -> Format:
    """Return a format. The classes str and bytes mean text and raw."""
    if isinstance(given, Format):
        return given
    if given is str:
        return text
    if given is bytes:
        return raw
    if given is json:
        raise OptionError(f"{what}=json lacks a schema. Use {what}=json('user STRING, likes INT').")
    if given in (avro, protobuf, jsonschema):
        return Format(given.__name__)
    raise OptionError(
        f"{what} must be json(schema), avro(), protobuf(), jsonschema(), text or raw, not {given!r}."
    )


def ddl(kind: Any) -> str:
    """Return the type as DDL with all fields nullable, because JSON cannot guarantee any field."""
    name = kind.typeName()
    if name == "struct":
        fields = ", ".join(f"{quoted(field.name)}: {ddl(field.dataType)}" for field in kind.fields)
        return f"STRUCT<{fields}>"
    if name == "array":
        return f"ARRAY<{ddl(kind.elementType)}>"
    if name == "map":
        return f"MAP<{ddl(kind.keyType)}, {ddl(kind.valueType)}>"
    return str(kind.simpleString())


@contextmanager
def numba_needed(name: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "numba":
            raise
        raise OptionError(
            f"The format {name} needs numba, which is not installed: pip install numba."
        ) from None


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

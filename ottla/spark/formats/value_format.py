"""What the bytes of keys and values are: a format with a schema, text, or just bytes."""

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


#: Formats whose schemas a registry keeps.
REGISTERED = ("avro", "protobuf", "jsonschema")


@dataclass(frozen=True)
class Format:
    """`name` is what the option keyFormat or valueFormat says, and `schema` is Spark DDL."""

    name: str
    schema: str | None = None
    #: Of formats whose schemas a registry keeps: which schema it is.
    source: SchemaSource | None = None
    #: The same as options, without the `key` or `value` that they begin with.
    given: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def may_be_bad(self) -> bool:
        """Whether some bytes are not of the format."""
        return self.schema is not None or self.name in REGISTERED

    @property
    def sql_type(self) -> str:
        """What a column of it is, in Spark's DDL. A registry may be asked for it."""
        if self.source is not None and self.schema is None:
            from ottla.spark.formats.registered.planning import planned_type

            return planned_type(self.name, self.source)
        if self.schema is None:
            return "STRING" if self.name == "text" else "BINARY"
        return self.schema if _WHOLE_TYPE.match(self.schema.strip()) else f"STRUCT<{self.schema}>"

    def options(self, part: str) -> dict[str, str]:
        """As options of the data source, for the key or the value."""
        schema = {} if self.schema is None else {f"{part}Schema": self.schema}
        return {f"{part}Format": self.name, **schema} | {
            f"{part}{name[0].upper()}{name[1:]}": value for name, value in self.given.items()
        }


text = Format("text")
raw = Format("raw")


def json(schema: Any) -> Format:
    """Values in JSON; `schema` is DDL such as "user STRING, likes INT", or a StructType."""
    if isinstance(schema, str):
        if not schema.strip():
            raise OptionError(
                "The schema of the JSON is empty: say which fields it has, as in 'user STRING'."
            )
        return Format("json", schema.strip())
    if hasattr(schema, "simpleString"):
        return Format("json", ddl(schema))
    raise OptionError(f"The schema of the JSON must be DDL or a StructType, not {schema!r}.")


def avro(
    schema: Any = None, *, subject: str | None = None, version: int | None = None, id: int | None = None
) -> Format:
    """Values in Avro, with schemas that a registry keeps.

    Columns come from the latest version of the topic's subject, or from another `subject`, a `version` or an `id`;
    or they are those of `schema`: DDL, a StructType, or a schema of Avro.
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
    """Values in Protobuf, as with `avro`; `message` is the one to read, if it is not the first of its file."""
    return _registered("protobuf", schema, message=message, subject=subject, version=version, id=id)


def jsonschema(
    schema: Any = None, *, subject: str | None = None, version: int | None = None, id: int | None = None
) -> Format:
    """Values in JSON with schemas that a registry keeps, as with `avro`."""
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
    """Takes the classes str and bytes for text and raw."""
    if isinstance(given, Format):
        return given
    if given is str:
        return text
    if given is bytes:
        return raw
    if given is json:
        raise OptionError(f"{what}=json says no schema: write {what}=json('user STRING, likes INT').")
    if given in (avro, protobuf, jsonschema):
        return Format(given.__name__)
    raise OptionError(
        f"{what} must be json(schema), avro(), protobuf(), jsonschema(), text or raw, not {given!r}."
    )


def ddl(kind: Any) -> str:
    """A type as DDL, in which every field may be null: of JSON no field can be demanded."""
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
    """Around the import of a format whose loops have no form in plain Python."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "numba":
            raise
        raise OptionError(
            f"The format {name} needs numba, which is not installed: pip install numba."
        ) from None


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"

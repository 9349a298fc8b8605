"""What the bytes of keys and values are: JSON of a schema, text, or just bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ottla.spark.options import OptionError

_WHOLE_TYPE = re.compile(r"(STRUCT|ARRAY|MAP)\s*<", re.IGNORECASE)


@dataclass(frozen=True)
class Format:
    """`name` is what the option keyFormat or valueFormat says, and `schema` is Spark DDL."""

    name: str
    schema: str | None = None

    @property
    def sql_type(self) -> str:
        """What a column of it is, in Spark's DDL."""
        if self.schema is None:
            return "STRING" if self.name == "text" else "BINARY"
        return self.schema if _WHOLE_TYPE.match(self.schema.strip()) else f"STRUCT<{self.schema}>"


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
    raise OptionError(f"{what} must be json(schema), text or raw, not {given!r}.")


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


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"

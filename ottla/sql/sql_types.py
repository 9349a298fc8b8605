"""ksqlDB's types: their notation, their Spark types, and their form in catalogues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.spark.formats.value_format import quoted

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

#: ksqlDB's name → Spark's name
PRIMITIVES = {
    "BOOLEAN": "BOOLEAN",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "DOUBLE": "DOUBLE",
    "STRING": "STRING",
    "BYTES": "BINARY",
    "DATE": "DATE",
    "TIME": "TIME",
    "TIMESTAMP": "TIMESTAMP",
}
SYNONYMS = {"INT": "INTEGER", "VARCHAR": "STRING"}


@dataclass(frozen=True)
class Field:
    name: str
    written: str  # possible spelling in JSON
    type: SqlType

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "written": self.written, "type": self.type.to_json()}


@dataclass(frozen=True)
class SqlType:
    """`name` is one of PRIMITIVES, or DECIMAL, ARRAY, MAP or STRUCT with its components."""

    name: str
    precision: int = 0
    scale: int = 0
    element: SqlType | None = None  # element of an array, or value of a map
    fields: tuple[Field, ...] = ()

    def __str__(self) -> str:
        if self.name == "DECIMAL":
            return f"DECIMAL({self.precision}, {self.scale})"
        if self.element is not None:
            return f"{self.name}<{'STRING, ' if self.name == 'MAP' else ''}{self.element}>"
        if self.name == "STRUCT":
            inner = ", ".join(f"{quoted_if_needed(each.name)} {each.type}" for each in self.fields)
            return f"STRUCT<{inner}>"
        return self.name

    @property
    def ddl(self) -> str:
        """Return the type in Spark's notation."""
        if self.name == "DECIMAL":
            return f"DECIMAL({self.precision},{self.scale})"
        if self.element is not None:
            return f"{self.name}<{'STRING,' if self.name == 'MAP' else ''}{self.element.ddl}>"
        if self.name == "STRUCT":
            return "STRUCT<" + ",".join(f"{quoted(each.name)}:{each.type.ddl}" for each in self.fields) + ">"
        return PRIMITIVES[self.name]

    def to_json(self) -> Any:
        plain: dict[str, Any] = {"name": self.name}
        if self.name == "DECIMAL":
            plain |= {"precision": self.precision, "scale": self.scale}
        if self.element is not None:
            plain["element"] = self.element.to_json()
        if self.fields:
            plain["fields"] = [each.to_json() for each in self.fields]
        return plain

    @classmethod
    def from_json(cls, plain: Any) -> SqlType:
        return cls(
            plain["name"],
            plain.get("precision", 0),
            plain.get("scale", 0),
            cls.from_json(plain["element"]) if "element" in plain else None,
            tuple(
                Field(each["name"], each["written"], cls.from_json(each["type"]))
                for each in plain.get("fields", ())
            ),
        )


def has_map(kind: SqlType) -> bool:
    """Return True if the type is or contains a MAP."""
    inner = [kind.element] if kind.element is not None else [field.type for field in kind.fields]
    return kind.name == "MAP" or any(has_map(each) for each in inner)


def overflow(kind: SqlType) -> str:
    """Return ksqlDB's error for a number that a DECIMAL cannot hold."""
    return (
        f"Numeric field overflow: A field with precision {kind.precision} and scale {kind.scale} must round to an "
        f"absolute value less than 10^{kind.precision - kind.scale}."
    )


def quoted_if_needed(name: str) -> str:
    plain = name.replace("_", "A")
    return name if plain.isalnum() and name == name.upper() and not name[:1].isdigit() else quoted(name)


_FROM_SPARK = {spark.lower(): name for name, spark in PRIMITIVES.items()}
_FROM_SPARK |= {
    "tinyint": "INTEGER",
    "smallint": "INTEGER",
    "float": "DOUBLE",
    "void": "STRING",
    "time(6)": "TIME",
}


def from_spark(spark_type: DataType) -> SqlType | None:
    """Return the type of a query's column, or None if ksqlDB has no such type."""
    from pyspark.sql import types

    if isinstance(spark_type, types.DecimalType):
        return SqlType("DECIMAL", spark_type.precision, spark_type.scale)
    if isinstance(spark_type, types.ArrayType):
        element = from_spark(spark_type.elementType)
        return None if element is None else SqlType("ARRAY", element=element)
    if isinstance(spark_type, types.MapType):
        element = from_spark(spark_type.valueType)
        if element is None or spark_type.keyType.simpleString() != "string":
            return None
        return SqlType("MAP", element=element)
    if isinstance(spark_type, types.StructType):
        fields = []
        for each in spark_type.fields:
            kind = from_spark(each.dataType)
            if kind is None:
                return None
            fields.append(Field(each.name, each.name, kind))
        return SqlType("STRUCT", fields=tuple(fields))
    name = _FROM_SPARK.get(spark_type.simpleString())
    return None if name is None else SqlType(name)

"""Rules that translate a ksqlDB function to Spark SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.sql.sql_types import SqlType

STRING = SqlType("STRING")
BOOLEAN = SqlType("BOOLEAN")
INTEGER = SqlType("INTEGER")
BIGINT = SqlType("BIGINT")
DOUBLE = SqlType("DOUBLE")
BYTES = SqlType("BYTES")
DATE = SqlType("DATE")
TIME = SqlType("TIME")
TIMESTAMP = SqlType("TIMESTAMP")

INTEGERS = ("INTEGER", "BIGINT")
NUMBERS = (*INTEGERS, "DECIMAL", "DOUBLE")


def array_of(element: SqlType | None) -> SqlType | None:
    return None if element is None else SqlType("ARRAY", element=element)


class WrongArguments(Exception):
    pass


@dataclass(frozen=True)
class Argument:
    """Argument of a call as Spark SQL, with its type as far as it is known without Spark."""

    sql: str
    type: SqlType | None = None

    def is_a(self, *names: str) -> bool:
        return self.type is not None and self.type.name in names


Types = Sequence[SqlType | None]
Arguments = Sequence[Argument]

#: A template uses `{0}`, `{1}` … for arguments, `{all}` for all of them, and `{rest}` for all but the first.
Form = str | Callable[[Arguments], str]
Result = SqlType | Callable[[Types], SqlType | None] | None


@dataclass(frozen=True)
class Function:
    """Forms by argument count, with None for any count. Without forms, Spark's function of that name is used."""

    forms: Mapping[int | None, Form] = field(default_factory=dict)
    result: Result = None


def let(body: str, *arguments: Argument) -> str:
    """Bind the arguments to `v.a`, `v.b` … in `body`, so that each is evaluated once."""
    members = ", ".join(f"'{name}', {each.sql}" for name, each in zip("abcdef", arguments, strict=False))
    return f"transform(array(named_struct({members})), v -> {body})[0]"


def first(types: Types) -> SqlType | None:
    return next((each for each in types if each is not None), None)


def element(types: Types) -> SqlType | None:
    return None if types[0] is None else types[0].element

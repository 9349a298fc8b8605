"""A case: statements, input records, and the records that ksqlDB writes according to its documentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Way = Literal["record by record", "all at once"]
WAYS: tuple[Way, ...] = ("record by record", "all at once")


@dataclass(frozen=True)
class In:
    """An input record.

    Key and value are written in the formats of the topic's stream or table: JSON takes any Python value, KAFKA a number
    or a text of the declared type, DELIMITED the line. Bytes are written unchanged; None is null. AVRO, PROTOBUF and
    JSON_SR use the subject's latest schema, or the given version.
    """

    topic: str
    key: Any
    value: Any
    ts: int = 0
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int = 0
    version: int | None = None


@dataclass(frozen=True)
class Registered:
    """A schema registered before the statements. `kind` is AVRO, PROTOBUF or JSON."""

    subject: str
    text: str
    kind: str = "AVRO"


@dataclass(frozen=True)
class Out:
    """An expected output record. `ts` None matches any time; `window` is the start and end in milliseconds."""

    topic: str
    key: Any
    value: Any
    ts: int | None = None
    window: tuple[int, int] | None = None


@dataclass(frozen=True)
class Case:
    """`outputs` lists all records of the topics it names, in order per topic.

    Without outputs, the last query must write nothing. A text among the inputs is a statement, executed after all
    earlier records. `refused` is a part of the expected error; such a case has no outputs. `different` explains a
    deviation from ksqlDB, and `ways` restricts cases in which only one way of processing is certain. `schemas` are
    registered first. `registry` requests a registry, and `registers` holds parts of the schemas expected in it
    afterwards, by subject. `fails` is a part of the error that ends the last query.
    """

    name: str
    statements: str
    inputs: Sequence[In | str] = ()
    outputs: Sequence[Out] = ()
    grouped: str = ""
    different: str = ""
    refused: str | None = None
    ways: tuple[Way, ...] = WAYS
    telling: bool = False  # runs in `make test-spark`, too
    functions: tuple[str, ...] = ()  # files with Python functions
    registry: bool = False
    schemas: tuple[Registered, ...] = ()
    registers: tuple[tuple[str, str], ...] = ()
    fails: str | None = None


def refused(grouped: str, name: str, statements: str, reason: str) -> Case:
    """Return a case whose last statement is refused; `reason` is the end of the error."""
    return Case(name, statements, grouped=grouped, refused=reason)

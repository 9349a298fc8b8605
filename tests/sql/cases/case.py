"""What a case is: statements, records that go in, and the records that ksqlDB writes by its documentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Way = Literal["record by record", "all at once"]
WAYS: tuple[Way, ...] = ("record by record", "all at once")


@dataclass(frozen=True)
class In:
    """A record to feed.

    Key and value are written in the formats of the stream or table that has the topic: JSON takes any value of
    Python, KAFKA a number or a text of the declared type, DELIMITED the line. Bytes go as they are; None is null.
    AVRO, PROTOBUF and JSON_SR are written with the latest schema of the subject, or with the version that is said.
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
    """A schema that is in the registry before the statements. `kind` is AVRO, PROTOBUF or JSON."""

    subject: str
    text: str
    kind: str = "AVRO"


@dataclass(frozen=True)
class Out:
    """A record that must come out; `ts` of None is any, `window` its start and end in milliseconds."""

    topic: str
    key: Any
    value: Any
    ts: int | None = None
    window: tuple[int, int] | None = None


@dataclass(frozen=True)
class Case:
    """`outputs` are all records of the topics that they name, each topic's in order.

    Without outputs nothing may come out of the last query. A text among the inputs is a statement, executed when all
    records before it are processed. `refused` is what the error must contain; then there are no outputs.
    `different` says how the outputs are not ksqlDB's, where that is so; `ways` is for those of which only one way can
    be said for certain. `schemas` are registered first, and there is a registry where `registry` says so; `registers`
    are parts of the schemas that must be in it afterwards, by their subjects.
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
    functions: tuple[str, ...] = ()  # files with functions of Python
    registry: bool = False
    schemas: tuple[Registered, ...] = ()
    registers: tuple[tuple[str, str], ...] = ()


def refused(grouped: str, name: str, statements: str, reason: str) -> Case:
    """A case of which the last statement is refused; `reason` is the end of the error."""
    return Case(name, statements, grouped=grouped, refused=reason)

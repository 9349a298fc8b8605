"""Statements as plain data. Names follow ksqlDB: upper case unless quoted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ottla.sql.errors import Position
from ottla.sql.sql_types import Field, SqlType

if TYPE_CHECKING:
    from sqlglot import exp

SourceKind = Literal["STREAM", "TABLE"]


@dataclass(frozen=True, kw_only=True)
class Statement:
    text: str
    position: Position


@dataclass(frozen=True)
class ColumnDefinition(Field):
    is_key: bool = False
    is_headers: bool = False
    header: str | None = None  # key in HEADER('…'); is_headers is also true


@dataclass(frozen=True)
class Property:
    value: str | int | bool
    position: Position


Properties = dict[str, Property]

# Queries


@dataclass(frozen=True)
class SelectItem:
    """`expression` is None for `*` and for `alias.*`, where `source` is the alias."""

    expression: exp.Expr | None
    alias: str | None
    source: str | None
    position: Position
    all_fields: bool = False  # expression->*


@dataclass(frozen=True)
class Relation:
    name: str
    alias: str
    position: Position


@dataclass(frozen=True)
class Join:
    kind: Literal["INNER", "LEFT", "RIGHT", "FULL"]
    right: Relation
    on: exp.Expr
    position: Position
    before_ms: int | None = None  # WITHIN
    after_ms: int | None = None
    grace_ms: int | None = None


@dataclass(frozen=True)
class Window:
    kind: Literal["TUMBLING", "HOPPING", "SESSION"]
    size_ms: int  # gap for a session window
    advance_ms: int | None = None
    grace_ms: int | None = None
    retention_ms: int | None = None


@dataclass(frozen=True)
class Select:
    items: tuple[SelectItem, ...]
    source: Relation
    position: Position
    joins: tuple[Join, ...] = ()
    window: Window | None = None
    where: exp.Expr | None = None
    group_by: tuple[exp.Expr, ...] = ()
    partition_by: tuple[exp.Expr, ...] = ()
    having: exp.Expr | None = None
    emit: Literal["CHANGES", "FINAL"] | None = None
    limit: int | None = None


# Statements


@dataclass(frozen=True, kw_only=True)
class Create(Statement):
    kind: SourceKind
    name: str
    properties: Properties = field(default_factory=dict)
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class CreateSource(Create):
    columns: tuple[ColumnDefinition, ...]
    is_read_only: bool = False  # CREATE SOURCE


@dataclass(frozen=True, kw_only=True)
class CreateAsSelect(Create):
    select: Select


@dataclass(frozen=True, kw_only=True)
class InsertSelect(Statement):
    target: str
    select: Select


@dataclass(frozen=True, kw_only=True)
class InsertValues(Statement):
    target: str
    columns: tuple[str, ...]
    rows: tuple[tuple[exp.Expr, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Query(Statement):
    select: Select


@dataclass(frozen=True, kw_only=True)
class Show(Statement):
    what: Literal["STREAMS", "TABLES", "TOPICS", "QUERIES", "PROPERTIES", "FUNCTIONS", "VARIABLES", "TYPES"]
    with_internal: bool = False  # SHOW ALL TOPICS


@dataclass(frozen=True, kw_only=True)
class Describe(Statement):
    name: str
    extended: bool = False


@dataclass(frozen=True, kw_only=True)
class DescribeFunction(Statement):
    name: str


@dataclass(frozen=True, kw_only=True)
class Explain(Statement):
    query_id: str | None = None
    query: Query | CreateAsSelect | InsertSelect | None = None


@dataclass(frozen=True, kw_only=True)
class Print(Statement):
    topic: str
    from_beginning: bool = False
    interval: int = 1
    limit: int | None = None


@dataclass(frozen=True, kw_only=True)
class Terminate(Statement):
    query_id: str | None  # None means all


@dataclass(frozen=True, kw_only=True)
class Drop(Statement):
    kind: SourceKind
    name: str
    if_exists: bool = False
    delete_topic: bool = False


@dataclass(frozen=True, kw_only=True)
class SetProperty(Statement):
    name: str
    value: str


@dataclass(frozen=True, kw_only=True)
class UnsetProperty(Statement):
    name: str


@dataclass(frozen=True, kw_only=True)
class Define(Statement):
    name: str
    value: str


@dataclass(frozen=True, kw_only=True)
class Undefine(Statement):
    name: str


@dataclass(frozen=True, kw_only=True)
class RunScript(Statement):
    path: str


@dataclass(frozen=True, kw_only=True)
class Alter(Statement):
    kind: SourceKind
    name: str
    columns: tuple[ColumnDefinition, ...]


@dataclass(frozen=True, kw_only=True)
class CreateType(Statement):
    name: str
    type: SqlType
    if_not_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class DropType(Statement):
    name: str
    if_exists: bool = False


@dataclass(frozen=True, kw_only=True)
class Pause(Statement):
    query_id: str | None  # None means all


@dataclass(frozen=True, kw_only=True)
class Resume(Statement):
    query_id: str | None


@dataclass(frozen=True, kw_only=True)
class AssertTopic(Statement):
    topic: str
    properties: Properties
    exists: bool = True
    timeout_ms: int = 1000


@dataclass(frozen=True, kw_only=True)
class AssertSchema(Statement):
    subject: str | None = None
    id: int | None = None
    exists: bool = True
    timeout_ms: int = 1000

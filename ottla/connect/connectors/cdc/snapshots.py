"""How far a snapshot has come, so that a task that begins again in the middle of it neither loses nor repeats rows.

All rows of the first attempt show one point of the database's log, and what is streamed begins there. After a restart
that view is gone: the rest is read as it is at a later point. Changes of that rest before that point are in what was
read already, and must not be streamed: `Later` keeps which rows those are. Rows are told apart by their key, in whose
order tables are read; a table whose key has no order that we share with the database is read from its beginning.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: Values of a key, whole numbers or texts.
Key = tuple[Any, ...]


def after(key: Key, bound: Sequence[Any] | None) -> bool:
    """Texts are compared by their bytes, as COLLATE "C" does."""
    return bound is None or _comparable(key) > _comparable(tuple(bound))


def _comparable(key: Key) -> tuple[Any, ...]:
    return tuple(each.encode() if isinstance(each, str) else each for each in key)


@dataclass
class Later:
    """Rows of a table behind `begin` show the point `position` of the log; without a begin, all rows of the table."""

    table: str
    begin: list[Any] | None
    #: Positions compare as they are: numbers, or lists of numbers and texts.
    position: Any


@dataclass
class SnapshotProgress:
    #: Tables are read in the order of their names: those before this one are done.
    table: str | None = None
    #: The last key of it that was read.
    key: list[Any] | None = None
    later: list[Later] = field(default_factory=list)

    def to_offset(self) -> dict[str, Any]:
        offset: dict[str, Any] = {}
        if self.table is not None:
            offset["snapshot_table"] = self.table
        if self.key is not None:
            offset["snapshot_key"] = json.dumps(self.key)
        if self.later:
            offset["snapshot_later"] = self.later_json()
        return offset

    def later_json(self) -> str:
        return json.dumps([[each.table, each.begin, each.position] for each in self.later])

    @classmethod
    def from_offset(cls, offset: Mapping[str, Any]) -> SnapshotProgress:
        key = offset.get("snapshot_key")
        return cls(
            offset.get("snapshot_table"),
            json.loads(key) if key else None,
            later_from(offset.get("snapshot_later")),
        )

    def resume_at(self, position: Any, tables: Sequence[str]) -> None:
        """The rest will be read as it is at `position`."""
        for table in tables:
            if self.table is None or table > self.table:
                self.later.append(Later(table, None, position))
            elif table == self.table:
                self.later.append(Later(table, self.key, position))


def later_from(text: str | None) -> list[Later]:
    return [Later(*each) for each in json.loads(text)] if text else []


class Shown:
    """Which changes a snapshot has shown already."""

    def __init__(self, later: Sequence[Later]) -> None:
        self._by_table: dict[str, list[Later]] = {}
        for each in later:
            self._by_table.setdefault(each.table, []).append(each)
        self.until = max((each.position for each in later), default=None)

    def has(self, table: str, key: Key | None, position: Any) -> bool:
        """Whether a change that was committed at `position` was visible when its row was read."""
        for each in reversed(self._by_table.get(table, ())):
            if each.begin is None or (key is not None and after(key, each.begin)):
                return bool(position < each.position)
        return False

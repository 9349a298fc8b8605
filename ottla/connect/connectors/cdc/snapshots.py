"""Snapshot progress, which lets a restarted task continue without losing or repeating rows.

All rows of the first attempt reflect one log position, and the stream starts there. That view is lost on a restart, so
the task reads the remaining rows at a later position. The remaining rows already include their changes before that
position. The stream must skip those changes: `Later` records the affected rows.

Rows are identified by key, and tables are read in key order. A table is read again from the start if its key order
differs between the database and Python.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: Key values, whole numbers or texts.
Key = tuple[Any, ...]


def after(key: Key, bound: Sequence[Any] | None) -> bool:
    """Compare keys. Texts are compared bytewise, like COLLATE "C"."""
    return bound is None or _comparable(key) > _comparable(tuple(bound))


def _comparable(key: Key) -> tuple[Any, ...]:
    return tuple(each.encode() if isinstance(each, str) else each for each in key)


@dataclass
class Later:
    """Rows of a table after `begin` reflect the log position `position`. Without `begin`, all rows do."""

    table: str
    begin: list[Any] | None
    #: Positions are directly comparable: numbers, or lists of numbers and texts.
    position: Any


@dataclass
class SnapshotProgress:
    #: Tables are read in name order. Tables before this one are done.
    table: str | None = None
    #: Last key read from this table.
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
        for table in tables:
            if self.table is None or table > self.table:
                self.later.append(Later(table, None, position))
            elif table == self.table:
                self.later.append(Later(table, self.key, position))


def later_from(text: str | None) -> list[Later]:
    return [Later(*each) for each in json.loads(text)] if text else []


class Shown:
    """Tells which changes a snapshot already shows."""

    def __init__(self, later: Sequence[Later]) -> None:
        self._by_table: dict[str, list[Later]] = {}
        for each in later:
            self._by_table.setdefault(each.table, []).append(each)
        self.until = max((each.position for each in later), default=None)

    def has(self, table: str, key: Key | None, position: Any) -> bool:
        """Return True if a change committed at `position` was visible when its row was read."""
        for each in reversed(self._by_table.get(table, ())):
            if each.begin is None or (key is not None and after(key, each.begin)):
                return bool(position < each.position)
        return False

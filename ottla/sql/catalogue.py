"""Catalogue of streams and tables, kept in a compacted topic that all shells of the cluster share.

The key of a record is the name, and the value is the definition as JSON. A record without a value is a DROP. Types from
CREATE TYPE are in the same topic, with keys that begin with a zero byte.
"""

from __future__ import annotations

import dataclasses
import json
from difflib import get_close_matches
from typing import Any

from ottla.protocol.internal_topics import SQL_CATALOGUE_TOPIC as TOPIC
from ottla.spark.formats.value_format import quoted
from ottla.sql.brokers import Brokers
from ottla.sql.errors import Position, SqlError
from ottla.sql.sources import Source, TopicShape
from ottla.sql.sql_types import SqlType

_TYPE = "\0type\0"
#: Version of the JSON in a record. The oldest records have no version field.
_VERSION = 1


class Catalogue:
    """Definitions as of the last `refresh`, plus those put since.

    An unreadable record affects only its own name: using that name raises an error with the reason.
    """

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._sources: dict[str, Source] = {}
        self._types: dict[str, SqlType] = {}
        self._unreadable: dict[str, str] = {}
        self._mark: tuple[bytes, int] | None = None  # of the topic at the last read

    def refresh(self) -> None:
        found: dict[str, Source] = {}
        types: dict[str, SqlType] = {}
        unreadable: dict[str, str] = {}
        mark = self._brokers.mark(TOPIC)
        if mark is not None and mark == self._mark:
            return
        if mark is not None:
            for record in self._brokers.read(TOPIC, from_beginning=True, follow=False):
                key = (record.key or b"").decode(errors="replace")
                held: dict[str, Any] = types if key.startswith(_TYPE) else found
                kind: Any = SqlType if key.startswith(_TYPE) else Source
                name = key.removeprefix(_TYPE)
                held.pop(name, None)
                unreadable.pop(key, None)
                if record.value is not None:
                    try:
                        held[name] = kind.from_json(_plain(record.value))
                    except _Newer as error:
                        unreadable[key] = f"{name} {error}. Update Ottla."
                    except (ValueError, KeyError, TypeError, AttributeError):
                        unreadable[key] = (
                            f"The definition of {name} at offset {record.offset} of {TOPIC} is damaged. "
                            "To remove it, write a record with the same key and no value."
                        )
        self._sources = found
        self._types = types
        self._unreadable = unreadable
        self._mark = mark

    def all(self) -> list[Source]:
        return sorted(self._sources.values(), key=lambda source: source.name)

    def get(self, name: str) -> Source | None:
        self._check(name)
        return self._sources.get(name)

    def _check(self, name: str, position: Position | None = None) -> None:
        if name in self._unreadable:
            raise SqlError(self._unreadable[name], position)

    def find(self, name: str, position: Position | None = None) -> Source:
        self._check(name, position)
        source = self._sources.get(name)
        if source is None:
            close = get_close_matches(name, self._sources, n=1)
            hint = (
                f"Did you mean {close[0]}?" if close else "SHOW STREAMS and SHOW TABLES list what there is."
            )
            raise SqlError(f"Source {quoted(name)} does not exist. {hint}", position)
        return source

    def put(self, source: Source) -> None:
        number = self.next_number()
        if source.number is None:
            source = dataclasses.replace(source, number=number)
        value = _written(source.to_json())
        self._brokers.produce(TOPIC, [(source.name.encode(), value, None)])
        self._sources[source.name] = source

    def next_number(self) -> int:
        """Return a unique number for a query id: the offset of the next definition."""
        self._brokers.create_topic(TOPIC, TopicShape(partitions=1), {"cleanup.policy": "compact"})
        return self._brokers.end_offset(TOPIC)

    def remove(self, name: str) -> None:
        self._brokers.produce(TOPIC, [(name.encode(), None, None)])
        self._sources.pop(name, None)

    # Types

    def types(self) -> list[tuple[str, SqlType]]:
        return sorted(self._types.items())

    def find_type(self, name: str) -> SqlType | None:
        """Return the type. Refresh if the name is unknown, because another shell may have created it."""
        if name not in self._types:
            self.refresh()
        self._check(f"{_TYPE}{name}")
        return self._types.get(name)

    def put_type(self, name: str, kind: SqlType) -> None:
        self.next_number()  # creates the topic
        value = _written(kind.to_json())
        self._brokers.produce(TOPIC, [(f"{_TYPE}{name}".encode(), value, None)])
        self._types[name] = kind

    def remove_type(self, name: str) -> None:
        self._brokers.produce(TOPIC, [(f"{_TYPE}{name}".encode(), None, None)])
        self._types.pop(name, None)


class _Newer(Exception):
    pass


def _written(plain: dict[str, Any]) -> bytes:
    return json.dumps({"version": _VERSION, **plain}, separators=(",", ":")).encode()


def _plain(value: bytes) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(value)
    if plain.get("version", 1) > _VERSION:
        raise _Newer("was defined by a newer version of Ottla")
    return plain

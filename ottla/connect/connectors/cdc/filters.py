"""Debezium's include, exclude and mask settings for tables and columns."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ottla.connect.config.config_def import invalid

_MASK_WITH_LENGTH = re.compile(r"column\.mask\.with\.(\d+)\.chars")
_TRUNCATE = re.compile(r"column\.truncate\.to\.(\d+)\.chars")
_HASH = re.compile(r"column\.mask\.hash(?:\.v2)?\.([^.]+)\.with\.salt\.(.+)")


def patterns(name: str, texts: Iterable[str]) -> list[re.Pattern[str]]:
    """Compile patterns that ignore case. Debezium matches the whole name."""
    found = []
    for text in texts:
        try:
            found.append(re.compile(text, re.IGNORECASE))
        except re.error as error:
            raise invalid(name, text, f"Not a regular expression: {error}.") from None
    return found


def _any(found: list[re.Pattern[str]], name: str) -> bool:
    return any(each.fullmatch(name) for each in found)


class Filters:
    """`schema` is the qualifier of a table name: a PostgreSQL schema or a MySQL database."""

    def __init__(self, settings: Mapping[str, Any], config: Mapping[str, str], schemas: str) -> None:
        def of(name: str) -> list[re.Pattern[str]]:
            return patterns(name, settings.get(name) or ())

        self._tables = of("table.include.list"), of("table.exclude.list")
        self._schemas = of(f"{schemas}.include.list"), of(f"{schemas}.exclude.list")
        self._columns = of("column.include.list"), of("column.exclude.list")
        self._always = settings.get("signal.data.collection") or None
        self._masks: list[tuple[list[re.Pattern[str]], Callable[[Any], Any]]] = []
        for name, value in config.items():
            mask = _mask(name)
            if mask is not None:
                self._masks.append((patterns(name, (each.strip() for each in value.split(","))), mask))

    def has_table(self, schema: str, table: str) -> bool:
        """Return True for captured tables and the signalling table."""
        if f"{schema}.{table}" == self._always:
            return True
        include, exclude = self._schemas
        if (include and not _any(include, schema)) or _any(exclude, schema):
            return False
        include, exclude = self._tables
        name = f"{schema}.{table}"
        return not ((include and not _any(include, name)) or _any(exclude, name))

    def has_column(self, schema: str, table: str, column: str) -> bool:
        include, exclude = self._columns
        name = f"{schema}.{table}.{column}"
        return not ((include and not _any(include, name)) or _any(exclude, name))

    def mask(self, schema: str, table: str, column: str) -> Callable[[Any], Any] | None:
        name = f"{schema}.{table}.{column}"
        return next((mask for found, mask in self._masks if _any(found, name)), None)


def _mask(name: str) -> Callable[[Any], Any] | None:
    """Return the masking function for the text of a column, selected by setting name."""
    matched = _MASK_WITH_LENGTH.fullmatch(name)
    if matched:
        stars = "*" * int(matched.group(1))
        return lambda value: stars
    matched = _TRUNCATE.fullmatch(name)
    if matched:
        length = int(matched.group(1))
        return lambda value: value[:length] if value is not None else None
    matched = _HASH.fullmatch(name)
    if matched:
        algorithm, salt = matched.group(1).replace("-", "").lower(), matched.group(2).encode()
        if algorithm not in hashlib.algorithms_available:
            raise invalid(name, algorithm, "Not a hash that is known here, as SHA-256.")

        def hashed(value: Any) -> Any:
            if value is None:
                return None
            data = value.encode() if isinstance(value, str) else bytes(value)
            return hashlib.new(algorithm, salt + data).hexdigest()

        return hashed
    return None

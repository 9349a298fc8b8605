"""Pull queries: use the index if WHERE names keys, and a scan otherwise."""

from __future__ import annotations

import glob
import hashlib
import json
import shutil
import threading
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from ottla.client.errors import ClientError, Unreachable
from ottla.sql.brokers import Brokers
from ottla.sql.errors import SqlError
from ottla.sql.planning.expression_texts import shown
from ottla.sql.planning.plan import Plan
from ottla.sql.properties import SCAN
from ottla.sql.pull.json_values import NeedsSpark
from ottla.sql.pull.key_bounds import bounds
from ottla.sql.pull.key_codec import Odd
from ottla.sql.pull.plain_rows import Row, named_columns, plain_rows
from ottla.sql.pull.table_index import TableIndex
from ottla.sql.registered.codecs import Codecs
from ottla.sql.sources import Source

if TYPE_CHECKING:
    from ottla.sql.engine import Engine

#: A process must not open the same LMDB file twice.
_indexes: dict[Path, TableIndex] = {}
_lock = threading.Lock()


class PullQueries:
    """`directory` holds the indexes of this cluster. `engine` starts Spark on demand."""

    def __init__(
        self,
        brokers: Brokers,
        directory: Callable[[], Path],
        engine: Callable[[], Engine],
        codecs: Callable[[Source], Codecs],
    ) -> None:
        self._brokers = brokers
        self._codecs = codecs
        self._directory = directory
        self._engine = engine

    def rows(self, plan: Plan, *, may_scan: bool = True) -> list[Row]:
        """Return the current rows. Unless `may_scan` is set, a query over a table must name its keys."""
        wanted = bounds(plan)
        if wanted is None:
            if not may_scan:
                _check_keys(plan)
            return self._engine().pull(plan)
        [source] = plan.sources.values()
        try:
            found = self._index(source).find(wanted.keys, wanted.starts, wanted.ends)
        except Odd:
            return self._engine().pull(plan)
        except Unreachable:
            raise SqlError(
                f"Cannot reach a broker at {self._brokers.bootstrap_servers}: is it running?"
            ) from None
        except ClientError as error:
            raise SqlError(error.message) from None
        names = named_columns(plan) if wanted.is_all else None
        if names is not None:
            try:
                return list(islice(plain_rows(source, names, found), plan.select.limit))
            except NeedsSpark:
                pass
        return self._engine().pull(plan, found)

    def forget(self, source: Source) -> None:
        path = self._path(source)
        with _lock:
            index = _indexes.pop(path, None)
        if index is not None:
            index.remove()
        for left in path.parent.glob(f"{glob.escape(path.name)}-*"):  # of this boot and of earlier boots
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)

    def _index(self, source: Source) -> TableIndex:
        path = self._path(source)
        with _lock:
            index = _indexes.get(path)
            if index is None:
                codec = self._codecs(source).value
                index = TableIndex(path, source, self._brokers.read_options(), codec)
                _indexes[path] = index
        return index

    def _path(self, source: Source) -> Path:
        """Return a path that depends on everything in the index, so that a changed definition gets a new index."""
        plain = source.to_json()
        what = (
            "topic",
            "columns",
            "key_format",
            "key_delimiter",
            "value_format",
            "window",
            "window_size_ms",
            "is_unwrapped",
        )
        digest = hashlib.blake2b(
            json.dumps([plain.get(name) for name in what]).encode(), digest_size=8
        ).hexdigest()
        return self._directory() / f"{source.name}-{digest}"


def _check_keys(plan: Plan) -> None:
    """Refuse a query that would read a whole table."""
    select = plan.select
    source = plan.sources[select.source.alias]
    if source.kind == "STREAM":
        return
    hint = f"SET '{SCAN}' = 'true' allows reading the whole table."
    if select.where is None:
        raise SqlError(f"Missing WHERE clause. {hint}", select.position)
    keys = {column.name for column in source.keys}
    named = {column.name.upper() for column in select.where.find_all(exp.Column)} & keys
    if named and named != keys:
        raise SqlError(
            "Multi-column sources must specify every key in the WHERE clause. "
            f"Specified: {sorted(named)} Expected: {sorted(keys)}. {hint}",
            select.position,
        )
    raise SqlError(
        f"WHERE clause missing key column for disjunct: {shown(select.where)}. {hint}", select.position
    )

"""The JDBC source task, which queries its tables for new rows in turn."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.connect.api import Config, SourceTask, SourceTaskContext
from ottla.connect.connectors.jdbc.column_schemas import RowSchema
from ottla.connect.connectors.jdbc.criteria import Criteria, Position
from ottla.connect.connectors.jdbc.dialects import dialect_for
from ottla.connect.connectors.jdbc.dialects.dialect import Column, Dialect, Kind, Rows, TableId
from ottla.connect.connectors.jdbc.source_config import SOURCE_CONFIG, criteria_of, read_settings
from ottla.connect.data.record import SourceRecord
from ottla.connect.data.struct import Struct
from ottla.connect.errors import ConnectError, RetriableError


class TableQuery:
    """One table, or the configured query. Invariant: `position` lies after every returned row."""

    def __init__(
        self,
        dialect: Dialect,
        settings: Mapping[str, Any],
        table: TableId | None,
        context: SourceTaskContext,
    ) -> None:
        self._dialect = dialect
        self._settings = settings
        self.table = table
        self.due = 0.0
        self._rows: Rows | None = None
        self._schema: RowSchema | None = None
        #: Rows with the latest timestamp, which may be incomplete until a later timestamp appears.
        self._held: list[Struct] = []
        self._held_position = Position()
        self._criteria = criteria_of(settings)
        prefix = settings["topic.prefix"]
        bulk = settings["mode"] == "bulk"
        if table is None:
            self._topic, self.partition = prefix, {"query": "query"}
        else:
            self._topic = prefix + table.name
            self.partition = {"table": table.name} if bulk else {"protocol": "1", "table": str(table)}
        self.position = Position() if bulk else self._begin(context.offset(self.partition))

    @property
    def name(self) -> str:
        return "the query" if self.table is None else f"table {self.table}"

    def _begin(self, offset: Mapping[str, Any] | None) -> Position:
        initial = self._settings["timestamp.initial"]
        if offset or initial is None or not self._criteria.timestamps:
            return Position.from_offset(offset)
        moment = self._dialect.now() if initial == -1 else dt.datetime.fromtimestamp(initial / 1000, dt.UTC)
        return Position(timestamp=moment)

    @property
    def is_running(self) -> bool:
        return self._rows is not None

    def execute(self) -> None:
        if self.table is not None:
            self._check_columns(self._dialect.columns(self.table))
            if self._criteria.incrementing == "":
                self._find_incrementing_column()
            select = f"SELECT * FROM {self._dialect.qualified(self.table)}"
        else:
            select = self._dialect.verbatim(self._settings["query"])
        until = None
        if self._criteria.timestamps:
            delay = dt.timedelta(milliseconds=self._settings["timestamp.delay.interval.ms"])
            until = self._dialect.now() - delay
        query, parameters = self._criteria.query(
            self._dialect, select, self.position, until, self._settings["query.suffix"]
        )
        self._rows = self._dialect.select(query, parameters, self.table)
        name = self.table.name if self.table is not None else None
        self._schema = RowSchema(
            name,
            self._rows.columns,
            numeric_mapping=self._settings["numeric.mapping"],
            timestamp_granularity=self._settings["timestamp.granularity"],
        )
        self._position_readers = {
            column.name: (number, column.convert)
            for number, column in enumerate(self._rows.columns)
            if column.name in self._criteria.timestamps or column.name == self._criteria.incrementing
        }
        self._check_present(self._rows.columns)

    def _check_columns(self, columns: Sequence[Column]) -> None:
        if not columns:
            raise ConnectError(f"There is no table {self.table} in {self._dialect.target} any more.")
        self._columns = columns
        if not self._settings["validate.non.null"]:
            return
        by_name = {column.name: column for column in columns}
        number = self._criteria.incrementing
        if number and number in by_name and by_name[number].optional:
            raise ConnectError(
                f"Cannot make incremental queries using incrementing column {number} on {self.table} because this "
                "column is nullable."
            )
        moments = [by_name[name] for name in self._criteria.timestamps if name in by_name]
        if moments and all(column.optional for column in moments):
            raise ConnectError(
                f"Cannot make incremental queries using timestamp columns {list(self._criteria.timestamps)} on "
                f"{self.table} because all of these columns are nullable."
            )

    def _check_present(self, columns: Sequence[Column]) -> None:
        by_name = {column.name: column for column in columns}
        for name in (*self._criteria.timestamps, self._criteria.incrementing):
            if name and name not in by_name:
                raise ConnectError(
                    f"There is no column {name} in {self.name}: it has {', '.join(by_name)}. Check "
                    "incrementing.column.name and timestamp.column.name."
                )
        for name in self._criteria.timestamps:
            if by_name[name].kind is not Kind.TIMESTAMP:
                raise ConnectError(f"Column {name} of {self.name} is not a timestamp.")

    def _find_incrementing_column(self) -> None:
        counted = [column.name for column in self._columns if column.autoincrement]
        if len(counted) != 1:
            raise ConnectError(
                f"{self.name.capitalize()} has {len(counted)} columns that the database counts up: name the one to "
                "use in incrementing.column.name."
            )
        self._criteria = Criteria(counted[0], self._criteria.timestamps)

    def fetch(self, most: int) -> list[SourceRecord]:
        """Return the next rows. Afterwards `is_running` tells whether more may follow."""
        assert self._rows is not None
        assert self._schema is not None
        by_time_only = self._criteria.timestamps and not self._criteria.incrementing
        records: list[SourceRecord] = []
        while not records:
            rows = self._rows.fetch(most)
            for row in rows:
                struct = self._schema.struct(row)
                if by_time_only:
                    records += self._complete_before(self._position_of(row), struct)
                elif self._criteria.incrementing or self._criteria.timestamps:
                    self.position = self._position_of(row)
                    records.append(self._record(struct))
                else:
                    records.append(self._record(struct))
            if not rows:
                records += self._release_held()
                self.stop()
                break
        return records

    def _position_of(self, row: Sequence[Any]) -> Position:
        values = {}
        for name, (number, convert) in self._position_readers.items():
            value = row[number]
            values[name] = value if convert is None or value is None else convert(value)
        return self._criteria.position_of(values)

    def _complete_before(self, position: Position, struct: Struct) -> list[SourceRecord]:
        """Return all rows of one timestamp together, because the next query starts after that timestamp."""
        done = []
        if self._held and position != self._held_position:
            done = self._release_held()
        self._held_position = position
        self._held.append(struct)
        return done

    def _release_held(self) -> list[SourceRecord]:
        if not self._held:
            return []
        records = [self._record(struct) for struct in self._held[:-1]]
        self.position = self._held_position
        records.append(self._record(self._held[-1]))
        self._held = []
        return records

    def _record(self, struct: Struct) -> SourceRecord:
        return SourceRecord(
            self._topic,
            struct,
            struct.schema,
            source_partition=self.partition,
            source_offset=self.position.to_offset(),
        )

    def stop(self) -> None:
        rows, self._rows, self._held = self._rows, None, []
        if rows is not None:
            rows.close()


class JdbcSourceTask(SourceTask):
    _dialect: Any = None

    def __init__(self) -> None:
        self._queries: deque[TableQuery] = deque()

    def start(self, config: Config, context: SourceTaskContext) -> None:
        self._settings = read_settings(SOURCE_CONFIG.parse(config))
        self._dialect = dialect_for(config, self._settings["dialect.name"])
        self._dialect.quote_identifiers = self._settings["quote.sql.identifiers"] == "ALWAYS"
        connect(self._dialect, self._settings)
        tables: list[TableId | None] = [TableId(*each) for each in json.loads(config.get("tables", "[]"))]
        if self._settings["query"]:
            tables = [None]
        self._queries = deque(TableQuery(self._dialect, self._settings, each, context) for each in tables)

    def poll(self) -> Sequence[SourceRecord]:
        now = time.monotonic()
        for _ in range(len(self._queries)):
            query = self._queries[0]
            if not query.is_running and query.due > now:
                self._queries.rotate(-1)
                continue
            records = self._read(query)
            if not query.is_running:
                query.due = time.monotonic() + self._settings["poll.interval.ms"] / 1000
                self._queries.rotate(-1)
            if records:
                return records
        return []

    def _read(self, query: TableQuery) -> list[SourceRecord]:
        try:
            if not query.is_running:
                query.execute()
            return query.fetch(self._settings["batch.max.rows"])
        except self._dialect.driver_error as error:
            # The next poll reconnects and continues after the returned rows.
            explained = self._dialect.explained(error, f"read {query.name}")
            self._abandon()
            raise explained from error

    def _abandon(self) -> None:
        for query in self._queries:
            with contextlib.suppress(self._dialect.driver_error):
                query.stop()
        self._dialect.close()

    def stop(self) -> None:
        if self._dialect is not None:
            self._abandon()


def connect(dialect: Dialect, settings: Mapping[str, Any]) -> None:
    for attempt in range(1, settings["connection.attempts"] + 1):
        try:
            assert dialect.connection is not None
            return
        except ConnectError as error:
            if not isinstance(error, RetriableError) or attempt == settings["connection.attempts"]:
                raise
            time.sleep(settings["connection.backoff.ms"] / 1000)

"""Jobs of `ottla tables`: the settings of table topics, their tables, and the table job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.cli.client import Client
from ottla.cli.errors import JobError, require

if TYPE_CHECKING:
    from ottla.spark.tables.lakes.catalogs import Lake
    from ottla.spark.tables.lakes.lake import LakeTable
    from ottla.spark.tables.topic_tables import TablesFile
    from ottla.spark.tables.union_options import Connection
    from ottla.table_settings import TableSettings


@dataclass(frozen=True)
class TableRow:
    """A table as `ottla tables list` shows it. None means that the table does not exist yet."""

    topic: str
    format: str
    table: str
    mode: str
    write_mode: str
    rows: int | None
    files: int | None
    bytes: int | None
    snapshots: int | None
    lag: int | None
    dead_letters: int | None
    committed_ms: int | None
    error: str | None = None


class TablesJob:
    """The cluster, the warehouse and the tables file of a command."""

    def __init__(self, client: Client, warehouse: str | None, tables_file: Path | None) -> None:
        require("tables")
        from ottla.spark.tables.lakes.catalogs import Lake
        from ottla.spark.tables.lakes.warehouse import default_warehouse
        from ottla.spark.tables.topic_tables import read_tables_file

        self._client = client
        self.file: TablesFile | None = None if tables_file is None else read_tables_file(tables_file)
        catalogs = {} if self.file is None else self.file.catalogs
        self.lake: Lake = Lake(warehouse or default_warehouse(), catalogs)

    def settings(self, topic: str) -> TableSettings:
        from ottla.spark.tables.topic_tables import table_of

        return table_of(self._client.cluster, topic, self.file)

    def all_settings(self) -> tuple[list[TableSettings], list[str]]:
        from ottla.spark.tables.topic_tables import topic_tables

        return topic_tables(self._client.cluster, self.file)

    def connection(self, registry: str | None) -> Connection:
        from ottla.client.schema_registry import PREFIX, RegistrySettings
        from ottla.spark.tables.union_options import Connection

        properties = {**self._client.properties, "bootstrap.servers": self._client.bootstrap_servers}
        found = None if not registry else RegistrySettings.from_properties({f"{PREFIX}url": registry})
        return Connection(properties, found)

    def row(self, settings: TableSettings) -> TableRow:
        """Describe a table, or say why it cannot be opened."""
        error = None
        table = dead = None
        try:
            table = self.lake.load(settings)
            dead = self.lake.load_dead_letters(settings)
        except JobError as failure:
            error = failure.message
        facts = None if table is None else table.facts()
        letters = None if dead is None else dead.facts().rows
        return TableRow(
            settings.topic,
            settings.format,
            ".".join(settings.identifier),
            settings.mode,
            settings.write_mode,
            None if facts is None else facts.rows,
            None if facts is None else facts.files,
            None if facts is None else facts.bytes,
            None if facts is None else facts.snapshots,
            None if error is not None else self.lag(settings, table),
            0 if letters is None and facts is not None else letters,
            None if facts is None else facts.committed_ms,
            error,
        )

    def lag(self, settings: TableSettings, table: LakeTable | None) -> int:
        """Return the number of offsets that the table lacks."""
        from ottla.client.offsets import EARLIEST, LATEST, READ_COMMITTED, list_offsets

        cluster = self._client.cluster
        partitions = cluster.topics([settings.topic])[settings.topic].partitions
        boundary = None if table is None else table.boundary()
        known = {} if boundary is None else boundary.offsets
        first = list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
        last = list_offsets(cluster, dict.fromkeys(partitions, LATEST), READ_COMMITTED)
        return sum(
            max(0, last[each].offset - max(known.get(each.partition, 0), first[each].offset))
            for each in partitions
        )

    def missing_records(self, settings: TableSettings) -> list[str]:
        """Return the partitions whose first records are no longer in the topic."""
        from ottla.client.offsets import EARLIEST, list_offsets

        cluster = self._client.cluster
        partitions = cluster.topics([settings.topic])[settings.topic].partitions
        first = list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
        return [f"{each} begins at {first[each].offset}" for each in partitions if first[each].offset > 0]


@contextmanager
def spark_session(master: str | None) -> Iterator[Any]:
    """Start Spark, and stop it at the end. Its absence is one sentence."""
    from ottla.jvm.java import NoJava
    from ottla.spark import session

    try:
        spark = session("ottla tables", master)
    except NoJava as error:
        raise JobError(str(error)) from None
    try:
        yield spark
    finally:
        spark.stop()


def age(milliseconds: int | None) -> str | None:
    """Return the time since a commit in words."""
    if milliseconds is None:
        return None
    seconds = max(0, time.time_ns() // 1_000_000 - milliseconds) // 1000
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"

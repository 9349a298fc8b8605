"""The table job of `ottla start --tables`, in the broker's process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli import output
from ottla.cli.errors import JobError

if TYPE_CHECKING:
    from ottla.spark.tables.job import TableJob


class TablesBeside:
    """Runs the table job in a thread until `stop`."""

    def __init__(self, warehouse: str) -> None:
        self.urls = [warehouse]
        self._spark: Any = None
        self._job: TableJob | None = None
        self._thread: threading.Thread | None = None

    def start(self, brokers: Sequence[str], client: Path | None, registry: str | None) -> TablesBeside:
        from ottla.cli.properties import read_client_properties
        from ottla.client.schema_registry import PREFIX, RegistrySettings
        from ottla.jvm.java import NoJava
        from ottla.spark import session
        from ottla.spark.tables.job import TableJob
        from ottla.spark.tables.lakes.catalogs import Lake
        from ottla.spark.tables.union_options import Connection

        properties = {} if client is None else read_client_properties(client)
        properties["bootstrap.servers"] = ",".join(brokers)
        found = None if registry is None else RegistrySettings.from_properties({f"{PREFIX}url": registry})
        try:
            self._spark = session("ottla tables")
        except NoJava as error:
            raise JobError(str(error)) from None
        self._job = TableJob(
            self._spark,
            Connection(properties, found),
            Lake(self.urls[0]),
            complain=lambda sentence: output.warn(sentence),
        )
        self._thread = threading.Thread(target=self._run, name="tables", daemon=True)
        self._thread.start()
        return self

    def _run(self) -> None:
        assert self._job is not None
        try:
            self._job.run()
        except JobError as error:
            click.echo(f"The table job has ended: {error.message}", err=True)

    def stop(self) -> None:
        if self._job is not None and self._thread is not None:
            self._job.stop()
            self._thread.join(60)
        if self._spark is not None:
            self._spark.stop()

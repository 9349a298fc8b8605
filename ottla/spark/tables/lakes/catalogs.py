"""Catalogs of tables: the embedded one in a directory, and any that PyIceberg knows by its settings."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from ottla.spark.tables.lakes.boundary import Boundary
from ottla.spark.tables.lakes.lake import LakeTable, TableError, reason
from ottla.spark.tables.lakes.warehouse import default_warehouse
from ottla.table_settings import CATALOG, DEFAULTS, ICEBERG, PartitionField, TableSettings

_EMBEDDED = DEFAULTS[CATALOG]


@dataclass(frozen=True)
class Lake:
    """Where tables are: the warehouse of Delta tables and the embedded catalog, and properties of named catalogs."""

    warehouse: str = field(default_factory=default_warehouse)
    catalogs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def load(self, settings: TableSettings) -> LakeTable | None:
        return self._load(settings, settings.identifier)

    def load_dead_letters(self, settings: TableSettings) -> LakeTable | None:
        return self._load(settings, settings.dead_letter_identifier)

    def _load(self, settings: TableSettings, identifier: Sequence[str]) -> LakeTable | None:
        if settings.format == ICEBERG:
            from ottla.spark.tables.lakes.iceberg import IcebergTable

            return IcebergTable.load(self.catalog(settings.catalog), identifier)
        with _packages("deltalake"):
            from ottla.spark.tables.lakes.delta_table import DeltaLakeTable
        return DeltaLakeTable.load(
            self._uri(identifier), ".".join(identifier), settings.topic, self._storage(settings)
        )

    def create(
        self, settings: TableSettings, columns: pa.Schema, topic_id: str, *, dead_letters: bool = False
    ) -> LakeTable:
        identifier = settings.dead_letter_identifier if dead_letters else settings.identifier
        spec: tuple[PartitionField, ...] = () if dead_letters else settings.partition_spec
        if settings.format == ICEBERG:
            from ottla.spark.tables.lakes.iceberg import IcebergTable

            properties = {
                "write.target-file-size-bytes": str(settings.target_file_bytes),
                # Each commit adds a manifest, and readers open all of them.
                "commit.manifest-merge.enabled": "true",
            }
            catalog = self.catalog(settings.catalog)
            created: LakeTable | None = IcebergTable.create(catalog, identifier, columns, spec, properties)
            created = created or IcebergTable.load(catalog, identifier)
            assert created is not None
            return created
        from ottla.spark.tables.lakes.delta_table import DeltaLakeTable

        names = [each.column for each in spec]
        uri, storage = self._uri(identifier), self._storage(settings)
        return DeltaLakeTable.create(
            uri, ".".join(identifier), settings.topic, topic_id, columns, names, storage
        )

    def drop(self, settings: TableSettings) -> list[str]:
        """Drop the table and its dead letters with their files. Return the names of the dropped tables."""
        dropped = []
        for identifier in (settings.identifier, settings.dead_letter_identifier):
            table = self._load(settings, identifier)
            if table is None:
                continue
            if settings.format == ICEBERG:
                catalog = self.catalog(settings.catalog)
                try:
                    catalog.purge_table(tuple(identifier))
                except Exception as error:
                    raise TableError(f"Table {table.name} cannot be dropped: {reason(error)}.") from None
            else:
                _remove_all(self._uri(identifier), self._storage(settings))
            dropped.append(table.name)
        return dropped

    def how_to_open(self, settings: TableSettings) -> dict[str, str]:
        """Return Python code that opens the table, by the package that it uses."""
        if settings.format != ICEBERG:
            return {"deltalake": f"DeltaTable({self._uri(settings.identifier)!r})"}
        name = ".".join(settings.identifier)
        if settings.catalog in self.catalogs or _is_configured(settings.catalog):
            return {"pyiceberg": f"load_catalog({settings.catalog!r}).load_table({name!r})"}
        given = ", ".join(f"{key}={value!r}" for key, value in self.embedded().items())
        return {"pyiceberg": f"load_catalog({settings.catalog!r}, {given}).load_table({name!r})"}

    def catalog(self, name: str) -> Any:
        """Open an Iceberg catalog. Raises TableError if it is unknown or refuses."""
        with _packages("pyiceberg"):
            pass
        given = dict(self.catalogs.get(name, {}))
        if not given and name == _EMBEDDED and not _is_configured(name):
            given = self.embedded()
        elif not given and not _is_configured(name):
            raise TableError(
                f"There is no catalog {name}: describe it in --tables FILE, in ~/.pyiceberg.yaml, or in "
                f"PYICEBERG_CATALOG__{name.upper()}__URI."
            )
        return _opened(name, tuple(sorted(given.items())))

    def embedded(self) -> dict[str, str]:
        """Return the properties of the embedded catalog: SQLite beside the tables."""
        if "://" in self.warehouse and not self.warehouse.startswith("file://"):
            raise TableError(
                f"The embedded catalog needs a local directory, and the warehouse is {self.warehouse}: describe "
                f"the catalog {_EMBEDDED} in --tables FILE."
            )
        directory = Path(self.warehouse.removeprefix("file://")).absolute()
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TableError(f"The warehouse {directory} cannot be used: {error.strerror}.") from None
        return {
            "type": "sql",
            "uri": f"sqlite:///{directory / 'catalog.db'}",
            "warehouse": f"file://{directory}",
        }

    def _uri(self, identifier: Sequence[str]) -> str:
        if "://" in self.warehouse:
            return "/".join([self.warehouse.rstrip("/"), *identifier])
        return str(Path(self.warehouse).absolute().joinpath(*identifier))

    def _storage(self, settings: TableSettings) -> dict[str, str]:
        return dict(self.catalogs.get(settings.catalog, {})) if "://" in self.warehouse else {}


_opening = threading.Lock()


def _opened(name: str, properties: tuple[tuple[str, str], ...]) -> Any:
    """Return the catalog of this process. Only one thread opens it, because the first one creates its tables."""
    with _opening:
        return _open(name, properties)


@lru_cache(maxsize=16)
def _open(name: str, properties: tuple[tuple[str, str], ...]) -> Any:
    from pyiceberg.catalog import load_catalog

    for attempt in (1, 2):
        try:
            return load_catalog(name, **dict(properties))
        except Exception as error:  # libraries of catalogs have errors of their own, such as SQLAlchemy's
            # Another process may create the tables of the embedded catalog at the same time.
            if attempt == 2:
                raise TableError(f"Catalog {name} cannot be opened: {reason(error)}.") from None
    raise AssertionError


def boundary_of(table: LakeTable | None) -> Boundary | None:
    return None if table is None else table.boundary()


def _is_configured(name: str) -> bool:
    """Return True if PyIceberg's own configuration describes the catalog."""
    from pyiceberg.utils.config import Config

    return bool(Config().get_catalog_config(name))


def _remove_all(uri: str, storage: Mapping[str, str]) -> None:
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import FileSelector, FileType, PyFileSystem

    files = PyFileSystem(DeltaStorageHandler(uri, dict(storage)))
    try:
        for each in files.get_file_info(FileSelector("", recursive=True)):
            if each.type == FileType.File:
                files.delete_file(each.path)
    except OSError as error:
        raise TableError(f"The table at {uri} cannot be dropped: {reason(error)}.") from None
    if "://" not in uri:
        import shutil

        shutil.rmtree(uri, ignore_errors=True)


class _packages:
    """Turns a missing package into a sentence."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith(self._name):
            raise TableError(
                f"Tables need the package {self._name}, which is not installed: pip install 'ottla[tables]'."
            ) from None

"""Exactly-once writes of micro-batches to a Delta table, with the deltalake package in the driver and without a jar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.spark.options import OptionError
from ottla.spark.queries import last_part, query_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Delta:
    """The table's log stores the number of each micro-batch with its rows, under the query id."""

    path: str
    mode: str = "append"
    key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return last_part(self.path)

    def check(self) -> None:
        try:
            import deltalake  # noqa: F401
        except ModuleNotFoundError:
            raise OptionError(
                "Delta tables need the deltalake package: pip install 'ottla[delta]'."
            ) from None

    def write(self, rows: DataFrame, batch: int | None = None) -> None:
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

        exists = DeltaTable.is_deltatable(self.path)
        marks = []
        if batch is not None:
            query = query_id(rows.sparkSession)
            assert query is not None
            last = DeltaTable(self.path).transaction_version(query) if exists else None
            if last is not None and last >= batch:
                return  # already written before the checkpoint recorded it
            marks = [Transaction(query, batch)]
        data = rows.toArrow()
        properties = CommitProperties(app_transactions=marks)
        if self.mode == "upsert" and exists:
            self._merge(data, properties)
            return
        write_deltalake(
            self.path,
            data,
            mode="overwrite" if self.mode == "overwrite" else "append",
            partition_by=list(self.partition_by) or None,
            commit_properties=properties,
        )

    def _merge(self, data: Any, properties: Any) -> None:
        from deltalake import DeltaTable

        same = " AND ".join(f'target."{name}" = source."{name}"' for name in self.key)
        merge = DeltaTable(self.path).merge(
            data, same, source_alias="source", target_alias="target", commit_properties=properties
        )
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

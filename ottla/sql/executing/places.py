"""Where on disk a conversation keeps what its queries have read and written, and the indexes of tables."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from pathlib import Path

from ottla.spark.checkpoints import local_path, remove
from ottla.sql.brokers import Brokers
from ottla.sql.sources import Source


def state_directory() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "ottla"


class Places:
    """`chosen` is the directory of checkpoints that somebody has set, if anybody has."""

    def __init__(self, brokers: Brokers, chosen: Callable[[], str | None]) -> None:
        self._brokers = brokers
        self._chosen = chosen

    def checkpoint(self, name: str) -> str:
        base = self._chosen() or str(state_directory() / "sql")
        # The same names on another cluster are other queries.
        return f"{base.rstrip('/')}/{self._brokers.cluster_id()}/{name}"

    def indexes(self) -> Path:
        """Of tables, for pull queries: beside the checkpoints, if they are on this machine."""
        place = local_path(self.checkpoint(""))
        return (place or state_directory() / "sql" / self._brokers.cluster_id()) / "index"

    def forget_queries(self, source: Source) -> None:
        """Remove the checkpoints and commit logs of queries that wrote to what is now dropped or replaced.

        Their names have its number in the catalogue, which is given once: they never come back. A checkpoint that is
        not on this machine stays, and so does the commit log.
        """
        place = local_path(self.checkpoint(""))
        if place is None:
            return
        folders = sorted(place.glob(glob.escape(f"INSERT_{source.name}_{source.number}_") + "*"))
        if source.query_id is not None:
            folders.append(place / source.query_id)
        self._brokers.remove_commit_topics([query for each in folders for query in remove(each)])

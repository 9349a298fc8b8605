"""Directories for query checkpoints and table indexes."""

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
    """`chosen` is the configured checkpoint directory, if any."""

    def __init__(self, brokers: Brokers, chosen: Callable[[], str | None]) -> None:
        self._brokers = brokers
        self._chosen = chosen

    def checkpoint(self, name: str) -> str:
        base = self._chosen() or str(state_directory() / "sql")
        # Queries with the same name on another cluster are different queries.
        return f"{base.rstrip('/')}/{self._brokers.cluster_id()}/{name}"

    def indexes(self) -> Path:
        """Return the directory of the table indexes for pull queries: next to the checkpoints if those are local."""
        place = local_path(self.checkpoint(""))
        return (place or state_directory() / "sql" / self._brokers.cluster_id()) / "index"

    def forget_queries(self, source: Source) -> None:
        """Remove the checkpoints and commit logs of queries that wrote to a dropped or replaced source.

        Their names contain its unique number in the catalogue, so they are never reused. Checkpoints on other storage
        stay, and so do their commit logs.
        """
        place = local_path(self.checkpoint(""))
        if place is None:
            return
        folders = sorted(place.glob(glob.escape(f"INSERT_{source.name}_{source.number}_") + "*"))
        if source.query_id is not None:
            folders.append(place / source.query_id)
        self._brokers.remove_commit_topics([query for each in folders for query in remove(each)])

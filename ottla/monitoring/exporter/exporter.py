"""Take a snapshot for each Prometheus scrape, and render it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Lock

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.monitoring.exporter.lines import exporter_lines
from ottla.monitoring.exporter.snapshot import Filter, take_snapshot
from ottla.monitoring.metrics.process import process_metrics
from ottla.monitoring.metrics.text import gauge

logger = logging.getLogger("ottla.monitoring.exporter")


class Exporter:
    """Renders snapshots. Concurrent scrapes share one snapshot."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        topics: Filter | None = None,
        groups: Filter | None = None,
        idle_groups: bool = True,
        more: Callable[[], list[str]] | None = None,
    ) -> None:
        """`more` produces additional lines for each scrape."""
        self._cluster = cluster
        self._topics = topics
        self._groups = groups
        self._idle_groups = idle_groups
        self._more = more
        self._lock = Lock()
        self._text = ""
        self._taken = 0.0  # start of the last snapshot

    def render(self) -> str:
        asked = time.monotonic()
        with self._lock:
            if self._taken < asked:
                self._taken = time.monotonic()
                self._text = self._collect()
            return self._text

    def _collect(self) -> str:
        began = time.monotonic()
        try:
            snapshot = take_snapshot(self._cluster, self._topics, self._groups, idle_groups=self._idle_groups)
        except ClientError as error:
            logger.warning("%s", error.message)
            lines, up = [], 0
        else:
            for failure in snapshot.failures:
                logger.warning("%s", failure)
            lines, up = list(exporter_lines(snapshot)), 1
        lines.append(gauge("ottla_exporter_up", "1 if the cluster could be asked.", up))
        seconds = time.monotonic() - began
        lines.append(gauge("ottla_exporter_seconds", "How long it took to ask.", seconds))
        more = [] if self._more is None else self._more()
        return "".join([*lines, *more, *process_metrics()])

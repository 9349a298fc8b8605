"""Copies between two clusters, again after each failure, and says how it is."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.mirror.errors import LASTING
from ottla.mirror.settings import FlowSettings

log = logging.getLogger("ottla.mirror")


@dataclass
class CopyStatus:
    name: str
    state: str = "STARTING"  # RUNNING, WAITING, FAILED or STOPPED after that
    reason: str = ""
    topics: tuple[str, ...] = ()
    bytes_copied: int = 0


class CopyLoop:
    """Owner: the thread that runs it; others read `status`. `title` is what the log calls it."""

    def __init__(
        self,
        title: str,
        flow: FlowSettings,
        status: CopyStatus,
        stopping: threading.Event,
        retry_seconds: float,
    ) -> None:
        self._title = title
        self._flow = flow
        self.status = status
        self._stopping = stopping
        self._retry_seconds = retry_seconds
        self._failure = ""

    def run(self, copy: Callable[[Cluster, Cluster], None]) -> None:
        """Until everything stops. `copy` gets the source and the target, and returns to be called with new ones."""
        while not self._stopping.is_set():
            try:
                with (
                    closing(Cluster(self._flow.source.settings)) as source,
                    closing(Cluster(self._flow.target.settings)) as target,
                ):
                    copy(source, target)
            except ClientError as error:
                self._failed(error.message, lasting=isinstance(error, LASTING))
            except Exception as error:  # whatever Spark raises: it must not end unseen
                log.exception("%s failed.", self._title)
                self._failed(str(error).split("\n")[0], lasting=False)
            self._stopping.wait(self._retry_seconds)
        self.status.state = "STOPPED"

    def running(self, topics: tuple[str, ...]) -> None:
        self.status.state, self.status.reason, self._failure = "RUNNING", "", ""
        self.status.topics = topics

    def waiting(self, reason: str) -> None:
        if reason != self.status.reason:
            log.error("%s waits: %s", self._title, reason)
        self.status.state, self.status.reason = "WAITING", reason

    def _failed(self, reason: str, *, lasting: bool) -> None:
        self.status.state, self.status.reason = "FAILED", reason
        if reason != self._failure:
            log.error("%s: %s", self._title, reason)
        self._failure = reason
        if lasting:  # until somebody decides and starts again
            self._stopping.wait()

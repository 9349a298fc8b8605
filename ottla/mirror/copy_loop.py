"""Copy loop between two clusters that retries after failures and reports its status."""

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
    state: str = "STARTING"  # later RUNNING, WAITING, FAILED or STOPPED
    reason: str = ""
    topics: tuple[str, ...] = ()
    bytes_copied: int = 0


class CopyLoop:
    """Retry a copy until it is stopped. `title` identifies the copy in the log.

    Owner: the thread that runs the loop; other threads read `status`.
    """

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
        """Call `copy` with the source and the target until the process stops. When `copy` returns, connect again."""
        while not self._stopping.is_set():
            try:
                with (
                    closing(Cluster(self._flow.source.settings)) as source,
                    closing(Cluster(self._flow.target.settings)) as target,
                ):
                    copy(source, target)
            except ClientError as error:
                self._failed(error.message, lasting=isinstance(error, LASTING))
            except Exception as error:  # Spark raises many types; none may end the thread silently
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
        if lasting:  # wait for an operator to restart the copy
            self._stopping.wait()

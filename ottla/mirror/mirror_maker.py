"""All flows of an mm2.properties on one Spark session. Each flow has a copy thread and a thread for group sync."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.mirror import internal_topics
from ottla.mirror.copy_loop import CopyLoop, CopyStatus
from ottla.mirror.errors import reason_of
from ottla.mirror.flow import CopyQuery
from ottla.mirror.formats import Heartbeat
from ottla.mirror.group_sync import GroupSync
from ottla.mirror.internal_topics import InternalWriter
from ottla.mirror.policy import HEARTBEATS
from ottla.mirror.settings import FlowSettings
from ottla.mirror.topic_sync import TopicSync
from ottla.mirror.translation import Translation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("ottla.mirror")

#: Delay before retrying after a transient failure.
_RETRY_SECONDS = 2.0
#: Interval between checks that the query still runs.
_LOOK_SECONDS = 0.5
_OLD_RUNS_SECONDS = 600.0
#: Maximum wait for threads at shutdown, in case they are blocked on an unreachable cluster.
_STOP_SECONDS = 15.0


class MirrorMaker:
    def __init__(self, spark: SparkSession, flows: Sequence[FlowSettings]) -> None:
        self._stopping = threading.Event()
        self._flows = [_Flow(spark, flow, self._stopping) for flow in flows if flow.enabled]
        self._threads = [
            threading.Thread(target=flow.run, name=f"mirror {flow.settings.name}") for flow in self._flows
        ]
        self._threads += [
            threading.Thread(
                target=_Beside(flow.settings, flow.translation, self._stopping).run, name="groups"
            )
            for flow in self._flows
        ]
        self._threads += [
            threading.Thread(target=_heartbeats, args=(flow, self._stopping), name=f"heartbeats {flow.name}")
            for flow in flows
            if flow.emit_heartbeats
        ]
        for thread in self._threads:
            thread.daemon = True

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def statuses(self) -> list[CopyStatus]:
        return [flow.status for flow in self._flows]

    def stop(self) -> None:
        self._stopping.set()
        deadline = time.monotonic() + _STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))


class Every:
    """Timer that fires immediately and then every `seconds`. 0 disables it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due = time.monotonic() if seconds else float("inf")

    def is_due(self) -> bool:
        if time.monotonic() < self._due:
            return False
        self._due = time.monotonic() + self._seconds
        return True


class _Flow:
    """Keeps a flow's query running over the current topics."""

    def __init__(self, spark: SparkSession, settings: FlowSettings, stopping: threading.Event) -> None:
        self._spark = spark
        self.settings = settings
        self._stopping = stopping
        self.translation = Translation()
        self.status = CopyStatus(settings.name)
        self._loop = CopyLoop(f"Flow {settings.name}", settings, self.status, stopping, _RETRY_SECONDS)

    def run(self) -> None:
        self._loop.run(self._copy)

    def _copy(self, source: Cluster, target: Cluster) -> None:
        """Run until the topics change, the query fails or the process stops."""
        settings = self.settings
        sync = TopicSync(settings, source, target)
        topics = sync.topics()
        refresh, configs, acls = map(
            Every, (settings.refresh_topics, settings.sync_topic_configs, settings.sync_topic_acls)
        )
        refresh.is_due()
        copy = CopyQuery(self._spark, settings, topics, self.translation)
        try:
            if topics:
                copy.start()
            self._loop.running(tuple(topic.name for topic in topics))
            while not self._stopping.wait(_LOOK_SECONDS):
                if configs.is_due():
                    sync.sync_configs(topics)
                if acls.is_due():
                    sync.sync_acls(topics)
                if refresh.is_due() and sync.topics() != topics:
                    return
                self.status.bytes_copied = copy.bytes_copied
                if topics and not copy.query.is_running:
                    raise reason_of(copy.query.failure())
        finally:
            copy.query.stop()


class _Beside:
    """Syncs groups: their checkpoints and offsets."""

    def __init__(self, settings: FlowSettings, translation: Translation, stopping: threading.Event) -> None:
        self._settings = settings
        self._translation = translation
        self._stopping = stopping

    def run(self) -> None:
        settings = self._settings
        if not settings.emit_checkpoints and not settings.sync_group_offsets:
            return
        _persistently(self._stopping, f"Groups of flow {settings.name}", self._sync)

    def _sync(self) -> None:
        settings = self._settings
        refresh, emit, offsets = map(
            Every, (settings.refresh_groups, settings.emit_checkpoints, settings.sync_group_offsets)
        )
        old_runs = Every(_OLD_RUNS_SECONDS)
        with (
            closing(Cluster(settings.source.settings)) as source,
            closing(Cluster(settings.target.settings)) as target,
        ):
            sync = GroupSync(settings, source, target, self._translation)
            sync.refresh()
            while not self._stopping.wait(_LOOK_SECONDS):
                if refresh.is_due():
                    sync.refresh()
                emits, syncs = emit.is_due(), offsets.is_due()
                found = sync.checkpoints() if emits or syncs else {}
                if emits:
                    sync.emit(found)
                if syncs:
                    sync.sync_offsets(found)
                if old_runs.is_due():
                    sync.forget_old_runs()


def _heartbeats(settings: FlowSettings, stopping: threading.Event) -> None:
    def beat() -> None:
        with closing(Cluster(settings.target.settings)) as target:
            factor = settings.heartbeats_replication_factor
            internal_topics.ensure(target, HEARTBEATS, replication_factor=factor)
            writer = InternalWriter(target)
            while True:
                now = int(time.time() * 1000)
                heartbeat = Heartbeat(settings.source.alias, settings.target.alias, now)
                writer.write_all(HEARTBEATS, [(heartbeat.key(), heartbeat.value())], now)
                if stopping.wait(settings.emit_heartbeats):
                    return

    _persistently(stopping, f"Heartbeats of flow {settings.name}", beat)


def _persistently(stopping: threading.Event, what: str, work: Callable[[], None]) -> None:
    """Retry after each failure. Log a repeated failure only once."""
    reported = ""
    while not stopping.is_set():
        try:
            work()
        except ClientError as error:
            if error.message != reported:
                log.warning("%s: %s", what, error.message)
            reported = error.message
            stopping.wait(_RETRY_SECONDS)

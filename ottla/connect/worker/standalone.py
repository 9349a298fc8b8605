"""A standalone worker. Configs from files and REST live as long as the process, but offsets persist."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from ottla.client.cluster import Cluster
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.worker.config_state import Change, Config, ConfigState
from ottla.connect.worker.config_store import ConfigStore
from ottla.connect.worker.errors import RequestError
from ottla.connect.worker.herder import Herder, with_task_class
from ottla.connect.worker.local_connectors import LocalConnectors, Wanted
from ottla.connect.worker.offset_file import OffsetFile
from ottla.connect.worker.offset_requests import OffsetRequests
from ottla.connect.worker.status_store import StatusStore


class StandaloneHerder(Herder):
    def __init__(
        self,
        worker: WorkerConfig,
        configs: ConfigStore,
        statuses: StatusStore,
        connectors: LocalConnectors,
        offsets: OffsetRequests,
        offset_file: OffsetFile | None = None,
    ) -> None:
        super().__init__(worker, configs, statuses, connectors, offsets)
        self._offset_file = offset_file
        configs.on_change = self._changed
        connectors.on_tasks = self._store_tasks
        connectors.on_stopped = self._stopped_locally

    def start(self, url: str, worker_id: str) -> None:
        """Raises ClientError."""
        self.connectors.worker_id = worker_id
        with closing(Cluster(self.worker.client_settings)) as cluster:
            self.cluster_id = cluster.metadata(()).cluster_id or ""
        if self._offset_file is not None:
            self._offset_file.start()
        self.is_ready = True

    def stop(self) -> None:
        self.connectors.stop_all(self.worker.shutdown_timeout + 30)
        if self._offset_file is not None:
            self._offset_file.stop()

    def wanted(self, state: ConfigState) -> dict[str, Wanted]:
        return {
            name: Wanted(config, state.target(name), bool(state.tasks(name)))
            for name, config in state.connectors.items()
        }

    def _changed(self, change: Change) -> None:
        if change.restart is not None:
            self.connectors.restart(change.restart)
        if change.logger is None:
            self.apply()

    def _store_tasks(self, name: str, configs: Sequence[Config]) -> None:
        config = self.configs.state().connectors.get(name)
        if config is not None and configs:
            try:
                self.put_task_configs(name, with_task_class(config, configs))
            except RequestError:
                return  # deleted in the meantime

    def _stopped_locally(self, name: str) -> None:
        if name not in self.configs.state().connectors:
            self._forget(name, self.statuses.state())

"""The life of a broker process: configuration, data, metadata, listeners; and the way back."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
from collections.abc import Mapping
from pathlib import Path

from ottla.broker.broker import Broker
from ottla.broker.housekeeping import Housekeeping
from ottla.broker.listener import Listener
from ottla.broker.startup import register, restore_topics
from ottla.broker.state_log import PartitionStateLog
from ottla.cluster.controller import Controller
from ottla.cluster.producer_ids import ProducerIds
from ottla.cluster.replicas import Replicas
from ottla.coordinator.coordinator import GroupCoordinator
from ottla.log.errors import LogDirectoryError
from ottla.log.log_directory import LogDirectory
from ottla.metadata.broker_config import BrokerConfig, ConfigError
from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.embedded import EmbeddedStore
from ottla.metadata.store import StoreError

logger = logging.getLogger(__name__)

_METADATA_FILE = "ottla-metadata.db"


class StartupError(Exception):
    """The broker cannot start; the text is one sentence for the operator."""


class Server:
    """One broker. `start` and `stop` are called once each, on the event loop that then owns it."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.broker: Broker
        self._listeners: list[Listener] = []
        self._directories: list[LogDirectory] = []
        self._store: EmbeddedStore | None = None
        self._housekeeping: Housekeeping | None = None

    @classmethod
    def from_options(cls, config_file: Path | None, overrides: Mapping[str, str]) -> Server:
        try:
            return cls(BrokerConfig.load(config_file, overrides))
        except ConfigError as error:
            raise StartupError(str(error)) from None

    @property
    def listen_addresses(self) -> list[str]:
        return [f"{listener.host}:{listener.port}" for listener in self._listeners]

    @property
    def port(self) -> int:
        return self._listeners[0].port

    @property
    def data_dirs(self) -> list[str]:
        return [str(directory.path) for directory in self._directories]

    async def start(self) -> None:
        try:
            await self._start()
        except BaseException as error:
            await self._abandon()
            if isinstance(error, LogDirectoryError | StoreError | ConfigError):
                raise StartupError(str(error)) from None
            raise

    async def _start(self) -> None:
        _raise_file_limit()
        config = self.config
        for endpoint in config.listeners:
            self._bind(endpoint.name, endpoint.host, endpoint.port)
        self._directories = await asyncio.to_thread(self._open_directories)
        self._store = EmbeddedStore(Path(self._directories[0].path) / _METADATA_FILE)
        await self._store.open()
        image = await ClusterImage.load(self._store)
        replicas = Replicas(config.broker_id, config, image, self._directories)
        controller = Controller(self._store, image, config, replicas, config.broker_id)
        producer_ids = ProducerIds(self._store, config.broker_id)
        advertised = config.advertised(dict(zip((e.name for e in config.listeners), self._ports(), strict=True)))
        await register(self._store, image, config, advertised, self._directories)
        broker = self.broker = Broker(config, self._store, image, replicas, controller, producer_ids)
        await restore_topics(broker)
        broker.groups = GroupCoordinator(PartitionStateLog(broker))
        await broker.groups.start()
        self._housekeeping = Housekeeping(broker)
        self._housekeeping.start()
        for listener in self._listeners:
            listener.attach(broker.dispatcher)
            listener.open()

    async def stop(self) -> None:
        """Take no more requests, finish what is written, and leave the mark of a clean shutdown."""
        for listener in self._listeners:
            listener.close()
        if self._housekeeping is not None:
            await self._housekeeping.stop()
        await self.broker.groups.stop()
        await asyncio.to_thread(self._close_directories)
        assert self._store is not None
        await self._store.close()

    def _bind(self, name: str, host: str, port: int) -> None:
        listener = Listener(name, host, port, self.config.int("socket.request.max.bytes"))
        try:
            listener.bind()
        except OSError as error:
            where = f"{host or '*'}:{port}"
            if error.errno == errno.EADDRINUSE:
                raise StartupError(
                    f"Port {port} on {host or 'this machine'} is taken by another program: stop it, or listen elsewhere "
                    f"with --listen HOST:PORT."
                ) from None
            raise StartupError(f"Cannot listen on {where}: {error.strerror or error}.") from None
        self._listeners.append(listener)

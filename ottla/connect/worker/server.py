"""A worker process: creates, starts and stops the herder, the engine and the listeners."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from ottla.client.http_login import KafkaLogin
from ottla.connect.config.config_def import ConfigError
from ottla.connect.config.local_files import SETTING as FILE_DIRECTORIES
from ottla.connect.config.local_files import FileDirectories
from ottla.connect.config.providers import ConfigProviders
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.worker.config_store import KafkaConfigStore, MemoryConfigStore
from ottla.connect.worker.distributed.herder import DistributedHerder
from ottla.connect.worker.errors import RequestError
from ottla.connect.worker.herder import Herder
from ottla.connect.worker.local_connectors import ConnectorEngine, LocalConnectors
from ottla.connect.worker.metrics import connect_lines
from ottla.connect.worker.offset_file import OffsetFile
from ottla.connect.worker.offset_requests import OffsetRequests
from ottla.connect.worker.rest.authentication import authentication
from ottla.connect.worker.rest.carrying_out import CarryingOut
from ottla.connect.worker.rest.listeners import (
    EVERY_INTERFACE,
    Address,
    Listener,
    advertised,
    https_properties,
    parse_listeners,
)
from ottla.connect.worker.rest.requests import initial_state
from ottla.connect.worker.rest.response_headers import allowed_origins, response_headers
from ottla.connect.worker.rest.routes import build_router
from ottla.connect.worker.standalone import StandaloneHerder
from ottla.connect.worker.status_store import KafkaStatusStore, MemoryStatusStore
from ottla.http import HttpServer, Router
from ottla.http.forwarding import Forwarder
from ottla.http.metrics import HttpMetrics
from ottla.http.tls import BadTlsSettings, client_tls, server_tls
from ottla.security.cross_site import SETTING as ALLOWED_HOSTS

_log = logging.getLogger(__name__)

_PASSED_ON = (
    "accept",
    "authorization",
    "content-type",
    "x-connect-authorization",
    "x-connect-request-signature-algorithm",
)
_FORWARD_SECONDS = 45.0


class ConnectServer:
    """Construction and start raise ConfigError, ClientError or OSError.

    A thread calls `engine` at the start, because starting Spark takes a while.
    """

    def __init__(
        self,
        worker: WorkerConfig,
        engine: Callable[[WorkerConfig], ConnectorEngine],
        *,
        connectors: Sequence[Mapping[str, str]] = (),
        initial_states: Mapping[str, str] | None = None,
    ) -> None:
        """`connectors` and `initial_states` (by name) come from the files of a standalone worker."""
        self.worker = worker
        self._make_engine = engine
        self._engine: ConnectorEngine | None = None
        self._from_files = connectors
        self._initial_states = initial_states or {}
        self._listeners = parse_listeners("listeners", worker.values["listeners"])
        if not self._listeners:
            raise ConfigError("listeners must name at least one address, for example http://127.0.0.1:8083.")
        self._admin_listeners = self._parse_admin(worker.values["admin.listeners"])
        every = (*self._listeners, *self._admin_listeners)
        try:
            has_https = any(each.scheme == "https" for each in every)
            self._tls = server_tls(https_properties(worker)) if has_https else None
            self._forwarder = Forwarder(
                client_tls(https_properties(worker)), _FORWARD_SECONDS, headers=_PASSED_ON
            )
        except BadTlsSettings as error:
            raise ConfigError(str(error)) from None
        FileDirectories(worker.values[FILE_DIRECTORIES])  # raises ConfigError
        self._authenticate = authentication(worker)
        self._decorate = response_headers(worker)
        self._servers: list[tuple[Listener, HttpServer]] = []
        self.router: Router | None = None
        self._carrying_out: CarryingOut | None = None
        self._metrics: HttpMetrics | None = None
        self.herder: Herder | None = None
        self.address: Address | None = None
        for warning in worker.warnings:
            _log.warning("%s", warning)

    def _parse_admin(self, values: Sequence[str] | None) -> list[Listener]:
        return parse_listeners("admin.listeners", [each for each in values or () if each])

    async def start(self) -> None:
        try:
            await asyncio.to_thread(self._prepare)
            herder = self.herder
            assert herder is not None
            self._carrying_out = CarryingOut(herder, self._forwarder)
            self._metrics = HttpMetrics("connect", self._metric_lines)
            separate = self.worker.values["admin.listeners"] is not None
            for listener in self._listeners:
                router = build_router(herder, self._carrying_out, listener.scheme, has_admin=not separate)
                self.router = router
                self._metrics.add_to(router)
                await self._listen(listener, router)
            for listener in self._admin_listeners:
                router = build_router(herder, self._carrying_out, listener.scheme, has_api=False)
                await self._listen(listener, router)
            self.address = advertised(self.worker, self._bound)
            await asyncio.to_thread(herder.start, self.address.url, self.address.authority)
            for config in self._from_files:
                await asyncio.to_thread(self._create, herder, config)
        except BaseException:
            await self.stop()
            raise

    async def _metric_lines(self) -> list[str]:
        herder = self.herder
        return [] if herder is None else await asyncio.to_thread(lambda: list(connect_lines(herder)))

    def _prepare(self) -> None:
        self._engine = self._make_engine(self.worker)
        self.herder = _herder(self.worker, self._engine)

    def _create(self, herder: Herder, config: Mapping[str, str]) -> None:
        name = config.get("name", "")
        try:
            state = initial_state(self._initial_states.get(name))
            herder.create(name, dict(config), state, from_operator=True)
        except RequestError as error:
            raise ConfigError(f"Connector {name or 'without a name'} cannot be created: {error}") from None

    async def _listen(self, listener: Listener, router: Router) -> None:
        server = HttpServer(
            router,
            listener.host,
            listener.port,
            tls=self._tls if listener.scheme == "https" else None,
            authenticate=self._authenticate,
            decorate=self._decorate,
            metrics=self._metrics,
            names=(self.worker.values["rest.advertised.host.name"] or "", *self.worker.values[ALLOWED_HOSTS]),
            origins=allowed_origins(self.worker),
        )
        await server.start()
        self._servers.append((listener, server))

    async def stop(self) -> None:
        """Stop the connectors, leave the group and release the topics, then close the listeners."""
        if self.herder is not None:
            await asyncio.to_thread(self.herder.stop)
        await asyncio.gather(*(server.stop() for _, server in self._servers))
        self._servers.clear()
        await self._forwarder.close()
        if isinstance(self._authenticate, KafkaLogin):
            self._authenticate.close()
        if self._carrying_out is not None:
            self._carrying_out.close()
        if self._engine is not None:
            await asyncio.to_thread(self._engine.close)

    @property
    def _bound(self) -> list[Address]:
        count = len(self._listeners)
        return [
            Address(listener.scheme, listener.host, server.port) for listener, server in self._servers[:count]
        ]

    @property
    def urls(self) -> list[str]:
        found = []
        for each in self._bound:
            host = "127.0.0.1" if each.host in EVERY_INTERFACE else each.host
            found.append(each._replace(host=host).url.rstrip("/"))
        return found


def _herder(worker: WorkerConfig, engine: ConnectorEngine) -> Herder:
    providers = ConfigProviders.from_config(worker.properties)
    tracks = bool(worker.values["topic.tracking.enable"])
    offsets = OffsetRequests(worker)
    if worker.is_distributed:
        configs, statuses = KafkaConfigStore(worker), KafkaStatusStore(worker)
        connectors = LocalConnectors(engine, statuses, providers, tracks_topics=tracks)
        return DistributedHerder(worker, configs, statuses, connectors, offsets)
    memory = MemoryStatusStore()
    connectors = LocalConnectors(engine, memory, providers, tracks_topics=tracks)
    return StandaloneHerder(worker, MemoryConfigStore(), memory, connectors, offsets, OffsetFile(worker))

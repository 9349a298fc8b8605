"""The REST proxy as a whole."""

from __future__ import annotations

import asyncio

from ottla import __version__
from ottla.client.http_login import KafkaLogin
from ottla.http import (
    Access,
    BasicAuthentication,
    HttpServer,
    Request,
    Response,
    Router,
    json_response,
    read_password_file,
)
from ottla.http.authentication import Authenticate
from ottla.http.metrics import HttpMetrics
from ottla.http.tls import principal_mapper, server_tls
from ottla.rest.clients import Clients
from ottla.rest.consumers import Consumers
from ottla.rest.embedded import Embedded
from ottla.rest.formats import FORMATS, V2_JSON
from ottla.rest.produce import Producing
from ottla.rest.settings import RestSettings
from ottla.rest.streams import Streams
from ottla.rest.v2 import V2
from ottla.rest.v3.api import Api
from ottla.rest.v3.clusters import Clusters
from ottla.rest.v3.groups import Groups
from ottla.rest.v3.records import Records
from ottla.rest.v3.topics import Topics

_IDLE_CHECK_SECONDS = 30.0


class RestProxy:
    """Owner: the event loop that it was started on."""

    def __init__(self, settings: RestSettings) -> None:
        self._clients = Clients(settings)
        self._consumers = Consumers(self._clients, settings)
        producing, embedded = (
            Producing(self._clients),
            Embedded(settings.schema_registry_url, as_caller=settings.registry_as_caller),
        )
        self._embedded = embedded
        self.router = Router(consumes=("application/json", V2_JSON, *FORMATS))
        self._host, self._scheme = settings.host, "http" if settings.tls is None else "https"
        api = Api(self._clients, self._scheme)
        V2(self._clients, producing, self._consumers, embedded).add_to(self.router)
        Clusters(api).add_to(self.router)
        Topics(api).add_to(self.router)
        Groups(api).add_to(self.router)
        Records(api, producing, embedded).add_to(self.router)
        Streams(self._clients).add_to(self.router)
        self.router.add("GET", "/", lambda request: json_response({}), access=Access.USER)
        self.router.add("GET", "/openapi.json", self._openapi, access=Access.USER)
        metrics = HttpMetrics("rest")
        metrics.add_to(self.router)
        authenticate: Authenticate | None = None
        self._login: KafkaLogin | None = None
        if settings.authentication == "BASIC" and settings.password_file is not None:
            authenticate = BasicAuthentication(read_password_file(settings.password_file))
        elif settings.authentication == "PROPAGATE":
            mechanism = settings.properties.get("sasl.mechanism", "PLAIN")
            authenticate = self._login = KafkaLogin(settings.cluster, mechanism=mechanism)
        self._server = HttpServer(
            self.router,
            settings.host,
            settings.port,
            tls=server_tls(settings.tls) if settings.tls is not None else None,
            mapper=principal_mapper(settings.tls or {}),
            authenticate=authenticate,
            max_body=settings.max_body,
            metrics=metrics,
            names=settings.names,
        )
        self._tidying: asyncio.Task[None] | None = None

    @property
    def urls(self) -> list[str]:
        host = "localhost" if self._host in ("0.0.0.0", "::") else self._host
        return [f"{self._scheme}://{host}:{self._server.port}"]

    async def start(self) -> None:
        await self._server.start()
        self._consumers.start()
        self._tidying = asyncio.create_task(self._tidy())

    async def stop(self) -> None:
        if self._tidying is not None:
            self._tidying.cancel()
        await self._server.stop()
        await self._consumers.close()
        await self._clients.close()
        if self._login is not None:
            self._login.close()
        self._embedded.close()

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(_IDLE_CHECK_SECONDS)
            await self._clients.close_idle()

    def _openapi(self, request: Request) -> Response:
        return json_response(self.router.openapi("Ottla REST proxy", __version__))

"""Routes of ksqlDB's REST API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Any

from ottla import __version__
from ottla.http import Access, HttpError, Request, Response, RouteDoc, Router, json_response
from ottla.http.router import UNTYPED
from ottla.sql.errors import SqlError
from ottla.sql.properties import KNOWN
from ottla.sql.server.commands import Commands
from ottla.sql.server.inserts import Inserts
from ottla.sql.server.ksql_errors import NOT_FOUND, bad_request, render
from ottla.sql.server.ksql_requests import read_request
from ottla.sql.server.push_queries import PushQueries
from ottla.sql.server.streaming import DELIMITED, Streaming

V1, JSON = "application/vnd.ksql.v1+json", "application/json"
_JSON_TYPES = (V1, JSON)
# ksqlDB's Java client sends no Content-Type.
#: Server properties that a request may not set.
_OF_THE_SERVER = (
    "bootstrap.servers",
    "ksql.service.id",
    "listeners",
    "ksql.internal.",
    "ssl.",
    "authentication.",
)


class Api:
    def __init__(
        self,
        commands: Commands,
        pushes: PushQueries,
        pool: Executor,
        service_id: str,
        address: Callable[[], str],
    ) -> None:
        self._commands = commands
        self._pushes = pushes
        self._pool = pool
        self._service_id = service_id
        self._address = address
        self._streaming = Streaming(commands, pushes, pool)
        self._inserts = Inserts(commands.session, pool)
        self._terminate: Callable[[], None] = lambda: None

    def on_terminate(self, call: Callable[[], None]) -> None:
        """Set the last action of POST /ksql/terminate."""
        self._terminate = call

    def router(self) -> Router:
        router = Router(render, consumes=(*_JSON_TYPES, DELIMITED, UNTYPED), produces=_JSON_TYPES)
        # Statements run with the server's rights, so they require an admin.
        add, run = partial(router.add, access=Access.USER), partial(router.add, access=Access.ADMIN)
        run("POST", "/ksql", self.ksql, doc=RouteDoc("Run statements, all but SELECT and PRINT"))
        run("POST", "/query", self._streaming.query, doc=RouteDoc("Run a SELECT or PRINT"),
            produces=(V1, JSON, "application/vnd.ksql.v2+json", "text/plain"))  # fmt: skip
        run("POST", "/query-stream", self._streaming.query_stream, doc=RouteDoc("Run a SELECT"),
            produces=(DELIMITED, JSON, V1))  # fmt: skip
        run("POST", "/inserts-stream", self.inserts_stream, doc=RouteDoc("Insert rows"),
            produces=(DELIMITED, JSON, V1))  # fmt: skip
        run("POST", "/close-query", self.close_query, doc=RouteDoc("End a push query"))
        run("POST", "/ksql/terminate", self.terminate, doc=RouteDoc("End all queries, and the server"))
        router.add(
            "GET", "/status", self.all_statuses, access=Access.VIEWER, doc=RouteDoc("States of all commands")
        )
        router.add("GET", "/status/{type}/{entity}/{action}", self.status, access=Access.VIEWER,
                   doc=RouteDoc("State of a command"))  # fmt: skip
        add("GET", "/info", self.info, doc=RouteDoc("Version and ids"))
        add("GET", "/", self.root)
        router.add("GET", "/healthcheck", self.healthcheck, access=Access.ANYONE,
                   doc=RouteDoc("Whether the server works"))  # fmt: skip
        add(
            "GET", "/clusterStatus", self.cluster_status, doc=RouteDoc("The servers of the cluster: this one")
        )
        add("GET", "/is_valid_property/{name}", self.is_valid_property,
            doc=RouteDoc("Whether a request may set it"))  # fmt: skip
        add("GET", "/v1/metadata", self.metadata)
        add("GET", "/v1/metadata/id", self.metadata)
        add("GET", "/openapi.json", lambda _: json_response(router.openapi("ksqlDB on Ottla", __version__)))
        router.websocket("/ws/query", self._streaming.websocket, access=Access.ADMIN)
        return router

    async def _threaded(self, call: Callable[..., Any], *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *given)

    # -- statements --

    async def ksql(self, request: Request) -> Response:
        asked = await read_request(request, "ksql")
        return json_response(
            await self._threaded(self._commands.execute, asked), content_type=request.produces
        )

    async def inserts_stream(self, request: Request) -> Response:
        source, lines, first = await self._inserts.begin(request)
        acknowledged = self._inserts.acknowledgements(source, lines, first)
        return Response(200, acknowledged, request.produces)

    async def close_query(self, request: Request) -> Response:
        plain = await request.json()
        query_id = plain.get("queryId") if isinstance(plain, dict) else None
        if not isinstance(query_id, str):
            raise bad_request("The field 'queryId' is missing, or is not a text.")
        if not self._pushes.close(query_id):
            raise bad_request(f"No query with id {query_id}")
        return Response(200, b"", None)

    async def terminate(self, request: Request) -> Response:
        plain = await request.json() if not request.content.empty else {}
        topics = plain.get("deleteTopicList") if isinstance(plain, dict) else None
        topics = topics if isinstance(topics, list) else []
        self._pushes.stop(0)
        await self._threaded(self._commands.terminate_all, [str(each) for each in topics])
        asyncio.get_running_loop().call_later(0.2, self._terminate)
        answer = {
            "@type": "currentStatus",
            "statementText": "TERMINATE CLUSTER;",
            "commandId": "cluster/TerminateCluster/terminate",
            "commandStatus": {"status": "SUCCESS", "message": "Cluster terminated.", "queryId": None},
            "commandSequenceNumber": -1,
            "warnings": [],
        }
        return json_response([answer], content_type=request.produces)

    # -- metadata --

    async def all_statuses(self, request: Request) -> Response:
        statuses = {name: each.status for name, each in self._commands.statuses.items()}
        return json_response({"commandStatuses": statuses}, content_type=request.produces)

    async def status(self, request: Request) -> Response:
        kind, entity, action = (request.params[name] for name in ("type", "entity", "action"))
        for name in (f"{kind}/{entity}/{action}", f"{kind}/`{entity}`/{action}"):
            if name in self._commands.statuses:
                return json_response(self._commands.statuses[name].to_json(), content_type=request.produces)
        raise HttpError(404, NOT_FOUND, "Command not found")

    async def info(self, request: Request) -> Response:
        cluster = await self._threaded(self._cluster_id)
        facts = {
            "version": __version__,
            "kafkaClusterId": cluster,
            "ksqlServiceId": self._service_id,
            "serverStatus": "RUNNING" if self._commands.is_ready else "INITIALIZING",
        }
        return json_response({"KsqlServerInfo": facts}, content_type=request.produces)

    def _cluster_id(self) -> str:
        try:
            return self._commands.session.brokers.cluster_id()
        except SqlError as error:
            raise HttpError(503, 50300, str(error)) from None

    async def root(self, request: Request) -> Response:
        return Response(307, b"", None, {"Location": "/info"})

    async def healthcheck(self, request: Request) -> Response:
        try:
            await self._threaded(self._cluster_id)
            reached = True
        except HttpError:
            reached = False
        details = {
            "metastore": {"isHealthy": reached},
            "kafka": {"isHealthy": reached},
            "commandRunner": {"isHealthy": not self._commands.not_started},
        }
        healthy = all(each["isHealthy"] for each in details.values())
        state = "READY" if self._commands.is_ready else "INITIALIZING"
        return json_response(
            {"isHealthy": healthy, "details": details, "serverState": state}, content_type=request.produces
        )

    async def cluster_status(self, request: Request) -> Response:
        now = time.time_ns() // 1_000_000
        running = [each.query_id for each in self._commands.session.queries.all()]
        host = {
            "hostAlive": True,
            "lastStatusUpdateMs": now,
            "activeStandbyPerQuery": {
                query_id: {
                    "activeStores": [],
                    "activePartitions": [],
                    "standByStores": [],
                    "standByPartitions": [],
                }
                for query_id in running
            },
            "hostStoreLags": {"stateStoreLags": {}, "updateTimeMs": 0},
        }
        return json_response({"clusterStatus": {self._address(): host}}, content_type=request.produces)

    async def is_valid_property(self, request: Request) -> Response:
        name = request.params["name"]
        if name.removeprefix("ksql.streams.").startswith(_OF_THE_SERVER):
            raise bad_request(
                "One or more properties overrides set locally are prohibited by the KSQL server denylist "
                f"(use UNSET to reset their default value): [{name}]"
            )
        if name.removeprefix("ksql.streams.") not in KNOWN and not name.startswith("ksql."):
            raise bad_request(f"Not recognizable as ksql, streams, consumer, or producer property: '{name}'")
        return json_response(True, content_type=request.produces)

    async def metadata(self, request: Request) -> Response:
        clusters = {"kafka-cluster": await self._threaded(self._cluster_id), "ksql-cluster": self._service_id}
        return json_response({"id": "", "scope": {"path": [], "clusters": clusters}})

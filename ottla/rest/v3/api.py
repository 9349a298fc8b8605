"""Shared parts of v3 handlers: caller, cluster and documentation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ottla.http import Access, HttpError, Request, Response, RouteDoc, Router
from ottla.rest.clients import Clients, Identity
from ottla.rest.v3.resources import Links


class Asked(NamedTuple):
    request: Request
    identity: Identity
    links: Links

    def param(self, name: str) -> str:
        return self.request.params[name]


Call = Callable[[Asked], Awaitable[Response]]


class Api:
    def __init__(self, clients: Clients, scheme: str) -> None:
        self.clients = clients
        self.scheme = scheme

    def add(self, router: Router, method: str, path: str, call: Call, summary: str) -> None:
        """`path` is relative to the cluster."""

        async def handler(request: Request) -> Response:
            return await call(await self.asked(request))

        pattern = f"/v3/clusters/{{cluster}}{path}"
        router.add(method, pattern, handler, access=Access.USER, doc=RouteDoc(summary))

    async def asked(self, request: Request) -> Asked:
        identity = self.clients.identity(request)
        cluster_id = await self.clients.cluster_id(identity)
        if request.params.get("cluster", cluster_id) != cluster_id:
            raise HttpError(404, 404, f"Cluster {request.params['cluster']} cannot be found.")
        return Asked(request, identity, Links(request, cluster_id, self.scheme))

    async def admin(self, asked: Asked, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        return await self.clients.admin(asked.identity, function, *arguments, **options)

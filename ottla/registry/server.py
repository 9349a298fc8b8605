"""A registry: its node, its listeners, and how they start and stop."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path

from ottla.http import HttpServer
from ottla.http.metrics import HttpMetrics
from ottla.http.tls import BadTlsSettings, client_tls, principal_mapper, server_tls
from ottla.registry.api.routes import build_router
from ottla.registry.election.forwarding import leader_forwarder
from ottla.registry.election.protocol import Identity
from ottla.registry.model.scopes import resolve_alias
from ottla.registry.node import Node
from ottla.registry.security.authentication import basic_authentication
from ottla.registry.security.authorization import BadAcls, Rights, read_acls
from ottla.registry.security.schema_subjects import subjects_of_schema
from ottla.registry.settings import BadSettings, Listener, RegistrySettings

_log = logging.getLogger(__name__)

_EVERY_INTERFACE = ("", "0.0.0.0", "::")


class RegistryServer:
    """Raises, when started: BadSettings, UnusableTopic, ClientError, TimeoutError, OSError."""

    def __init__(self, settings: RegistrySettings) -> None:
        self.settings = settings
        self.node = Node(settings)
        has_https = any(each.scheme == "https" for each in settings.listeners)
        try:
            self._tls = server_tls(settings.properties) if has_https else None
            self._forwarder = leader_forwarder(client_tls(settings.properties), settings.timeout)
            self._mapper = principal_mapper(settings.properties)
        except BadTlsSettings as error:
            raise BadSettings(str(error)) from None
        self._authenticate = basic_authentication(settings.properties)
        self._rights = _rights(settings, self.node)
        self._servers: list[tuple[Listener, HttpServer]] = []

    async def start(self) -> None:
        try:
            await self.node.load()
            router = build_router(self.node, self._forwarder, self._rights)
            metrics = HttpMetrics("registry")
            metrics.add_to(router)
            for listener in self.settings.listeners:
                server = HttpServer(
                    router,
                    listener.host,
                    listener.port,
                    tls=self._tls if listener.scheme == "https" else None,
                    authenticate=self._authenticate,
                    mapper=self._mapper,
                    max_body=self.settings.max_body,
                    metrics=metrics,
                )
                await server.start()
                self._servers.append((listener, server))
            self.node.join(self._identity())
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Answers what is under way, leaves the group, and lets go of the log."""
        await asyncio.gather(*(server.stop() for _, server in self._servers))
        self._servers.clear()
        await self._forwarder.close()
        await self.node.stop()

    def _identity(self) -> Identity:
        listener, server = next(
            each for each in self._servers if each[0].scheme == self.settings.inter_instance_scheme
        )
        host = self.settings.host_name or listener.host
        if host in _EVERY_INTERFACE:
            host = socket.getfqdn()
        return Identity(host, server.port, self.settings.is_eligible, listener.scheme)

    @property
    def urls(self) -> list[str]:
        """Where clients on this machine reach it."""
        found = []
        for listener, server in self._servers:
            host = "127.0.0.1" if listener.host in _EVERY_INTERFACE else listener.host
            found.append(Identity(host, server.port, scheme=listener.scheme).url)
        return found


def _rights(settings: RegistrySettings, node: Node) -> Rights:
    path = settings.properties.get("confluent.schema.registry.acl.file", "")
    if not path:
        return Rights()
    supers = settings.properties.get("confluent.schema.registry.super.users", "")
    names = {each.strip().removeprefix("User:") for each in supers.split(";")}
    try:
        return Rights(
            read_acls(Path(path)),
            names,
            lambda request: subjects_of_schema(node.state, request),
            lambda subject: resolve_alias(node.state, subject),
        )
    except BadAcls as error:
        raise BadSettings(str(error)) from None

"""A registry server: its node and listeners, with startup and shutdown."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path

from ottla.client.admin.acls import describe_acls
from ottla.client.cluster import shared_cluster
from ottla.client.errors import ClientError
from ottla.client.http_login import KafkaLogin
from ottla.http import HttpServer, Router
from ottla.http.metrics import HttpMetrics
from ottla.http.tls import BadTlsSettings, client_tls, principal_mapper, server_tls
from ottla.registry.api.routes import build_router
from ottla.registry.election import Identity, leader_forwarder
from ottla.registry.node import Node
from ottla.registry.security import AclFileRights, BadAcls, Rights, TopicRights, authentication, read_acls
from ottla.registry.settings import BadSettings, Listener, RegistrySettings
from ottla.security.acls import Acl, AclFilter, ResourceType

_log = logging.getLogger(__name__)

#: Maximum delay until a changed ACL takes effect.
_ACL_SECONDS = 5.0
_EVERY_INTERFACE = ("", "0.0.0.0", "::")


class RegistryServer:
    """`start` raises BadSettings, UnusableTopic, ClientError, TimeoutError, OSError."""

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
        self._authenticate = authentication(settings)
        self._rights = self._make_rights()
        self._reading_acls: asyncio.Task[None] | None = None
        self._servers: list[tuple[Listener, HttpServer]] = []
        self.router: Router | None = None

    async def start(self) -> None:
        try:
            await self.node.load()
            if isinstance(self._rights, TopicRights):
                self._rights.replace(await self._acls())
                self._reading_acls = asyncio.create_task(self._read_acls(self._rights))
            self.router = build_router(self.node, self._forwarder, self._rights)
            metrics = HttpMetrics("registry")
            metrics.add_to(self.router)
            for listener in self.settings.listeners:
                server = HttpServer(
                    self.router,
                    listener.host,
                    listener.port,
                    tls=self._tls if listener.scheme == "https" else None,
                    authenticate=self._authenticate,
                    mapper=self._mapper,
                    max_body=self.settings.max_body,
                    metrics=metrics,
                    names=(self.settings.host_name, *self.settings.allowed_hosts),
                )
                await server.start()
                self._servers.append((listener, server))
            self.node.join(self._identity())
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Finish running requests, leave the group, and close the log."""
        if self._reading_acls is not None:
            self._reading_acls.cancel()
        await asyncio.gather(*(server.stop() for _, server in self._servers))
        self._servers.clear()
        if isinstance(self._authenticate, KafkaLogin):
            self._authenticate.close()
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

    def _make_rights(self) -> Rights:
        properties, node = self.settings.properties, self.node
        path = properties.get("confluent.schema.registry.acl.file", "")
        if not path:
            if isinstance(self._authenticate, KafkaLogin):
                return TopicRights(lambda: node.state)
            return Rights()
        supers = properties.get("confluent.schema.registry.super.users", "")
        names = {each.strip().removeprefix("User:") for each in supers.split(";")}
        try:
            return AclFileRights(read_acls(Path(path)), lambda: node.state, names)
        except BadAcls as error:
            raise BadSettings(str(error)) from None

    async def _acls(self) -> list[Acl]:
        """Return the topic ACLs. The registry's own user needs DESCRIBE on the cluster. Raises ClientError."""

        def ask() -> list[Acl]:
            with shared_cluster(self.settings.client) as cluster:
                return describe_acls(cluster, AclFilter(ResourceType.TOPIC))

        return await asyncio.to_thread(ask)

    async def _read_acls(self, rights: TopicRights) -> None:
        while True:
            await asyncio.sleep(_ACL_SECONDS)
            try:
                rights.replace(await self._acls())
            except ClientError as error:
                _log.warning("Rights stay as they were, because the ACLs cannot be read: %s", error)

    @property
    def urls(self) -> list[str]:
        """URLs for clients on this machine."""
        found = []
        for listener, server in self._servers:
            host = "127.0.0.1" if listener.host in _EVERY_INTERFACE else listener.host
            found.append(Identity(host, server.port, scheme=listener.scheme).url)
        return found

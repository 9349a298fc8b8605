"""The console as a whole."""

from __future__ import annotations

import secrets

from ottla.console.access.audit_log import AuditLog
from ottla.console.access.login import Logins, Sessions, Signer
from ottla.console.cluster.site import Site
from ottla.console.health.observer import Observer
from ottla.console.pages import all_routes
from ottla.console.settings import ConsoleSettings
from ottla.console.web.app import App
from ottla.http import HttpServer, read_password_file
from ottla.http.tls import server_tls


class Console:
    """Owner: the event loop that started it. `sites` replaces those of the settings, in tests."""

    def __init__(self, settings: ConsoleSettings, sites: dict[str, Site] | None = None) -> None:
        settings.check()
        self._host = settings.host
        self._scheme = "http" if settings.tls is None else "https"
        self.sites = sites or {
            each.name: Site(
                each,
                read_only=settings.read_only,
                lag_seconds=settings.lag_seconds,
                refresh_seconds=settings.refresh_seconds,
            )
            for each in settings.clusters
        }
        self.observers = {
            name: Observer(site, self.sites, settings.refresh_seconds) for name, site in self.sites.items()
        }
        signer = Signer(settings.secret or secrets.token_bytes(32))
        sessions = Sessions(signer, seconds=settings.session_seconds, secure=settings.tls is not None)
        users = dict(settings.users) or None
        if settings.users_file is not None:
            users = {**read_password_file(settings.users_file), **settings.users}
        logins = Logins(
            sessions,
            settings.roles,
            users,
            has_provider=settings.oidc is not None,
            read_only=settings.read_only,
        )
        self.app = App(
            self.sites,
            sessions,
            logins,
            AuditLog(settings.audit_file),
            scheme=self._scheme,
            signer=signer,
            masks=settings.masks,
            observers=self.observers,
        )
        self.app.add(all_routes(settings, signer))
        self._server = HttpServer(
            self.app.router,
            settings.host,
            settings.port,
            tls=server_tls(settings.tls) if settings.tls is not None else None,
            has_login=settings.asks_for_login,
            names=settings.allowed_hosts,
            names_setting="allowed_hosts in console.toml",
        )

    @property
    def urls(self) -> list[str]:
        host = "localhost" if self._host in ("0.0.0.0", "::") else self._host
        shown = f"[{host}]" if ":" in host else host
        return [f"{self._scheme}://{shown}:{self._server.port}"]

    async def start(self) -> None:
        await self._server.start()
        self.start_background()

    def start_background(self) -> None:
        """Begin to measure. Without the HTTP server this is all that an MCP server needs."""
        for site in self.sites.values():
            site.start()
        for observer in self.observers.values():
            observer.start()

    async def stop(self) -> None:
        await self._server.stop(grace_seconds=1.0)
        await self.stop_background()

    async def stop_background(self) -> None:
        for observer in self.observers.values():
            await observer.stop()
        for site in self.sites.values():
            await site.stop()

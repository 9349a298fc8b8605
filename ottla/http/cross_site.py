"""The check against foreign web pages (`ottla.security.cross_site`) for Ottla's servers."""

from __future__ import annotations

import socket
from collections.abc import Collection, Mapping

from ottla.http.messages import HttpError, Request
from ottla.security import cross_site
from ottla.security.cross_site import SETTING


class CrossSite(cross_site.CrossSite):
    def __init__(
        self,
        host: str,
        *,
        names: Collection[str] = (),
        origins: Collection[str] = (),
        checks_host: bool = True,
        setting: str = SETTING,
    ) -> None:
        if checks_host and not cross_site.is_loopback(host):
            names = (*names, socket.gethostname(), socket.getfqdn())
        super().__init__(host, names=names, origins=origins, checks_host=checks_host, setting=setting)

    def check(self, request: Request) -> None:
        """Raises HttpError 421 or 403."""
        refusal = self.refusal(request.method, request.headers)
        if refusal is not None:
            raise HttpError(refusal.status, refusal.status, refusal.message)


def names_of(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the operator's list of names:
    `allowed.hosts=registry.example.com,schemas.example.com`; `*` is any name.
    """
    return tuple(filter(None, (each.strip() for each in properties.get(SETTING, "").split(","))))

"""Keep out requests that a foreign web page makes through the browser of somebody who can reach this server.

A page can let its own name resolve to this machine (DNS rebinding). The browser then names that page in `Host`, so a
server without a login answers only under names that it knows. A page can also send forms, open WebSockets and load
addresses of other sites. The browser then names the page in `Origin`, or says `Sec-Fetch-Site: cross-site`.
"""

from __future__ import annotations

import fnmatch
import ipaddress
import socket
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from ottla.http.errors import HttpError
from ottla.http.messages import Request

SETTING = "allowed.hosts"

# Nobody can buy a public name below these, so no foreign page can live there.
_PRIVATE_DOMAINS = (
    ".local", ".internal", ".intranet", ".lan", ".home.arpa", ".svc",
)  # fmt: skip
_REMEMBERED = 256


class CrossSite:
    """`host` is where the server listens, `names` are further names of it, `origins` are pages that may call it.

    `checks_host` is false where a login or TLS protects the server: a foreign page has no password for it, and no
    certificate. `setting` names the operator's list of names, for the refusal.
    """

    def __init__(
        self,
        host: str,
        *,
        names: Collection[str] = (),
        origins: Collection[str] = (),
        checks_host: bool = True,
        setting: str = SETTING,
    ) -> None:
        self._origins = tuple(origins)
        self._setting = setting
        self._checks_host = checks_host and "*" not in names
        self._is_local = is_loopback(host)
        self._names = {each.lower().rstrip(".") for each in (host, "localhost", *names) if each}
        if checks_host and not self._is_local:
            self._names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        self._accepted: set[str] = set()  # values of Host, as they were sent

    def check(self, request: Request) -> None:
        """Raises HttpError 421 or 403."""
        headers = request.headers
        if self._checks_host:
            host = headers.get("host", "")
            if host not in self._accepted:
                self._check_host(host)
        if "origin" in headers or "sec-fetch-site" in headers:
            self._check_origin(request)

    def _check_host(self, sent: str) -> None:
        name = host_name(sent)
        if name is None or not self._is_ours(name):
            raise HttpError(
                421,
                421,
                f"This server does not answer under the name '{name or sent}'. If the name is yours, add it to "
                f"{self._setting}.",
            )
        if len(self._accepted) < _REMEMBERED:
            self._accepted.add(sent)

    def _is_ours(self, name: str) -> bool:
        if not name or name in self._names or name.endswith(".localhost") or _is_address(name):
            return True  # no browser leaves the name out, and no page can claim an address
        return not self._is_local and ("." not in name or name.endswith(_PRIVATE_DOMAINS))

    def _check_origin(self, request: Request) -> None:
        headers = request.headers
        origin = headers.get("origin", "")
        if origin and any(fnmatch.fnmatchcase(origin, each) for each in self._origins):
            return
        site = headers.get("sec-fetch-site")
        if site is not None:
            is_link = request.method in ("GET", "HEAD") and headers.get("sec-fetch-mode") == "navigate"
            if site in ("same-origin", "none") or is_link:
                return
        elif _authority(origin) == _authority(f"{origin.partition('://')[0]}://{headers.get('host', '')}"):
            return
        raise HttpError(403, 403, f"Pages of {origin or 'another site'} may not call this server.")


def names_of(properties: Mapping[str, str]) -> tuple[str, ...]:
    """The operator's list of names: `allowed.hosts=registry.example.com,schemas.example.com`; `*` is any name."""
    return tuple(filter(None, (each.strip() for each in properties.get(SETTING, "").split(","))))


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def host_name(sent: str) -> str | None:
    """The name in the header Host, without the port; None if it cannot be read."""
    try:
        parts = urlsplit(f"//{sent}")
        _ = parts.port
    except ValueError:
        return None
    if parts.netloc != sent or "@" in sent:
        return None
    return (parts.hostname or "").rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _authority(url: str) -> tuple[str, int | None] | None:
    """Host and port of an origin, with the port that its scheme implies."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    return (parts.hostname, port) if parts.hostname else None

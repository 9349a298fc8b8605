"""Reject requests that a foreign web page sends through a visitor's browser to servers within the visitor's reach.

A page can make its own name resolve to this machine (DNS rebinding). The browser then sends that name in `Host`, so a
server without a login answers only to names it knows. A page can also submit forms, open WebSockets and load addresses
of other sites. The browser then names the page in `Origin`, or sends `Sec-Fetch-Site: cross-site`.
"""

from __future__ import annotations

import fnmatch
import ipaddress
from collections.abc import Collection, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

SETTING = "allowed.hosts"

# Public names cannot be registered below these, so no foreign page can be served there.
_PRIVATE_DOMAINS = (
    ".local", ".internal", ".intranet", ".lan", ".home.arpa", ".svc",
)  # fmt: skip
_REMEMBERED = 256


class Refusal(NamedTuple):
    status: int
    message: str


class CrossSite:
    """`host` is the listening address, `names` are further names of the server, `origins` are pages that may call it.

    `checks_host` is false if a login or TLS protects the server: a foreign page has neither password nor certificate.
    `setting` names the operator's list of names, for the error message.
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
        self._accepted: set[str] = set()  # accepted values of Host

    def refusal(self, method: str, headers: Mapping[str, str]) -> Refusal | None:
        """Return a refusal with status 421 or 403. Header names are in lower case."""
        if self._checks_host:
            host = headers.get("host", "")
            if host not in self._accepted and not self._accepts(host):
                return Refusal(
                    421,
                    f"This server does not answer under the name '{host_name(host) or host}'. If the name is yours, "
                    f"add it to {self._setting}.",
                )
        if ("origin" in headers or "sec-fetch-site" in headers) and self._is_foreign(method, headers):
            page = headers.get("origin") or "another site"
            return Refusal(403, f"Pages of {page} may not call this server.")
        return None

    def _accepts(self, host: str) -> bool:
        name = host_name(host)
        if name is None or not self._is_ours(name):
            return False
        if len(self._accepted) < _REMEMBERED:
            self._accepted.add(host)
        return True

    def _is_ours(self, name: str) -> bool:
        if not name or name in self._names or name.endswith(".localhost") or _is_address(name):
            return True  # browsers always send the name, and a page cannot claim an address
        return not self._is_local and ("." not in name or name.endswith(_PRIVATE_DOMAINS))

    def _is_foreign(self, method: str, headers: Mapping[str, str]) -> bool:
        origin = headers.get("origin", "")
        if origin and any(fnmatch.fnmatchcase(origin, each) for each in self._origins):
            return False
        site = headers.get("sec-fetch-site")
        if site is not None:
            is_link = method in ("GET", "HEAD") and headers.get("sec-fetch-mode") == "navigate"
            return site not in ("same-origin", "none") and not is_link
        own = _authority(f"{origin.partition('://')[0]}://{headers.get('host', '')}")
        return own is None or _authority(origin) != own


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def host_name(sent: str) -> str | None:
    """Return the name in the Host header without the port, or None if it is malformed."""
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
    """Return host and port of an origin, with the scheme's default port."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    return (parts.hostname, port) if parts.hostname else None

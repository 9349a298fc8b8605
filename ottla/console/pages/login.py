"""Login page, login through a provider, and logout."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import asdict

from ottla.console.access.login import COOKIE, LINK, LOGIN_COOKIE, OneTimeLink, Signer, cookies_of
from ottla.console.access.oidc import Attempt, LoginFailed, Provider
from ottla.console.settings import ConsoleSettings
from ottla.console.web.app import Route
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response

logger = logging.getLogger(__name__)

_ATTEMPT_SECONDS = 600


class LoginPages:
    def __init__(self, settings: ConsoleSettings, signer: Signer) -> None:
        self._oidc = settings.oidc
        self._signer = signer
        self._provider = Provider(settings.oidc) if settings.oidc is not None else None
        self._link = OneTimeLink(settings.login_token, next(iter(settings.users), ""))

    def routes(self) -> Iterator[Route]:
        yield Route("GET", "/login", self.form, json=False, public=True)
        yield Route("POST", "/login", self.log_in, public=True, changes=False)
        yield Route("GET", LINK, self.by_link, json=False, public=True)
        yield Route("POST", "/logout", self.log_out, public=True, changes=False)
        yield Route("GET", "/login/provider", self.to_provider, json=False, public=True)
        yield Route("GET", "/login/callback", self.from_provider, json=False, public=True)

    async def form(self, visit: Visit) -> Page | Response:
        return self._page(visit, _target(visit.query.get("next")), None)

    def _page(self, visit: Visit, target: str, problem: str | None, status: int = 200) -> Page:
        logins = visit.app.logins
        more = {
            "target": target,
            "problem": problem,
            "has_users": logins.has_users,
            "has_provider": logins.has_provider,
            "given": visit.form.get("user", ""),
        }
        return Page("security/login.html", {}, status, more)

    async def log_in(self, visit: Visit) -> Page | Response:
        target = _target(visit.form.get("next"))
        name = visit.form.get("user", "")
        if not visit.app.logins.has_users:
            raise HttpError(404, 404, "Password logins are disabled.")
        try:
            await visit.app.logins.check_password(name, visit.form.get("password", ""), visit.address)
        except HttpError as error:
            if error.status != 429:  # rejected attempts must not fill the log
                await visit.log("log in", name, f"failed: {error.message}")
            return self._page(visit, target, error.message, error.status)
        await visit.log("log in", name)
        session = visit.app.sessions.begin(name, "file")
        headers = {"Location": target, "Set-Cookie": visit.app.sessions.cookie(session)}
        return Response(303, b"", None, headers)

    async def by_link(self, visit: Visit) -> Page | Response:
        # A browser's prefetch of the link does not count.
        is_ahead = "prefetch" in visit.request.headers.get("sec-purpose", "")
        if is_ahead or not self._link.take(visit.query.get("token", "")):
            logger.warning("A client at %s used an invalid login link.", visit.address)
            problem = "This link was used already, or is too old: log in with a password, or start again."
            return self._page(visit, "/", problem, 403)
        name = self._link.user
        await visit.log("log in", name, "done: by the link of the start")
        cookie = visit.app.sessions.cookie(visit.app.sessions.begin(name, "file"))
        return Response(303, b"", None, {"Location": "/", "Set-Cookie": cookie})

    async def log_out(self, visit: Visit) -> Page | Response:
        headers = {"Location": "/login", "Set-Cookie": visit.app.sessions.drop_cookie(COOKIE)}
        return Response(303, b"", None, headers)

    # -- the provider --

    async def to_provider(self, visit: Visit) -> Page | Response:
        provider = self._required()
        attempt = Attempt.begin(_target(visit.query.get("next")))
        try:
            url = await asyncio.to_thread(provider.authorization_url, attempt, self._redirect_uri(visit))
        except LoginFailed as error:
            return self._page(visit, attempt.target, str(error), 502)
        cookie = visit.app.sessions.set_cookie(
            LOGIN_COOKIE, self._signer.sign("login", asdict(attempt)), _ATTEMPT_SECONDS
        )
        return Response(303, b"", None, {"Location": url, "Set-Cookie": cookie})

    async def from_provider(self, visit: Visit) -> Page | Response:
        provider = self._required()
        kept = self._signer.read(
            "login", cookies_of(visit.request.headers.get("cookie", "")).get(LOGIN_COOKIE)
        )
        if not isinstance(kept, dict) or kept.get("state") != visit.query.get("state", ""):
            return self._page(visit, "/", "This login was begun elsewhere, or too long ago: try again.", 400)
        attempt = Attempt(**kept)
        if "code" not in visit.query:
            reason = visit.query.get("error_description") or visit.query.get("error") or "no code"
            return self._page(visit, attempt.target, f"The provider refuses: {reason[:200]}.", 403)
        try:
            name, roles = await asyncio.to_thread(
                provider.exchange, visit.query["code"], attempt, self._redirect_uri(visit)
            )
        except LoginFailed as error:
            await visit.log("log in", "", f"failed: {error}")
            return self._page(visit, attempt.target, str(error), 403)
        session = visit.app.sessions.begin(name, "oidc", roles)
        if not visit.app.logins.user(session).roles:
            await visit.log("log in", name, "failed: no role")
            return self._page(visit, "/", f"'{name}' has no role here: ask for one of the console's.", 403)
        await visit.log("log in", name)
        headers = {"Location": attempt.target, "Set-Cookie": visit.app.sessions.cookie(session)}
        return Response(303, b"", None, headers)

    def _required(self) -> Provider:
        if self._provider is None:
            raise HttpError(404, 404, "There is no provider to log in with.")
        return self._provider

    def _redirect_uri(self, visit: Visit) -> str:
        if self._oidc is not None and self._oidc.redirect_uri is not None:
            return self._oidc.redirect_uri
        return f"{visit.app.scheme}://{visit.request.headers.get('host', '')}/login/callback"


def _target(path: str | None) -> str:
    """Return a local path only, so that a login link cannot redirect elsewhere."""
    if (
        path is None
        or not path.startswith("/")
        or path.startswith(("//", "/\\"))
        or "\n" in path
        or "\r" in path
    ):
        return "/"
    return path

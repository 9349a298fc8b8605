"""Dispatch requests to pages, after the checks common to all routes.

The checks cover the login, the user's rights, read-only mode, and the origin of forms. Response headers prevent
framing, sniffing and foreign scripts.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from ottla.client.errors import ClientError, Unreachable
from ottla.console.access.audit_log import AuditLog, CannotLog
from ottla.console.access.login import FLASH_COOKIE, Logins, Sessions, Signer, cookies_of
from ottla.console.access.roles import NOBODY, Kind, Level, User
from ottla.console.cluster.site import Site
from ottla.console.health.observer import Observer
from ottla.console.health.problem import badges
from ottla.console.services.remote import NotThere
from ottla.console.settings import Mask
from ottla.console.web.failures import failure_page
from ottla.console.web.rendering import Static, Templates, plain
from ottla.console.web.visit import Page, Visit
from ottla.http import Access, HttpError, Request, Response, Router, json_response
from ottla.http.messages import Body
from ottla.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

Handler = Callable[[Visit], Awaitable[Page | Response]]

HTML, JSON = "text/html", "application/json"
_ANY = (HTML, JSON, "text/event-stream", "text/csv", "application/octet-stream", "text/css",
        "text/javascript", "text/plain", "image/svg+xml")  # fmt: skip
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data", JSON)
CLUSTER = "/clusters/{cluster}"
_PARAMETERS = {"topic": "topic", "group": "group", "schema": "subject", "connector": "connector"}

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_STATUS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: 404,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: 403,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: 403,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: 403,
}


@dataclass(frozen=True, slots=True)
class Route:
    """A route. The `path` of a cluster page begins with CLUSTER. The level applies to the object named in the path.

    `of` is the kind of that object. If the path names none, the level is needed for any object of that kind, or for a
    page of None for anything at all. `everywhere` requires the level for the cluster as a whole. With `json`, a GET
    also answers JSON at the same path with `.json`. `changes` marks routes that change the cluster.
    """

    method: str
    path: str
    handler: Handler
    level: Level = Level.VIEWER
    of: Kind | None = "topic"
    everywhere: bool = False
    json: bool = True
    changes: bool = True  # for POST; a GET never does
    public: bool = False  # requires no login

    @property
    def access(self) -> Access:
        if self.of in ("connector", "sql"):
            return Access.ADMIN
        return Access.ANYONE if self.public else Access[self.level.name]


class App:
    def __init__(
        self,
        sites: Mapping[str, Site],
        sessions: Sessions,
        logins: Logins,
        audit: AuditLog,
        *,
        scheme: str = "http",
        signer: Signer,
        masks: Sequence[Mask] = (),
        observers: Mapping[str, Observer] | None = None,
    ) -> None:
        self.sites = sites
        self.observers = observers or {}
        self.sessions = sessions
        self.logins = logins
        self.audit = audit
        self.scheme = scheme
        self._signer = signer
        self._masks = masks
        self.static = Static()
        self.templates = Templates(self.static)
        self.router = Router(self._error, consumes=_FORMS, produces=_ANY)
        self.routes: list[Route] = []
        self._pages: dict[str, Route] = {}
        self.router.add("GET", "/static/{name}", self._static, access=Access.ANYONE)

    def add(self, routes: Iterable[Route]) -> None:
        for route in routes:
            self.routes.append(route)
            if route.method == "GET":
                self._pages[route.path] = route
            page, data = self._answering(route, json=False), self._answering(route, json=True)
            self.router.add(route.method, route.path, page, access=route.access)
            if route.method == "GET" and route.json:
                self.router.add("GET", f"{route.path}.json", data, access=route.access)

    # -- requests --

    def _answering(self, route: Route, *, json: bool) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            session = self.logins.stranger(request) if route.public else await self.logins.session(request)
            if session is None:
                return self._to_login(request, json)
            site = self._site(request)
            user = NOBODY if route.public else self.logins.user(session)
            if site is not None:
                user = replace(user, connect_configs=site.settings.connect_configs)
            visit = Visit(self, request, user, session, site, wants_json=json)
            try:
                return self._response(visit, await self._run(visit, route))
            except HttpError as error:
                if json or not _wants_page(request):
                    raise
                return await failure_page(self, visit, route, error)

        return answer

    async def _run(self, visit: Visit, route: Route) -> Page | Response:
        """Raises HttpError."""
        if not route.public:
            self._check_rights(visit, route)
        if visit.request.method == "POST":
            await visit.read_form()
            self._check_origin(visit)
            await self._check_audit(visit, route)
        try:
            return await route.handler(visit)
        except ClientError as error:
            raise of_client(error) from None
        except KafkaError as error:  # damaged records, detected by clients on reading
            raise HttpError(502, 502, f"Records of the cluster cannot be read: {error}.") from None

    async def page_at(self, visit: Visit, target: str) -> tuple[Page, Visit] | None:
        """Return a page of the same visitor, for showing a form again. Raises HttpError and ClientError."""
        request = Request(
            "GET", target, dict(visit.request.headers), visit.request.content, peer=visit.request.peer
        )
        self.router.find(request)
        route = self._pages.get(request.route)
        if route is None or route.public:
            return None
        site = self._site(request)
        there = Visit(self, request, visit.user, visit.session, site)
        self._check_rights(there, route)
        result = await route.handler(there)
        return (result, there) if isinstance(result, Page) else None

    # Requests of an assistant, which come over no HTTP connection

    async def data_at(self, user: User, target: str) -> Any:
        """Return the JSON of a page, with the rights of a user. Raises HttpError."""
        visit, route = self._inner("GET", target, user)
        result = await self._run(visit, route)
        if not isinstance(result, Page):
            raise HttpError(400, 400, "This page has no JSON.")
        if result.status >= 400:
            raise HttpError(result.status, result.status, str(result.more.get("problem") or "This failed."))
        return plain(result.data)

    async def submitted(self, user: User, target: str, fields: list[tuple[str, str]]) -> Any:
        """Submit a form with the rights of a user. Raises HttpError."""
        visit, route = self._inner("POST", target, user)
        visit.fields = fields
        self._check_rights(visit, route)
        await self._check_audit(visit, route)
        try:
            result = await route.handler(visit)
        except ClientError as error:
            raise of_client(error) from None
        if isinstance(result, Page):
            raise HttpError(400, 400, str(result.more.get("problem") or "Nothing was changed."))
        return {"done": True, "page": dict(result.headers or {}).get("Location", "")}

    def _inner(self, method: str, target: str, user: User) -> tuple[Visit, Route]:
        request = Request(method, target, {}, Body(None), peer="mcp:0")
        self.router.find(request)
        route = next(each for each in self.routes if (each.method, each.path) == (method, request.route))
        site = self._site(request)
        if site is not None:
            user = replace(user, connect_configs=site.settings.connect_configs)
        session = self.sessions.begin(user.name, "mcp")
        return Visit(self, request, user, session, site, wants_json=True), route

    def _site(self, request: Request) -> Site | None:
        name = request.params.get("cluster")
        if name is None:
            return None
        if name not in self.sites:
            raise HttpError(404, 404, f"There is no cluster '{name}'.")
        return self.sites[name]

    def _check_rights(self, visit: Visit, route: Route) -> None:
        if route.everywhere:
            visit.require(route.level)
        elif route.of is not None:
            visit.require_of(route.of, route.level, visit.params.get(_PARAMETERS.get(route.of, "")))
        elif not visit.user.may_anything(route.level):
            raise HttpError(403, 403, f"This needs the role {route.level.name.lower()}.")
        if route.method == "POST" and route.changes and visit.in_cluster and visit.site.read_only:
            raise HttpError(403, 403, "The console is read-only: nothing can be changed through it.")

    def _check_origin(self, visit: Visit) -> None:
        """Check the form token. Other sites can make a browser send the cookie, but cannot read the token."""
        headers = visit.request.headers
        if visit.session.source == "header":
            return  # browsers never send this header by themselves
        token = visit.form.get("csrf") or headers.get("x-csrf-token")
        if not self.sessions.is_csrf_token(visit.session, token):
            raise HttpError(403, 403, "The form is too old, or came from another site: load the page again.")

    async def _check_audit(self, visit: Visit, route: Route) -> None:
        if not route.changes or not visit.in_cluster:
            return
        try:
            await self.audit.ensure_room()
        except CannotLog as error:
            raise HttpError(503, 503, str(error)) from None

    def _to_login(self, request: Request, json: bool) -> Response:
        if request.method != "GET" or json or not _wants_page(request):
            raise HttpError(401, 401, "Log in first.")
        target = request.path + (f"?{request.query_string}" if request.query_string else "")
        return Response(
            303, b"", None, {**SECURITY_HEADERS, "Location": f"/login?next={quote(target, safe='')}"}
        )

    # -- responses --

    def _response(self, visit: Visit, result: Page | Response) -> Response:
        headers = dict(SECURITY_HEADERS)
        if isinstance(result, Response):
            headers |= dict(result.headers or {})
            result.headers = headers
            return result
        if visit.wants_json:
            return json_response(plain(result.data), result.status, headers=headers)
        return self.rendered(visit, result)

    def rendered(self, visit: Visit, result: Page, failure: str | None = None) -> Response:
        """Render a page. `failure` is why the form on it was refused."""
        headers = dict(SECURITY_HEADERS)
        flash = self.sessions.read_flash(cookies_of(visit.request.headers.get("cookie", "")))
        body = self.templates.render(
            result.template, {**self._values(visit, result, flash), "failure": failure}
        )
        if visit.session.source == "none" and self.logins.is_new(visit.request):
            headers["Set-Cookie"] = self.sessions.cookie(visit.session)
        elif flash is not None:
            headers["Set-Cookie"] = self.sessions.drop_cookie(FLASH_COOKIE)
        return Response(result.status, body, "text/html; charset=utf-8", headers)

    def _values(self, visit: Visit, page: Page, flash: str | None) -> dict[str, Any]:
        return {
            **page.data,
            **page.more,
            "visit": visit,
            "csrf": self.sessions.csrf_token(visit.session),
            "flash": flash,
            "sites": self.sites,
            "asks_for_login": self.logins.asks and bool(visit.user.name),
            "badges": badges(visit.known_problems()),
        }

    def fragment(self, visit: Visit, template: str, values: Mapping[str, Any]) -> str:
        shared = {"visit": visit, "csrf": self.sessions.csrf_token(visit.session)}
        return self.templates.fragment(template, {**shared, **values})

    def hides_messages(self, user: User) -> bool:
        """Return True if fields of some topic are masked for a user. Admins could read them elsewhere anyway."""
        roles = {role.name for role in user.roles}
        masked = any(not roles & mask.except_roles for mask in self._masks)
        return masked and not user.may_everywhere(Level.ADMIN)

    # Signed links with data from the console's own forms.

    def signed_link(self, visit: Visit, purpose: str, text: str) -> str:
        return self._signer.sign(f"link-{purpose}", [visit.session.nonce, text])

    def signature(self, visit: Visit, purpose: str, text: str) -> str:
        """Return a signature that reveals nothing about the text."""
        return self._signer.mac(f"same-{purpose}", f"{visit.user.name}:{text}")

    def read_signed_link(self, visit: Visit, purpose: str, signed: str | None) -> str | None:
        found = self._signer.read(f"link-{purpose}", signed)
        return str(found[1]) if isinstance(found, list) and found[0] == visit.session.nonce else None

    def _static(self, request: Request) -> Response:
        found = self.static.files.get(request.params["name"])
        if found is None:
            raise HttpError(404, 404, "HTTP 404 Not Found")
        kind, data, _ = found
        lasting = "public, max-age=31536000, immutable" if "v" in request.query else "no-cache"
        return Response(200, data, kind, {**SECURITY_HEADERS, "Cache-Control": lasting})

    def _error(self, error: HttpError, request: Request | None) -> Response:
        headers = {**SECURITY_HEADERS, **error.headers}
        if request is None or not _wants_page(request) or request.path.endswith(".json"):
            return json_response(
                {"error_code": error.error_code, "message": error.message}, error.status, headers=headers
            )
        values = {"status": error.status, "message": error.message}
        body = self.templates.render("error.html", values)
        return Response(error.status, body, "text/html; charset=utf-8", headers)


def _wants_page(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "")


def of_client(error: ClientError) -> HttpError:
    if isinstance(error, Unreachable):
        return HttpError(502, 502, error.message)
    if isinstance(error, NotThere):
        return HttpError(404, 404, error.message)
    status = _STATUS.get(error.code, 400) if error.code is not None else 400
    return HttpError(status, status, error.message)

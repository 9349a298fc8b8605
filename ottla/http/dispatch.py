"""Turn a request into a response: run the common checks, call the handler, and convert errors.

The checks run in this order: foreign web pages (`cross_site`), login, the route's access level (`access`), and the
content types of request and response.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from ottla.http.access import Access
from ottla.http.authentication import Authenticate
from ottla.http.cross_site import CrossSite
from ottla.http.messages import ClientDisconnected, HttpError, Request, Response
from ottla.http.metrics import HttpMetrics
from ottla.http.router import Route, Router, WebSocketRoute
from ottla.security.principal import KafkaPrincipal

logger = logging.getLogger("ottla.http")


#: Adds headers to a response, or replaces it. Called for all responses, including refusals.
Decorate = Callable[[Request, Response], Response]


_NEEDS = {
    Access.USER: "a user",
    Access.VIEWER: "a viewer",
    Access.OPERATOR: "an operator",
    Access.ADMIN: "an admin",
}


class Dispatcher:
    def __init__(
        self,
        router: Router,
        authenticate: Authenticate | None,
        decorate: Decorate | None = None,
        metrics: HttpMetrics | None = None,
        cross_site: CrossSite | None = None,
    ) -> None:
        self._router = router
        self._cross_site = cross_site
        self._authenticate = authenticate
        self._decorate = decorate
        self._metrics = metrics

    def respond(self, request: Request) -> Response | Coroutine[Any, Any, Response]:
        """Return a response directly if nothing has to be awaited."""
        result = self._respond(request)
        if self._decorate is not None:
            if isinstance(result, Response):
                result = self._decorate(request, result)
            else:
                result = self._decorated(request, result, self._decorate)
        return result if self._metrics is None else self._metrics.observe(request, result)

    async def _decorated(
        self, request: Request, result: Coroutine[Any, Any, Response], decorate: Decorate
    ) -> Response:
        return decorate(request, await result)

    def _respond(self, request: Request) -> Response | Coroutine[Any, Any, Response]:
        try:
            if self._cross_site is not None:
                self._cross_site.check(request)
            route = self._find(request)
            if self._authenticate is not None and _needs_login(route):
                principal = self._authenticate(request)
                if not isinstance(principal, KafkaPrincipal):
                    return self._after_authentication(request, principal, route)
                request.principal = principal
            result = self._handle(request, route)
        except Exception as error:
            return self.error(error, request)
        if isinstance(result, Response):
            return result
        return self._finished(request, result)

    def _find(self, request: Request) -> Route | HttpError | None:
        """Return a refusal if no route matches, for authenticated callers only. None for OPTIONS."""
        if request.method == "OPTIONS":
            return None
        try:
            return self._router.find(request)
        except HttpError as refusal:
            return refusal

    def _handle(self, request: Request, route: Route | HttpError | None) -> Response | Awaitable[Response]:
        if route is None:
            return Response(200, b"", None, {"Allow": self._router.allowed(request)})
        if isinstance(route, HttpError):
            raise route
        if request.access < route.access:
            raise _not_permitted(request, route.access)
        self._router.negotiate(request, route)
        return route.handler(request)

    async def _after_authentication(
        self, request: Request, principal: Awaitable[KafkaPrincipal], route: Route | HttpError | None
    ) -> Response:
        try:
            request.principal = await principal
            result = self._handle(request, route)
            return result if isinstance(result, Response) else await result
        except Exception as error:
            return self.error(error, request)

    def websocket(self, request: Request) -> WebSocketRoute | Awaitable[WebSocketRoute]:
        """Return the route for the connection, directly if the login does not wait. Raises HttpError."""
        if self._cross_site is not None:
            self._cross_site.check(request)
        try:
            route: WebSocketRoute | HttpError = self._router.find_websocket(request)
        except HttpError as refusal:
            route = refusal
        if self._authenticate is not None and _needs_login(route):
            principal = self._authenticate(request)
            if not isinstance(principal, KafkaPrincipal):
                return self._websocket_after_authentication(request, principal, route)
            request.principal = principal
        return _permitted(request, route)

    async def _websocket_after_authentication(
        self, request: Request, principal: Awaitable[KafkaPrincipal], route: WebSocketRoute | HttpError
    ) -> WebSocketRoute:
        request.principal = await principal
        return _permitted(request, route)

    async def _finished(self, request: Request, result: Awaitable[Response]) -> Response:
        try:
            return await result
        except Exception as error:
            return self.error(error, request)

    def error(self, error: Exception, request: Request | None) -> Response:
        """Raises ClientDisconnected, because there is no client to answer."""
        if isinstance(error, ClientDisconnected):
            raise error
        if not isinstance(error, HttpError):
            log_failure(request, error)
            error = HttpError(500, 500, "Internal Server Error")
        return self._router.render_error(error, request)


def _needs_login(route: Route | WebSocketRoute | HttpError | None) -> bool:
    return not isinstance(route, Route | WebSocketRoute) or route.access > Access.ANYONE


def _permitted(request: Request, route: WebSocketRoute | HttpError) -> WebSocketRoute:
    if isinstance(route, HttpError):
        raise route
    if request.access < route.access:
        raise _not_permitted(request, route.access)
    return route


def _not_permitted(request: Request, needed: Access) -> HttpError:
    return HttpError(
        403, 403, f"{request.principal} may not do this: it needs the rights of {_NEEDS[needed]}."
    )


def log_failure(request: Request | None, error: BaseException) -> None:
    """Log one line for the operator; the stack trace only at debug level."""
    what = "A request" if request is None else f"{request.method} {request.path} from {request.peer}"
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    logger.error("%s failed: %s", what, reason, exc_info=logger.isEnabledFor(logging.DEBUG))

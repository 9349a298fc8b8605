"""From a request to its response: who asks, which handler, and what becomes of errors."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from ottla.http.authentication import Authenticate
from ottla.http.errors import ClientDisconnected, HttpError
from ottla.http.messages import Request, Response
from ottla.http.metrics import HttpMetrics
from ottla.http.router import Router, WebSocketHandler
from ottla.security.principal import KafkaPrincipal

logger = logging.getLogger("ottla.http")


#: Adds headers to a response, or replaces it; whatever has answered, also a refusal.
Decorate = Callable[[Request, Response], Response]


class Dispatcher:
    def __init__(
        self,
        router: Router,
        authenticate: Authenticate | None,
        decorate: Decorate | None = None,
        metrics: HttpMetrics | None = None,
    ) -> None:
        self._router = router
        self._authenticate = authenticate
        self._decorate = decorate
        self._metrics = metrics

    def respond(self, request: Request) -> Response | Coroutine[Any, Any, Response]:
        """A response at once where nothing has to be awaited for it."""
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
            if self._authenticate is not None:
                principal = self._authenticate(request)
                if not isinstance(principal, KafkaPrincipal):
                    return self._after_authentication(request, principal)
                request.principal = principal
            result = self._handle(request)
        except Exception as error:
            return self.error(error, request)
        if isinstance(result, Response):
            return result
        return self._finished(request, result)

    def websocket(self, request: Request) -> WebSocketHandler | None:
        """Raises HttpError."""
        if self._authenticate is not None:
            principal = self._authenticate(request)
            if not isinstance(principal, KafkaPrincipal):
                raise HttpError(501, 501, "This way to authenticate does not work with WebSockets.")
            request.principal = principal
        route = self._router.match_websocket(request)
        return None if route is None else route.handler

    def _handle(self, request: Request) -> Response | Awaitable[Response]:
        if request.method == "OPTIONS":
            return Response(200, b"", None, {"Allow": self._router.allowed(request)})
        return self._router.match(request).handler(request)

    async def _after_authentication(self, request: Request, principal: Awaitable[KafkaPrincipal]) -> Response:
        try:
            request.principal = await principal
            result = self._handle(request)
            return result if isinstance(result, Response) else await result
        except Exception as error:
            return self.error(error, request)

    async def _finished(self, request: Request, result: Awaitable[Response]) -> Response:
        try:
            return await result
        except Exception as error:
            return self.error(error, request)

    def error(self, error: Exception, request: Request | None) -> Response:
        """Raises ClientDisconnected, which nobody can be told."""
        if isinstance(error, ClientDisconnected):
            raise error
        if not isinstance(error, HttpError):
            log_failure(request, error)
            error = HttpError(500, 500, "Internal Server Error")
        return self._router.render_error(error, request)


def log_failure(request: Request | None, error: BaseException) -> None:
    """One line for the operator; the stack only for whoever wants to debug it."""
    what = "A request" if request is None else f"{request.method} {request.path} from {request.peer}"
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    logger.error("%s failed: %s", what, reason, exc_info=logger.isEnabledFor(logging.DEBUG))

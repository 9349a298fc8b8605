"""HTTP server metrics: requests by route and status, durations, and open streams."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator
from time import monotonic
from typing import Any

from ottla.http.access import Access
from ottla.http.messages import Request, Response
from ottla.http.router import RouteDoc, Router
from ottla.monitoring.metrics.text import (
    CONTENT_TYPE,
    Histogram,
    family,
    gauge,
    labels,
    process_metrics,
    summary,
)

# Quantiles cover the last 2.5 to 5 minutes.
_ROTATE_SECONDS = 150.0
_NO_ROUTE = "none"


class HttpMetrics:
    """`server` is a name such as "registry". Routes appear as patterns, so that names in paths create no new series.

    Owner: the event loop.
    """

    def __init__(self, server: str, more: Callable[[], Awaitable[list[str]]] | None = None) -> None:
        self._server = server
        self._more = more
        self._counts: dict[tuple[str, str, int], int] = {}
        self._times: dict[tuple[str, str], Histogram] = {}
        self._streams = 0
        self._rotated = monotonic()

    def add_to(self, router: Router) -> None:
        doc = RouteDoc("Metrics of this server, for Prometheus")
        router.add(
            "GET", "/metrics", self._show, access=Access.USER, consumes=(), produces=("text/plain",), doc=doc
        )

    def observe(
        self, request: Request, result: Response | Coroutine[Any, Any, Response]
    ) -> Response | Coroutine[Any, Any, Response]:
        """Return the same response, and count it once complete. A stream counts as open until it ends."""
        began = monotonic()
        if isinstance(result, Response):
            self._count(request, result, began)
            return result
        return self._observed(request, result, began)

    async def _observed(
        self, request: Request, result: Coroutine[Any, Any, Response], began: float
    ) -> Response:
        response = await result
        self._count(request, response, began)
        return response

    def _count(self, request: Request, response: Response, began: float) -> None:
        now = monotonic()
        method = request.method if request.route else _NO_ROUTE  # the client may send any method
        key = (method, request.route or _NO_ROUTE, response.status)
        self._counts[key] = self._counts.get(key, 0) + 1
        times = self._times.get(key[:2])
        if times is None:
            times = self._times[key[:2]] = Histogram()
        times.add(int((now - began) * 1e6))
        if now - self._rotated > _ROTATE_SECONDS:
            self._rotated = now
            for each in self._times.values():
                each.rotate()
        if not isinstance(response.body, bytes):
            self._streams += 1
            response.on_close = self._closing(response.on_close)

    def _closing(self, before: Callable[[], None] | None) -> Callable[[], None]:
        def close() -> None:
            self._streams -= 1
            if before is not None:
                before()

        return close

    async def _show(self, request: Request) -> Response:
        more = [] if self._more is None else await self._more()
        text = "".join([*self._lines(), *more, *process_metrics()])
        return Response(200, text.encode(), CONTENT_TYPE)

    def _lines(self) -> Iterator[str]:
        server = self._server
        yield from family(
            "ottla_http_requests_total",
            "counter",
            "Requests, by route and status.",
            (
                (labels(server=server, method=method, route=route, status=status), count)
                for (method, route, status), count in sorted(self._counts.items())
            ),
        )
        yield from summary(
            "ottla_http_request_seconds",
            "From a request to its response, or to the beginning of one that is a stream.",
            {
                labels(server=server, method=method, route=route): times
                for (method, route), times in sorted(self._times.items())
            },
            scale=1e-6,
        )
        yield gauge(
            "ottla_http_streams", "Responses that are being streamed.", self._streams, labels(server=server)
        )

"""HTTP for Ottla's own servers: HTTP/1.1, HTTP/2 and WebSockets on asyncio, without a framework.

    router = Router()

    async def greet(request: Request) -> Response:
        return json_response({"hello": request.params["name"]})

    router.add("GET", "/greetings/{name}", greet, access=Access.ANYONE)
    server = HttpServer(router, "127.0.0.1", 8081)
    await server.start()

A handler is `async def`, or a plain `def` if it never waits, which saves a task per request.
"""

from ottla.http.access import Access
from ottla.http.authentication import BasicAuthentication, read_password_file
from ottla.http.messages import ClientDisconnected, HttpError, Limits, Request, Response, json_response
from ottla.http.router import Parameter, RouteDoc, Router
from ottla.http.server import HttpServer
from ottla.http.websocket import WebSocket

__all__ = [
    "Access",
    "BasicAuthentication",
    "ClientDisconnected",
    "HttpError",
    "HttpServer",
    "Limits",
    "Parameter",
    "Request",
    "Response",
    "RouteDoc",
    "Router",
    "WebSocket",
    "json_response",
    "read_password_file",
]

"""Finding the handler of a request, and the OpenAPI document of all routes."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.http.access import Access
from ottla.http.messages import JSON, HttpError, Request, Response, best, json_response, percent_decoded

if TYPE_CHECKING:
    from ottla.http.websocket import WebSocket

# An OpenAPI document generated from the routes.

_PARAM = re.compile(r"\{([^}]*)\}")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter, or a remark on a path parameter."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    required: bool = False


@dataclass(frozen=True, slots=True)
class RouteDoc:
    summary: str
    description: str = ""
    tags: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    request: Mapping[str, Any] | None = None  # JSON Schema of the body
    response: Mapping[str, Any] | None = None  # JSON Schema of a 200 response
    errors: Mapping[int, str] = field(default_factory=dict)
    operation_id: str = ""


def document(
    title: str, version: str, routes: Iterable[Route], schemas: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.pattern, {})[route.method.lower()] = _operation(route)
    made: dict[str, Any] = {
        "openapi": "3.0.3",
        "info": {"title": title, "version": version},
        "paths": paths,
    }
    if schemas:
        made["components"] = {"schemas": dict(schemas)}
    return made


def _operation(route: Route) -> dict[str, Any]:
    doc = route.doc or RouteDoc("")
    in_path = _PARAM.findall(route.pattern)
    described = {parameter.name: parameter for parameter in doc.parameters}
    parameters = [_parameter(described.get(name, Parameter(name)), "path", True) for name in in_path]
    parameters += [
        _parameter(each, "query", each.required) for each in doc.parameters if each.name not in in_path
    ]
    responses: dict[str, Any] = {"200": {"description": "Done."}}
    if doc.response is not None:
        responses["200"]["content"] = {kind: {"schema": dict(doc.response)} for kind in route.produces}
    for status, reason in sorted(doc.errors.items()):
        responses[str(status)] = {"description": reason}
    operation: dict[str, Any] = {
        "operationId": doc.operation_id or _operation_id(route),
        "responses": responses,
    }
    if doc.summary:
        operation["summary"] = doc.summary
    if doc.description:
        operation["description"] = doc.description
    if doc.tags:
        operation["tags"] = list(doc.tags)
    if parameters:
        operation["parameters"] = parameters
    if doc.request is not None:
        kinds = route.consumes or ("application/json",)
        operation["requestBody"] = {
            "required": True,
            "content": {kind: {"schema": dict(doc.request)} for kind in kinds},
        }
    return operation


def _operation_id(route: Route) -> str:
    words = re.findall(r"[A-Za-z0-9]+", route.pattern)
    return route.method.lower() + "".join(word[:1].upper() + word[1:] for word in words)


def _parameter(parameter: Parameter, place: str, required: bool) -> dict[str, Any]:
    made = {
        "name": parameter.name,
        "in": place,
        "required": required,
        "schema": dict(parameter.schema),
    }
    if parameter.description:
        made["description"] = parameter.description
    return made


# Find the handler of a request in a tree of path parts, and refuse requests without one.

Handler = Callable[[Request], Response | Awaitable[Response]]
WebSocketHandler = Callable[["WebSocket"], Awaitable[None]]
ErrorRenderer = Callable[[HttpError, Request | None], Response]

#: For routes that accept any content type.
ANY_BODY = ("*/*",)
#: Also accept bodies without a Content-Type, as known clients send them. Foreign pages can send such bodies as well,
#: but their browsers identify the page in `Origin`.
UNTYPED = ""


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    pattern: str
    handler: Handler
    doc: RouteDoc | None
    consumes: tuple[str, ...]
    produces: tuple[str, ...]
    names: tuple[str, ...]  # parameter names in path order
    access: Access


@dataclass(frozen=True, slots=True)
class WebSocketRoute:
    pattern: str
    handler: WebSocketHandler
    names: tuple[str, ...]
    access: Access


class _Node:
    __slots__ = ("methods", "param", "parts", "websocket")

    def __init__(self) -> None:
        self.parts: dict[str, _Node] = {}
        self.param: _Node | None = None
        self.methods: dict[str, Route] = {}
        self.websocket: WebSocketRoute | None = None


def render_error(error: HttpError, request: Request | None) -> Response:
    return json_response(
        {"error_code": error.error_code, "message": error.message}, error.status, headers=error.headers
    )


class Router:
    """`consumes` and `produces` apply to routes without their own.

    Every body needs a Content-Type that the route consumes. HTML forms and scripts of foreign pages can send only
    text/plain and form types, so a route should consume those only if it checks the origin of a form.
    """

    def __init__(
        self,
        error: ErrorRenderer = render_error,
        *,
        consumes: Sequence[str] = (JSON,),
        produces: Sequence[str] = (JSON,),
    ) -> None:
        self.render_error = error
        self._consumes = tuple(consumes)
        self._produces = tuple(produces)
        self._root = _Node()
        self._routes: list[Route] = []
        self._websockets: list[WebSocketRoute] = []
        # Paths without parameters make up most requests to most servers.
        self._static: dict[str, _Node] = {}

    @property
    def routes(self) -> Sequence[Route]:
        return self._routes

    @property
    def websockets(self) -> Sequence[WebSocketRoute]:
        return self._websockets

    def add(
        self,
        method: str,
        pattern: str,
        handler: Handler,
        *,
        access: Access,
        doc: RouteDoc | None = None,
        consumes: Sequence[str] | None = None,
        produces: Sequence[str] | None = None,
    ) -> None:
        """Add a route such as `/subjects/{subject}/versions`. A name in braces matches one part, including encoded
        slashes.
        """
        node, names = self._node(pattern)
        if method in node.methods:
            raise ValueError(f"{method} {pattern} has a handler already.")
        route = Route(
            method,
            pattern,
            handler,
            doc,
            (self._consumes if consumes is None else tuple(consumes)) or (JSON,),
            (self._produces if produces is None else tuple(produces)) or (JSON,),
            names,
            access,
        )
        node.methods[method] = route
        self._routes.append(route)

    def websocket(self, pattern: str, handler: WebSocketHandler, *, access: Access) -> None:
        node, names = self._node(pattern)
        node.websocket = WebSocketRoute(pattern, handler, names, access)
        self._websockets.append(node.websocket)

    def openapi(
        self, title: str, version: str = "1", schemas: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        return document(title, version, self._routes, schemas)

    def _node(self, pattern: str) -> tuple[_Node, tuple[str, ...]]:
        if not pattern.startswith("/"):
            raise ValueError(f"The path {pattern} does not begin with a slash.")
        node = self._root
        names: list[str] = []
        parts = pattern.strip("/").split("/") if pattern != "/" else []
        for part in parts:
            if part.startswith("{") and part.endswith("}"):
                names.append(part[1:-1])
                node.param = node.param or _Node()
                node = node.param
            else:
                node = node.parts.setdefault(part, _Node())
        if not names:
            self._static[pattern] = node
        return node, tuple(names)

    # -- requests --

    def find(self, request: Request) -> Route:
        """Set the request's parameters and return its route. Raises HttpError 404 or 405."""
        node, values = self._find(request.path)
        method = request.method
        route = node.methods.get(method)
        if route is None:
            if method == "HEAD" and "GET" in node.methods:
                route = node.methods["GET"]
            else:
                raise self._not_allowed(node)
        request.route = route.pattern
        if values:
            request.params = dict(zip(route.names, values, strict=True))
        return route

    def negotiate(self, request: Request, route: Route) -> None:
        """Set the response's content type. Raises HttpError 406 or 415."""
        headers = request.headers
        if not request.content.empty and route.consumes != ANY_BODY:
            _check_content_type(request, route)
        accept = headers.get("accept")
        if accept is None or accept == "*/*":
            request.produces = route.produces[0]
        else:
            produces = best(accept, route.produces)
            if produces is None:
                raise HttpError(406, 406, f"HTTP 406 Not Acceptable: there is {', '.join(route.produces)}.")
            request.produces = produces

    def find_websocket(self, request: Request) -> WebSocketRoute:
        """Set the request's parameters and return its route. Raises HttpError 404."""
        node, values = self._find(request.path)
        route = node.websocket
        if route is None:
            raise HttpError(404, 404, "There is no WebSocket at this path.")
        request.params = dict(zip(route.names, values, strict=True))
        return route

    def allowed(self, request: Request) -> str:
        """Return the methods of a path, for OPTIONS. Raises HttpError 404."""
        return self._allow(self._find(request.path)[0])

    def _find(self, path: str) -> tuple[_Node, Sequence[str]]:
        node = self._static.get(path)
        if node is not None:
            return node, ()
        if not path.startswith("/"):
            raise _not_found()
        parts = path[1:].split("/")
        if parts[-1] == "":  # ignore a trailing slash
            parts.pop()
        found = self._descend(self._root, parts, 0, [])
        if found is None:
            raise _not_found()
        return found

    def _descend(
        self, node: _Node, parts: list[str], position: int, values: list[str]
    ) -> tuple[_Node, list[str]] | None:
        """Match literal parts first, and fall back to a parameter if they lead nowhere."""
        if position == len(parts):
            return (node, values) if node.methods or node.websocket else None
        part = parts[position]
        child = node.parts.get(part)
        if child is None and "%" in part:
            child = node.parts.get(percent_decoded(part))
        if child is not None:
            found = self._descend(child, parts, position + 1, values)
            if found is not None:
                return found
        if node.param is None or part == "":
            return None
        return self._descend(node.param, parts, position + 1, [*values, percent_decoded(part)])

    def _not_allowed(self, node: _Node) -> HttpError:
        return HttpError(405, 405, "HTTP 405 Method Not Allowed", {"Allow": self._allow(node)})

    def _allow(self, node: _Node) -> str:
        methods = set(node.methods) | {"OPTIONS"}
        if "GET" in methods:
            methods.add("HEAD")
        return ", ".join(sorted(methods))


def _not_found() -> HttpError:
    return HttpError(404, 404, "HTTP 404 Not Found")


def _check_content_type(request: Request, route: Route) -> None:
    given = request.content_type
    if any(given == each.partition(";")[0].strip() for each in route.consumes):
        return
    known = " or ".join(each for each in route.consumes if each != UNTYPED)
    raise HttpError(
        415,
        415,
        f"HTTP 415 Unsupported Media Type: {given or 'none'}. Send the header Content-Type: {known}.",
    )

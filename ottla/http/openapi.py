"""An OpenAPI document generated from the routes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.http.router import Route

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

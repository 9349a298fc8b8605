"""Validation of JSON request bodies."""

from __future__ import annotations

from typing import Any

from ottla.http import Request
from ottla.rest.errors import bad_request, unprocessable

MISSING = object()


async def json_object(request: Request) -> dict[str, Any]:
    given = await request.json()
    if not isinstance(given, dict):
        raise unprocessable("The body must be a JSON object.")
    return given


def items(given: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a required list of objects."""
    found = given.get(name)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise unprocessable(f"{name} must be a list of objects.")
    return found


def text(given: dict[str, Any], name: str, default: Any = MISSING) -> Any:
    found = given.get(name, default)
    if found is MISSING:
        raise unprocessable(f"{name} is missing.")
    if found is not default and not isinstance(found, str):
        raise unprocessable(f"{name} must be a text, not {found!r}.")
    return found


def number(given: dict[str, Any], name: str, default: Any = MISSING) -> Any:
    found = given.get(name, default)
    if found is MISSING:
        raise unprocessable(f"{name} is missing.")
    if found is not default and (not isinstance(found, int) or isinstance(found, bool)):
        raise unprocessable(f"{name} must be a number, not {found!r}.")
    return found


def path_number(request: Request, name: str) -> int:
    given = request.params[name]
    if not given.isdigit():
        raise bad_request(f"{name} must be a number, not {given}.")
    return int(given)


def query_number(request: Request, name: str) -> int | None:
    given = request.query.get(name)
    if given is None:
        return None
    if not given.lstrip("-").isdigit():
        raise bad_request(f"{name} must be a number, not {given}.")
    return int(given)

"""Validation of JSON request bodies."""

from __future__ import annotations

from typing import Any

from ottla.http import Request
from ottla.rest.errors import INVALID_PAYLOAD, bad_request, unprocessable

MISSING = object()


async def json_object(request: Request, *fields: str) -> dict[str, Any]:
    """Return the body. Raises HttpError if it has other fields than these: a typo must not be dropped silently."""
    given = await request.json()
    if given is None:
        raise unprocessable("Payload error. Null input provided. Data is required.", INVALID_PAYLOAD)
    if not isinstance(given, dict):
        raise bad_request("The body must be a JSON object.")
    check_fields(given, fields)
    return given


def items(given: dict[str, Any], name: str, *fields: str) -> list[dict[str, Any]]:
    """Return a required list of objects with these fields."""
    found = given.get(name)
    if found is None:
        raise unprocessable(f"{name} is missing.")
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise bad_request(f"{name} must be a list of objects.")
    for each in found:
        check_fields(each, fields)
    return found


def check_fields(given: dict[str, Any], fields: tuple[str, ...]) -> None:
    for name in given:
        if name not in fields:
            raise unprocessable(f"Unrecognized field: {name}")


def optional_items(given: dict[str, Any], name: str, *fields: str) -> list[dict[str, Any]]:
    return [] if given.get(name) is None else items(given, name, *fields)


def flag(given: dict[str, Any], name: str) -> bool:
    found = given.get(name)
    if found is not None and not isinstance(found, bool):
        raise bad_request(f"{name} must be true or false, not {found!r}.")
    return found is True


def text(given: dict[str, Any], name: str, default: Any = MISSING) -> Any:
    found = given.get(name, default)
    if found is MISSING:
        raise unprocessable(f"{name} is missing.")
    if found is not default and not isinstance(found, str):
        raise bad_request(f"{name} must be a text, not {found!r}.")
    return found


def number(given: dict[str, Any], name: str, default: Any = MISSING) -> Any:
    found = given.get(name, default)
    if found is MISSING:
        raise unprocessable(f"{name} is missing.")
    # Confluent's proxy takes numbers in quotes as well.
    if isinstance(found, str) and found.removeprefix("-").isdecimal():
        return int(found)
    if found is not default and (not isinstance(found, int) or isinstance(found, bool)):
        raise bad_request(f"{name} must be a number, not {found!r}.")
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

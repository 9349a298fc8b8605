"""Parses requests and converts errors to responses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ottla.connect.worker import errors
from ottla.connect.worker.config_state import TargetState
from ottla.connect.worker.errors import RequestError
from ottla.http import HttpError, Request

Json = dict[str, Any]

_INITIAL = {"RUNNING": TargetState.STARTED, "PAUSED": TargetState.PAUSED, "STOPPED": TargetState.STOPPED}


def flag(request: Request, name: str, *, default: bool = False) -> bool:
    value = request.query.get(name)
    return default if value is None else value.strip().lower() == "true"


def task_number(request: Request) -> int:
    text = request.params["task"]
    if not (text.isascii() and text.isdecimal()):
        raise HttpError(404, 404, "HTTP 404 Not Found")
    return int(text)


def read_json(body: bytes) -> Any:
    if not body.strip():
        raise errors.bad_request("The request has no body: it must be JSON.")
    try:
        return json.loads(body)
    except RecursionError:
        raise errors.bad_request("The JSON of the request is nested too deeply.") from None
    except ValueError as error:
        raise errors.bad_request(f"The request is not JSON: {error}.") from None


def read_object(body: bytes) -> Json:
    value = read_json(body)
    if not isinstance(value, dict):
        raise errors.bad_request("The request must be a JSON object.")
    return value


def read_patch(value: Any) -> dict[str, str | None]:
    """Read a config with nullable values. Numbers and booleans become text, as in Kafka's worker."""
    if not isinstance(value, dict):
        raise errors.bad_request("A config must be a JSON object of settings.")
    return {name: _text(name, each) for name, each in value.items()}


def read_config(value: Any) -> dict[str, str]:
    return {name: each for name, each in read_patch(value).items() if each is not None}


def _text(name: str, value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return json.dumps(value)
    raise errors.bad_request(f"The value of {name} must be text, not {json.dumps(value)[:100]}.")


def named(name: str, config: Mapping[str, str]) -> dict[str, str]:
    """Raises RequestError if the config contains another name."""
    given = config.get("name")
    if given is not None and given != name:
        raise errors.bad_request(
            f"Connector name configuration ({given}) doesn't match connector name in the URL ({name})"
        )
    return {**config, "name": name}


def initial_state(value: object) -> TargetState | None:
    """Return the initial state, or None for the default. Raises RequestError."""
    if value is None:
        return None
    found = _INITIAL.get(str(value).upper())
    if found is None:
        raise errors.bad_request(f"initial_state cannot be {value}: give one of {', '.join(_INITIAL)}.")
    return found


def read_offsets(body: bytes) -> list[tuple[Json, Json | None]]:
    offsets = read_object(body).get("offsets")
    if not offsets:
        raise errors.bad_request("Partitions / offsets need to be provided for an alter offsets request")
    if not isinstance(offsets, list):
        raise errors.bad_request("offsets must be an array.")
    found = []
    for each in offsets:
        if not isinstance(each, dict) or not isinstance(each.get("partition"), dict):
            raise errors.bad_request("The partition in an offset entry must be a JSON object.")
        offset = each.get("offset")
        if offset is not None and not isinstance(offset, dict):
            raise errors.bad_request("The offset in an offset entry must be a JSON object or null.")
        found.append((each["partition"], offset))
    return found


def http_error(error: RequestError) -> HttpError:
    return HttpError(error.status, error.status, error.message)

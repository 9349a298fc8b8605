"""Validation of JSON request bodies, and keys and values between JSON and bytes."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, Literal

from ottla.client.schema_codecs import is_nested_too_deep
from ottla.http import Request
from ottla.rest.errors import BAD_CONVERSION, INVALID_PAYLOAD, bad_request, unprocessable

# Validation of JSON request bodies.

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


# Convert keys and values between JSON and bytes: base64, JSON, and text.

#: The JSON encoder fails beyond Python's recursion limit of 1,000.
_MOST_LEVELS = 500
Format = Literal["binary", "json", "string", "avro", "jsonschema", "protobuf"]

V2_JSON = "application/vnd.kafka.v2+json"
#: By content type, for v2.
FORMATS: dict[str, Format] = {
    "application/vnd.kafka.binary.v2+json": "binary",
    "application/vnd.kafka.json.v2+json": "json",
    "application/vnd.kafka.avro.v2+json": "avro",
    "application/vnd.kafka.jsonschema.v2+json": "jsonschema",
    "application/vnd.kafka.protobuf.v2+json": "protobuf",
}
#: By name, for v3.
TYPES: dict[str, Format] = {
    "BINARY": "binary",
    "JSON": "json",
    "STRING": "string",
    "AVRO": "avro",
    "JSONSCHEMA": "jsonschema",
    "PROTOBUF": "protobuf",
}


def encode(data: Any, kind: Format) -> bytes | None:
    """Encode a value from a request. Raises HttpError 422."""
    if kind == "binary":
        if data is None:
            return None
        if not isinstance(data, str):
            raise unprocessable("Binary data must be text in base64.", BAD_CONVERSION)
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise unprocessable(f"{shown(data)} is not base64.", BAD_CONVERSION) from None
    if kind == "string":
        if data is not None and not isinstance(data, str):
            raise unprocessable("The data of type STRING must be a text.", BAD_CONVERSION)
        return None if data is None else data.encode("utf-8", "surrogatepass")
    if data is None:
        return None
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def decode(data: bytes | None, kind: Format) -> Any:
    """Decode bytes to JSON for a response. Raises HttpError if they do not have that format."""
    if data is None:
        return None
    if kind == "binary":
        return base64.b64encode(data).decode()
    try:
        if kind == "string":
            return data.decode()
        return _parsed(data)
    except (ValueError, RecursionError):
        raise unprocessable(f"{shown(data)} is not {kind}.", BAD_CONVERSION) from None


def _parsed(data: bytes) -> Any:
    """Parse JSON. Raises ValueError if it is invalid or too deeply nested for a response."""
    value = json.loads(data)
    if data.count(b"[") + data.count(b"{") > _MOST_LEVELS and is_nested_too_deep(value, _MOST_LEVELS):
        raise ValueError("too deep")
    return value


def shown(data: str | bytes) -> str:
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    return repr(text if len(text) <= 40 else text[:40] + "…")


def best_effort(data: bytes | None) -> Any:
    """Decode records of unspecified format: JSON, else text, else base64."""
    if data is None:
        return None
    try:
        return _parsed(data)
    except (ValueError, RecursionError):
        pass
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def v3_type(name: Any, which: str) -> Format:
    found = TYPES.get(str(name).upper())
    if found is None:
        raise bad_request(f"The type of the {which} must be one of {', '.join(TYPES)}, not {name}.")
    return found

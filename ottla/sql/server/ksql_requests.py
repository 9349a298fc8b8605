"""Request bodies."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from ottla.http import HttpError, Request
from ottla.sql.server.ksql_errors import BAD_REQUEST, bad_request


@dataclass(frozen=True)
class KsqlRequest:
    """`shown` requests the output for Ottla's shell in addition to ksqlDB's objects."""

    text: str
    properties: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    command_sequence_number: int | None = None
    resume: bool = False
    shown: bool = False


async def read_request(request: Request, *names: str) -> KsqlRequest:
    """Parse the body. `names` are the accepted names of the statement field. Raises HttpError 400."""
    return parse_request(await request.body(), *names)


def parse_request(body: bytes | str, *names: str) -> KsqlRequest:
    try:
        plain = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"The body of the request is not JSON: {error}.") from None
    if not isinstance(plain, dict):
        raise bad_request("The body of the request is not a JSON object.")
    text = next((plain[name] for name in names if plain.get(name) is not None), None)
    if not isinstance(text, str):
        raise bad_request(f"The field '{names[0]}' is missing, or is not a text.")
    number = plain.get("commandSequenceNumber")
    if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
        raise bad_request("The field 'commandSequenceNumber' is not a number.")
    own = plain.get("requestProperties")
    own = own if isinstance(own, dict) else {}
    return KsqlRequest(
        text,
        _texts(plain, "streamsProperties") | _texts(plain, "properties"),
        _texts(plain, "sessionVariables"),
        number,
        own.get("ottla.resume") is True,
        own.get("ottla.results") is True,
    )


def _texts(plain: dict[str, Any], name: str) -> dict[str, str]:
    given = plain.get(name)
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise HttpError(400, BAD_REQUEST, f"The field '{name}' is not a JSON object.")
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in given.items()}

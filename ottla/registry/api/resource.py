"""Resources of the API: requests, access to the node, and forwarding of writes to the leader."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from ottla.http import HttpError, Request, Response
from ottla.http.forwarding import Forwarder, PeerUnreachable
from ottla.registry import errors
from ottla.registry.election import FORWARDED, MARKS, READ_UNTIL
from ottla.registry.errors import RegistryError, forwarding_failed, unknown_leader
from ottla.registry.model.contracts import (
    FIELD,
    RECORD,
    Entity,
    Json,
    Reference,
    read_metadata,
    read_rule_set,
)
from ottla.registry.model.parsing import parse_version
from ottla.registry.model.records import SchemaVersion, Write
from ottla.registry.model.registration import Given
from ottla.registry.model.scopes import resolve_alias
from ottla.registry.model.state import State
from ottla.registry.model.subjects import (
    DEFAULT_CONTEXT,
    checked_subject,
    context_name,
    context_of,
    context_prefix,
    in_context,
    parse_subject,
)
from ottla.registry.node import Node, NotLeader
from ottla.registry.security import Rights

# Reading requests and formatting responses, shared by all resources.

V1 = "application/vnd.schemaregistry.v1+json"
UNVERSIONED = "application/vnd.schemaregistry+json"
PRODUCES = (V1, UNVERSIONED, "application/json")
CONSUMES = (V1, UNVERSIONED, "application/json", "application/octet-stream")

_LARGEST = 2**31 - 1


def answer(request: Request, value: object, status: int = 200) -> Response:
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    return Response(status, body, request.produces)


def render_error(error: HttpError, request: Request | None) -> Response:
    body = json.dumps({"error_code": error.error_code, "message": error.message}, ensure_ascii=False)
    kind = V1 if request is None else request.produces
    return Response(error.status, body.encode("utf-8", "surrogatepass"), kind, error.headers)


def http_error(error: RegistryError) -> HttpError:
    return HttpError(error.status, error.code, error.message)


# Queries


def flag(request: Request, name: str, *, default: bool = False) -> bool:
    value = request.query.get(name)
    return default if value is None else value.strip().lower() == "true"


def page(request: Request, values: list[Any]) -> list[Any]:
    """Apply `offset` and `limit`; a limit of zero or less means none."""
    offset, limit = number(request, "offset", 0), number(request, "limit", -1)
    offset = max(offset, 0)
    return values[offset:] if limit <= 0 else values[offset : offset + limit]


def number(request: Request, name: str, default: int) -> int:
    text = request.query.get(name)
    if text is None or text == "":
        return default
    try:
        return int(text)
    except ValueError:
        # JAX-RS's answer to a parameter of the wrong type.
        raise HttpError(404, 404, "HTTP 404 Not Found") from None


def is_extended(request: Request) -> bool:
    """Return True if the client accepts newer fields: newer clients identify themselves."""
    headers = request.headers
    if "confluent-client-version" in headers:
        return True
    return headers.get("confluent-accept-unknown-properties", "").lower() == "true"


# Paths


def subject_of(request: Request, state: State, *, resolve: bool = True) -> str:
    """Return the subject in the path, within the path's context, with aliases resolved."""
    name = request.params["subject"]
    if "context" in request.params:
        name = in_context(context_name(request.params["context"]), name)
    subject = checked_subject(name)
    return resolve_alias(state, subject) if resolve else subject


def scope_of(request: Request) -> str | None:
    """Return the subject or context of a config or mode; None is the default context."""
    name = request.params.get("subject")
    if "context" in request.params:
        context = context_name(request.params["context"])
        return f":{context}:" if name is None else in_context(context, name)
    if name is None:
        return None
    if name.startswith(":.") and name.endswith(":"):
        return name
    return checked_subject(name)


def context_of_path(request: Request) -> str:
    return context_name(request.params["context"]) if "context" in request.params else DEFAULT_CONTEXT


def version_of(request: Request) -> int:
    """Return -1 for "latest"."""
    text = request.params["version"]
    if text in ("latest", "-1"):
        return -1
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) <= _LARGEST:
        raise errors.invalid_version(text)
    return int(text)


# Bodies


def read_object(data: bytes) -> Json:
    if not data:
        raise errors.unprocessable("The request has no body.")
    try:
        value = json.loads(data)
    except RecursionError:
        raise errors.bad_request("The JSON of the request is nested too deeply.") from None
    except ValueError as error:
        raise errors.bad_request(f"The request is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise errors.bad_request("The request must be a JSON object.")
    return value


def read_given(fields: Json) -> Given:
    schema = _text(fields, "schema") or ""
    references = fields.get("references")
    references = [] if references is None else references
    if not isinstance(references, list):
        raise errors.bad_request("references must be an array.")
    return Given(
        schema=schema,
        schema_type=(_text(fields, "schemaType") or "AVRO").upper(),
        references=tuple(_reference(each) for each in references),
        metadata=read_metadata(fields.get("metadata")),
        rule_set=read_rule_set(fields.get("ruleSet")),
        id=read_integer(fields, "id", -1),
        version=max(read_integer(fields, "version", 0), 0),
    )


def _reference(value: Any) -> Reference:
    if not isinstance(value, dict):
        raise errors.bad_request("references must be an array of objects.")
    name, subject = _text(value, "name"), _text(value, "subject")
    if not name or not subject:
        raise errors.invalid_schema("A reference needs a name, a subject and a version.")
    return Reference(name, subject, read_integer(value, "version", -1))


def _text(fields: Json, name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise errors.bad_request(f"{name} must be a string.")
    return value


def read_integer(fields: Json, name: str, default: int) -> int:
    value = fields.get(name)
    if value is None:
        return default
    # Confluent's registry takes numbers in quotes as well.
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value <= _LARGEST:
        raise errors.bad_request(f"{name} must be an integer, not {json.dumps(value)[:100]}.")
    return value


def with_references(request: Request, version: SchemaVersion) -> SchemaVersion:
    """Add contexts to the subjects of references if `referenceFormat=qualified`."""
    if not version.references or request.query.get("referenceFormat", "").lower() != "qualified":
        return version
    context = context_of(version.subject)
    named = tuple(
        each._replace(
            subject=context_prefix(parse_subject(in_context(context, each.subject)).context)
            + parse_subject(each.subject).name
        )
        for each in version.references
    )
    return replace(version, references=named)


def read_tags(fields: Json, name: str) -> dict[Entity, list[str]]:
    """Return the tags in a request, by entity."""
    value = fields.get(name)
    if value is None:
        return {}
    found: dict[Entity, list[str]] = {}
    try:
        for each in value:
            path, kind, tags = (
                each["schemaEntity"]["entityPath"],
                each["schemaEntity"]["entityType"],
                each["tags"],
            )
            if not isinstance(path, str) or kind.lower() not in (FIELD, RECORD):
                raise TypeError
            if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
                raise TypeError
            found.setdefault(Entity(path, kind.lower()), []).extend(tags)
    except (KeyError, TypeError, AttributeError):
        raise errors.bad_request(
            f"{name} must be an array of tags, each with a schemaEntity (entityPath and entityType sr_field or "
            "sr_record) and tags."
        ) from None
    return found


# Base of all resources: access to the node, and forwarding of writes to the leader.

T = TypeVar("T")


class Resource:
    def __init__(self, node: Node, forwarder: Forwarder, rights: Rights) -> None:
        self.node = node
        self.rights = rights
        self._forwarder = forwarder

    @property
    def state(self) -> State:
        return self.node.state

    def formatted(self, request: Request, version: SchemaVersion) -> str | None:
        """Return the schema in the requested `format=`, which may inline its references. None without `format=`."""
        wanted = request.query.get("format", "").strip()
        if not wanted:
            return None
        self.rights.check_references(request, version.subject, version.references)
        return parse_version(self.state, version).formatted(wanted)

    async def write(
        self,
        request: Request,
        decide: Callable[[State], tuple[T, Sequence[Write]]],
        respond: Callable[[T], Response],
        body: bytes = b"",
        *,
        takes_long: bool = False,
    ) -> Response:
        """Run a write here if this node leads, otherwise on the leader; wait during an election.

        `body` is the request's body, which can be read only once.
        """
        deadline = asyncio.get_running_loop().time() + self.node.settings.timeout
        while True:
            leader = await self.node.find_leader()
            try:
                if leader == self.node.identity:
                    response = respond(await self.node.execute(decide, takes_long=takes_long))
                    if FORWARDED in request.headers:
                        response.headers = {READ_UNTIL: str(self.node.store.next_offset - 1)}
                    return response
                if FORWARDED in request.headers:
                    raise unknown_leader()  # the other node considers us the leader, wrongly
                answer = await self._forwarder.pass_on(leader, request, body, marks=MARKS)
                return await self._read_too(answer)
            except NotLeader:
                pass
            except PeerUnreachable as error:
                if error.was_sent or asyncio.get_running_loop().time() > deadline:
                    raise forwarding_failed(
                        f"Error while forwarding the request to the leader: {error}"
                    ) from None
            if asyncio.get_running_loop().time() > deadline:
                raise unknown_leader()
            await asyncio.sleep(self.node.settings.client.retry_backoff)

    async def _read_too(self, response: Response) -> Response:
        """Return the leader's response once this node has read the written records as well."""
        offset = (response.headers or {}).get(READ_UNTIL, "")
        if offset.isdecimal():
            await self.node.store.read_until(int(offset))
        response.headers = None
        return response

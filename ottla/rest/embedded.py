"""Formats of keys and values in requests and responses, with registry schemas where required."""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from ottla.client.errors import ClientError
from ottla.client.schema_codecs import BadData, Codec, SchemaCodecs, decode, encode, unframed
from ottla.client.schema_registry import (
    AVRO,
    JSON,
    PROTOBUF,
    RegistryError,
    RegistrySettings,
    Schema,
    SchemaRegistry,
)
from ottla.http import HttpError
from ottla.rest import formats
from ottla.rest import formats as bodies
from ottla.rest.clients import Identity
from ottla.rest.errors import (
    BAD_CONVERSION,
    BAD_SCHEMA,
    KEY_SCHEMA_MISSING,
    VALUE_SCHEMA_MISSING,
    bad_request,
    unprocessable,
)
from ottla.rest.formats import Format

T = TypeVar("T")

_MOST_CALLERS = 100
_REGISTRY_BAD_SCHEMA = 42201

_MISSING = {
    "key": (KEY_SCHEMA_MISSING, "Request includes keys but does not include key schema"),
    "value": (VALUE_SCHEMA_MISSING, "Request includes values but does not include value schema"),
}
#: Decoding a payload of this size takes the event loop some milliseconds.
_LARGE = 1 << 14
_OF_SCHEMAS = ("subject_name_strategy", "subject", "schema_id", "schema_version", "schema")
TYPES: dict[Format, str] = {"avro": AVRO, "jsonschema": JSON, "protobuf": PROTOBUF}


class Registered(NamedTuple):
    schema_id: int
    codec: Codec


class Encoder:
    """Encodes the keys and values of one v2 request."""

    def __init__(self, kind: Format, key: Registered | None, value: Registered | None) -> None:
        self._kind = kind
        self._schemas = {"key": key, "value": value}

    @property
    def key_schema_id(self) -> int | None:
        return self._id("key")

    @property
    def value_schema_id(self) -> int | None:
        return self._id("value")

    def _id(self, which: str) -> int | None:
        found = self._schemas[which]
        return None if found is None else found.schema_id

    def key(self, data: Any) -> bytes | None:
        return self._encoded("key", data)

    def value(self, data: Any) -> bytes | None:
        return self._encoded("value", data)

    def _encoded(self, which: str, data: Any) -> bytes | None:
        if self._kind not in TYPES:
            return formats.encode(data, self._kind)
        if data is None:
            return None
        found = self._schemas[which]
        if found is None:
            code, message = _MISSING[which]
            raise unprocessable(message, code)
        return _encoded(found, data)


def _encoded(found: Registered, data: Any) -> bytes:
    try:
        return encode(found.codec, data, found.schema_id)
    except BadData as error:
        raise unprocessable(str(error), BAD_CONVERSION) from None


def _record_name(text: str, schema_type: str) -> str | None:
    """Return the full name of a record, or None if it has none or the schema is invalid."""
    if schema_type == PROTOBUF:
        code = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
        package = re.search(r"\bpackage\s+([\w.]+)\s*;", code)
        message = re.search(r"\bmessage\s+(\w+)", code)
        if message is None:
            return None
        return message[1] if package is None else f"{package[1]}.{message[1]}"
    try:
        schema = json.loads(text)
    except ValueError:
        return None
    if not isinstance(schema, dict):
        return None
    if schema_type == JSON:
        return schema.get("title")
    name, namespace = schema.get("name"), schema.get("namespace")
    return name if not name or not namespace or "." in name else f"{namespace}.{name}"


def _subject(topic: str, which: str, kind: Format | None, part: dict[str, Any]) -> str:
    """Return the subject of a v3 key or value, given by name or by a strategy."""
    subject, strategy = bodies.text(part, "subject", None), part.get("subject_name_strategy")
    if subject is not None and strategy is not None:
        raise bad_request("Only one of 'subject_name_strategy' or 'subject' can be used.")
    if strategy not in (None, "TOPIC_NAME", "RECORD_NAME", "TOPIC_RECORD_NAME"):
        raise bad_request(f"Subject name strategy {strategy!r} is unknown.")
    if strategy in (None, "TOPIC_NAME"):
        return subject or f"{topic}-{which}"
    text = part.get("schema")
    name = None if text is None else _record_name(str(text), TYPES[kind or "avro"])
    if name is None:
        raise bad_request(f"'subject_name_strategy={strategy}' needs a 'schema' with a name.")
    return name if strategy == "RECORD_NAME" else f"{topic}-{name}"


class Embedded:
    """With `as_caller`, asks the registry as the caller, so that the caller's rights on subjects apply.

    Owner: the event loop; threads ask the registry. Schemas are cached by id, since they never change.
    """

    def __init__(self, registry_url: str | None, *, as_caller: bool = False) -> None:
        self._as_caller = as_caller
        self._registry: RegistrySettings | None = None
        #: By caller, least recently used first.
        self._codecs: OrderedDict[Identity, SchemaCodecs] = OrderedDict()
        if registry_url:
            self._registry = RegistrySettings.from_properties({"schema.registry.url": registry_url})

    def _codecs_of(self, caller: Identity) -> SchemaCodecs:
        if self._registry is None:
            raise unprocessable("This format needs a schema registry: set schema.registry.url.")
        key = caller if self._as_caller else Identity()
        found = self._codecs.get(key)
        if found is None:
            settings = self._registry
            if key.user is not None:
                settings = replace(settings, username=key.user, password=key.password or "")
            found = self._codecs[key] = SchemaCodecs(SchemaRegistry(settings))
            if len(self._codecs) > _MOST_CALLERS:
                self._codecs.popitem(last=False)
        self._codecs.move_to_end(key)
        return found

    async def encoder(self, caller: Identity, kind: Format, topic: str, body: dict[str, Any]) -> Encoder:
        """Build an encoder. The body contains `key_schema`, `key_schema_id` and the same for the value."""
        if kind not in TYPES:
            return Encoder(kind, None, None)
        found = {}
        for which in ("key", "value"):
            given = {"schema": body.get(f"{which}_schema"), "schema_id": body.get(f"{which}_schema_id")}
            is_given = any(each is not None for each in given.values())
            found[which] = (
                await self._registered(caller, kind, f"{topic}-{which}", given) if is_given else None
            )
        return Encoder(kind, found["key"], found["value"])

    async def encode_inline(
        self, caller: Identity, kind: Format | None, topic: str, which: str, part: dict[str, Any]
    ) -> tuple[bytes | None, dict[str, Any]]:
        """Encode a v3 key or value with its own type or schema. Also return its description for the response."""
        if kind is not None and kind not in TYPES:
            for name in _OF_SCHEMAS:
                if part.get(name) is not None:
                    raise bad_request(f"'type={kind.upper()}' cannot be used with '{name}'.")
            data = formats.encode(part.get("data"), kind)
            return data, {"type": kind.upper(), "size": len(data or b"")}
        subject = _subject(topic, which, kind, part)
        found = await self._registered(caller, kind, subject, part)
        value = part.get("data")
        data = None if value is None else _encoded(found, value)
        about = {"type": (kind or "avro").upper(), "subject": subject, "schema_id": found.schema_id}
        return data, {**about, "size": len(data or b"")}

    async def decode(self, caller: Identity, data: bytes | None, kind: Format) -> Any:
        if kind not in TYPES or data is None:
            return formats.decode(data, kind)
        try:
            schema_id, payload = unframed(data)
            codec = await self._codec(caller, schema_id)
            if len(payload) > _LARGE:
                return await asyncio.to_thread(decode, codec, payload)
            return decode(codec, payload)
        except BadData as error:
            raise unprocessable(str(error), BAD_CONVERSION) from None

    # Registry

    async def _registered(
        self, caller: Identity, kind: Format | None, subject: str, given: dict[str, Any]
    ) -> Registered:
        schema_id, text = bodies.number(given, "schema_id", None), given.get("schema")
        version = bodies.number(given, "schema_version", None)
        if sum(each is not None for each in (schema_id, text, version)) > 1:
            raise bad_request("Only one of 'schema_id', 'schema_version' or 'schema' can be used.")
        if schema_id is not None:
            return Registered(schema_id, await self._codec(caller, schema_id))
        if text is not None:
            schema = Schema(str(text), TYPES[kind or "avro"])
            try:
                registered = await self._ask(caller, lambda registry: registry.register(subject, schema))
            except HttpError as error:
                if error.error_code == _REGISTRY_BAD_SCHEMA:
                    raise unprocessable(f"Invalid schema: {error.message}", BAD_SCHEMA) from None
                raise
            return Registered(registered, await self._codec(caller, registered))
        if version is not None:
            found = await self._ask(caller, lambda registry: registry.version(subject, version))
        else:
            found = await self._ask(caller, lambda registry: registry.latest(subject))
        return Registered(found.id, await self._codec(caller, found.id))

    async def _codec(self, caller: Identity, schema_id: int) -> Codec:
        codecs = self._codecs_of(caller)
        kept = codecs.kept(schema_id)
        if kept is not None:
            return kept
        return await self._convert(codecs, lambda codecs: codecs.by_id(schema_id))

    async def _ask(self, caller: Identity, question: Callable[[SchemaRegistry], T]) -> T:
        return await self._convert(self._codecs_of(caller), lambda codecs: question(codecs.registry))

    async def _convert(self, codecs: SchemaCodecs, question: Callable[[SchemaCodecs], T]) -> T:
        try:
            return await asyncio.to_thread(question, codecs)
        except RegistryError as error:
            if error.status >= 500:
                raise HttpError(502, 50205, error.message) from None
            status = 422 if error.status == 409 else error.status
            raise HttpError(status, error.error_code, error.message) from None
        except ClientError as error:
            raise HttpError(502, 50205, error.message) from None

    def close(self) -> None:
        for codecs in self._codecs.values():
            codecs.registry.close()

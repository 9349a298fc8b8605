"""Messages of `ottla produce` and `ottla consume`: text and bytes, schemas, encryption."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ottla.cli.errors import JobError
from ottla.cli.values import format_timestamp
from ottla.client.errors import ClientError
from ottla.client.schema_codecs import BadData, FramedTexts, SchemaCodecs, decode, encode, unframed
from ottla.client.schema_registry import AVRO, JSON, PROTOBUF, RegistrySettings, Schema, SchemaRegistry
from ottla.encryption import Decryptor, EncryptionError, Encryptor, open_keys

# Messages as lines of text: JSON with nothing lost, and templates.

Headers = Sequence[tuple[str, bytes | None]]


# Not frozen: one is made for every message, and a frozen dataclass is several times slower to make.


@dataclass(slots=True)
class OutgoingMessage:
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None


@dataclass(slots=True)
class ConsumedMessage:
    topic: str
    partition: int
    offset: int
    timestamp: int | None
    timestamp_type: str | None  # CreateTime or LogAppendTime
    key: bytes | None
    value: bytes | None
    headers: Headers
    leader_epoch: int | None = None
    delivery_count: int | None = None  # of a share group: the how many-eth time it is handed out


# -- JSON lines --------------------------------------------------------------------------------------------
# Text is a string, null is null, bytes that are not UTF-8 are {"base64": "…"}. What `consume --json` writes,
# `produce --json-lines` reads, and the messages are the same bytes.


def bytes_to_json(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def bytes_from_json(value: object) -> bytes | None:
    """Other JSON than text is taken as it is written, so that {"value": {"id": 1}} works."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8")
    if isinstance(value, dict) and set(value) == {"base64"} and isinstance(value["base64"], str):
        return base64.b64decode(value["base64"], validate=True)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def message_to_json(message: ConsumedMessage) -> bytes:
    document = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "timestamp_type": message.timestamp_type,
        "key": bytes_to_json(message.key),
        "value": bytes_to_json(message.value),
        "headers": [[name, bytes_to_json(value)] for name, value in message.headers],
    }
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")


def message_from_json(line: bytes, line_number: int) -> OutgoingMessage:
    try:
        document = json.loads(line)
        if not isinstance(document, dict):
            raise ValueError("it is not a JSON object")
        if "value" not in document and "key" not in document:
            raise ValueError('it has neither "key" nor "value"')
        return OutgoingMessage(
            bytes_from_json(document.get("value")),
            bytes_from_json(document.get("key")),
            _headers_from_json(document.get("headers")),
            _integer(document, "partition"),
            _integer(document, "timestamp"),
        )
    except ValueError as error:
        reason = str(error).rstrip(".")
        raise JobError(f"Line {line_number} is not a message in JSON: {reason}.") from None


def _headers_from_json(headers: object) -> Headers:
    if headers is None:
        return ()
    if isinstance(headers, dict):
        return [(str(name), bytes_from_json(value)) for name, value in headers.items()]
    if isinstance(headers, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in headers):
        return [(str(name), bytes_from_json(value)) for name, value in headers]
    raise ValueError('"headers" is neither an object nor a list of [name, value]')


def _integer(document: dict[str, Any], name: str) -> int | None:
    value = document.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise ValueError(f'"{name}" is not a whole number')
    return value


# -- templates ---------------------------------------------------------------------------------------------

_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\", "e": b"\x1b"}

_FIELDS: dict[str, Callable[[ConsumedMessage], bytes]] = {
    "v": lambda m: b"" if m.value is None else m.value,
    "s": lambda m: b"" if m.value is None else m.value,
    "k": lambda m: b"" if m.key is None else m.key,
    "S": lambda m: str(-1 if m.value is None else len(m.value)).encode(),
    "K": lambda m: str(-1 if m.key is None else len(m.key)).encode(),
    "t": lambda m: m.topic.encode(),
    "p": lambda m: str(m.partition).encode(),
    "o": lambda m: str(m.offset).encode(),
    "T": lambda m: str(-1 if m.timestamp is None else m.timestamp).encode(),
    "d": lambda m: b"" if m.timestamp is None else format_timestamp(m.timestamp).encode(),
    "h": lambda m: headers_to_text(m.headers),
    "%": lambda _m: b"%",
}


def headers_to_text(headers: Headers) -> bytes:
    return b",".join(name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in headers)


def compile_template(template: str) -> Callable[[ConsumedMessage], bytes]:
    """kcat's tokens (%k %s %o %p %t %T %h %S %K), %v for the value and %d for a readable timestamp."""
    parts: list[bytes | Callable[[ConsumedMessage], bytes]] = []
    characters = iter(template)
    for character in characters:
        if character == "\\":
            escaped = next(characters, "\\")
            parts.append(_ESCAPES.get(escaped, b"\\" + escaped.encode()))
        elif character == "%":
            token = next(characters, "")
            if token not in _FIELDS:
                raise JobError(
                    f"'%{token}' means nothing in a format: use %k %v %o %p %t %T %d %h %K %S, "
                    "or %% for a percent sign."
                )
            parts.append(_FIELDS[token])
        else:
            parts.append(character.encode())

    def render(message: ConsumedMessage) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(message) for part in parts)

    return render


# Keys and values whose schemas a registry keeps, in `ottla produce` and `ottla consume`: JSON on our side.

KINDS = {"avro": AVRO, "json-schema": JSON, "protobuf": PROTOBUF}
AUTO, RAW = "auto", "raw"


def open_registry(properties: dict[str, str]) -> SchemaRegistry:
    try:
        return SchemaRegistry(RegistrySettings.from_properties(properties))
    except ClientError as error:
        raise JobError(error.message) from None


# Reading

Decoder = Callable[[bytes | None, str], bytes | None]


class Decoding:
    """Of messages that are shown. With `auto` what begins with the id of a schema is JSON, if it can be."""

    def __init__(self, registry: SchemaRegistry, key_format: str, value_format: str) -> None:
        self._codecs = SchemaCodecs(registry)
        self._framed = FramedTexts(registry)
        self._key = self._decoder(key_format)
        self._value = self._decoder(value_format)

    @property
    def is_needed(self) -> bool:
        return self._key is not None or self._value is not None

    def message(self, message: ConsumedMessage) -> ConsumedMessage:
        where = f"{message.topic}-{message.partition}@{message.offset}"
        if self._key is not None:
            message.key = self._key(message.key, f"The key of {where}")
        if self._value is not None:
            message.value = self._value(message.value, f"The value of {where}")
        return message

    def _decoder(self, form: str) -> Decoder | None:
        if form == RAW:
            return None
        return self._guessed if form == AUTO else self._of_kind(KINDS[form])

    def _guessed(self, data: bytes | None, _where: str) -> bytes | None:
        text = self._framed.text(data)
        return data if text is None else text.encode()

    def _of_kind(self, kind: str) -> Decoder:
        def read(data: bytes | None, where: str) -> bytes | None:
            if data is None:
                return None
            try:
                schema_id, payload = unframed(data)
                found = self._codecs.registry.by_id(schema_id).type
                if found != kind:
                    raise JobError(
                        f"{where} was written with schema {schema_id}, which is {found}, not {kind}."
                    )
                value = decode(self._codecs.by_id(schema_id), payload)
            except BadData as error:
                raise JobError(f"{where} cannot be read with its schema: {error}") from None
            except ClientError as error:
                raise JobError(f"{where} cannot be read: {error.message}") from None
            return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

        return read


# Writing


class Encoding:
    """Of messages that are sent: keys and values that are JSON, by schemas that are found before the first of them."""

    def __init__(self, registry: SchemaRegistry, topic: str) -> None:
        self._codecs = SchemaCodecs(registry)
        self._topic = topic
        self._ids: dict[str, int] = {}

    def use(self, part: str, form: str, schema: str | None, schema_id: int | None) -> None:
        """`schema` is a file, or the schema itself; without it and without an id, the latest of the subject is used."""
        registry, subject = self._codecs.registry, f"{self._topic}-{part}"
        try:
            if schema_id is None and schema is not None:
                schema_id = registry.register(subject, Schema(_text(schema), KINDS[form]))
            elif schema_id is None:
                schema_id = registry.latest(subject).id
            found = registry.by_id(schema_id)
            if found.type != KINDS[form]:
                raise JobError(f"Schema {schema_id} is {found.type}, not {KINDS[form]}.")
            self._codecs.by_id(schema_id)
        except ClientError as error:
            raise JobError(f"The schema of the {part}: {error.message}") from None
        self._ids[part] = schema_id

    def message(self, message: OutgoingMessage) -> OutgoingMessage:
        if "key" in self._ids:
            message = replace(message, key=self._encoded(message.key, "key", self._ids["key"]))
        if "value" in self._ids:
            message = replace(message, value=self._encoded(message.value, "value", self._ids["value"]))
        return message

    def _encoded(self, text: bytes | None, part: str, schema_id: int) -> bytes | None:
        if text is None:
            return None
        shown = text.decode(errors="replace")[:200]
        try:
            return encode(self._codecs.by_id(schema_id), json.loads(text), schema_id)
        except BadData as error:
            raise JobError(f"A {part} does not fit schema {schema_id}. {error} It is {shown}") from None
        except ValueError:
            raise JobError(
                f"A {part} is not JSON, which is encoded with schema {schema_id}: {shown}"
            ) from None


def _text(schema: str) -> str:
    path = Path(schema)
    try:
        if len(schema) < 4096 and path.is_file():
            return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise JobError(f"Cannot read the schema in {schema}: {reason}.") from None
    if schema.lstrip()[:1] not in ("{", "[", '"') and "message" not in schema and len(schema.split()) == 1:
        if schema not in ("null", "boolean", "int", "long", "float", "double", "bytes", "string"):
            raise JobError(f"There is no file {schema}.")
        return json.dumps(schema)
    return schema


# Encryption and decryption of values in `ottla produce` and `ottla consume`.


def encrypting(keys: str, fields: Sequence[str]) -> Callable[[str, OutgoingMessage], OutgoingMessage]:
    try:
        encryptor = Encryptor(open_keys(keys), fields=fields)
    except EncryptionError as error:
        raise JobError(str(error)) from None

    def encrypt(topic: str, message: OutgoingMessage) -> OutgoingMessage:
        try:
            value, headers = encryptor.encrypt(topic, message.value, message.headers)
        except EncryptionError as error:
            raise JobError(str(error)) from None
        return replace(message, value=value, headers=headers)

    return encrypt


def decrypting(
    keys: str, topic: str | None = None, *, allow_plain: bool = False
) -> Callable[[ConsumedMessage], ConsumedMessage]:
    """`topic` is the topic for which values were encrypted, if it differs from the message's topic."""
    try:
        decryptor = Decryptor(open_keys(keys), allow_plain=allow_plain)
    except EncryptionError as error:
        raise JobError(str(error)) from None

    def decrypt(message: ConsumedMessage) -> ConsumedMessage:
        try:
            value, headers = decryptor.decrypt(topic or message.topic, message.value, message.headers)
        except EncryptionError as error:
            place = f"{message.topic}-{message.partition}@{message.offset}"
            raise JobError(f"{place} cannot be decrypted. {error}") from None
        return replace(message, value=value, headers=headers)

    return decrypt

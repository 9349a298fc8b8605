"""Options of the registry formats."""

from __future__ import annotations

from ottla.client.errors import ClientError
from ottla.client.schema_registry import PREFIX, RegistrySettings
from ottla.spark.formats.registered.schema_source import SchemaSource
from ottla.spark.formats.value_format import Format
from ottla.spark.options import SECURITY_OPTIONS, OptionError, Options

URL = "schemaRegistryUrl"

#: Connection to the registry.
REGISTRY_OPTIONS = (
    URL,
    *(
        f"{PREFIX}{name}"
        for name in (
            "url",
            "basic.auth.credentials.source",
            "basic.auth.user.info",
            "bearer.auth.credentials.source",
            "bearer.auth.token",
            "request.timeout.ms",
            *(each for each in SECURITY_OPTIONS if each.startswith(("ssl.", "enable.ssl."))),
        )
    ),
)
#: Choice of schemas for keys and values.
SCHEMA_OPTIONS = tuple(
    f"{part}{name}"
    for part in ("key", "value")
    for name in ("Subject", "SchemaVersion", "SchemaId", "Message")
)


def parse_registry(given: Options) -> RegistrySettings | None:
    properties = {name: value for name in REGISTRY_OPTIONS[1:] if (value := given.text(name)) is not None}
    url = given.text(URL)
    if url is not None:
        properties[f"{PREFIX}url"] = url
    if not properties:
        return None
    try:
        return RegistrySettings.from_properties(properties)
    except ClientError as error:
        raise OptionError(error.message.replace(f"{PREFIX}url", URL)) from None


def parse_source(given: Options, part: str, name: str, schema: str | None) -> Format:
    registry = parse_registry(given)
    text = columns = None
    if schema is not None:
        # Spark types contain no braces, and quotes only in names.
        if schema.lstrip()[:1] in ("{", "[", '"') or (name == "protobuf" and "{" in schema):
            text = schema
        else:
            columns = schema.strip()
    subject = given.text(f"{part}Subject")
    version = given.text(f"{part}SchemaVersion")
    number = given.count(f"{part}SchemaId")
    if schema is not None:
        for option in ("Subject", "SchemaVersion", "SchemaId"):
            if given.text(f"{part}{option}") is not None:
                raise OptionError(f"{part}Schema and {part}{option} contradict each other: omit one of them.")
    if number is not None and (subject is not None or version is not None):
        raise OptionError(
            f"{part}SchemaId says which schema it is: omit {part}Subject and {part}SchemaVersion."
        )
    if registry is None and text is None:
        raise OptionError(f"{part}Format={name} needs {URL}, such as http://localhost:8081.")
    if schema is None and number is None and subject is None:
        subject = _subject(given, part)
    source = SchemaSource(
        registry,
        subject,
        _version(f"{part}SchemaVersion", version),
        number,
        text,
        given.text(f"{part}Message"),
    )
    return Format(name, columns, source)


def _subject(given: Options, part: str) -> str:
    topics = [each.strip() for each in (given.text("subscribe") or "").split(",") if each.strip()]
    if len(topics) != 1:
        raise OptionError(
            f"Which schema makes the columns? Several topics may be read: say {part}Subject, {part}SchemaId or "
            f"{part}Schema."
        )
    return f"{topics[0]}-{part}"


def _version(name: str, text: str | None) -> int | None:
    if text is None or text.strip().lower() == "latest":
        return None
    if not text.strip().isdigit() or int(text) == 0:
        raise OptionError(f"{name} must be latest or a number above 0, not '{text}'.")
    return int(text)

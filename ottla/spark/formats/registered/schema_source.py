"""Source of a key or value schema: a registry, or the options themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ottla.client.errors import ClientError
from ottla.client.schema_registry import AVRO, JSON, PROTOBUF, RegistrySettings, Schema, SchemaRegistry
from ottla.spark.options import OptionError

#: Format → schema type in the registry
TYPES = {"avro": AVRO, "protobuf": PROTOBUF, "jsonschema": JSON}


@dataclass(frozen=True)
class SchemaSource:
    """Selects the schema of the columns: `text` itself if given. Without `registry`, records have no prefix."""

    registry: RegistrySettings | None = None
    subject: str | None = None
    version: int | None = None
    id: int | None = None
    text: str | None = None
    #: Protobuf message, if it is not the first of its file.
    message: str | None = None


@lru_cache(maxsize=16)
def shared_registry(settings: RegistrySettings) -> SchemaRegistry:
    """Return the process-wide registry client, which caches responses."""
    return SchemaRegistry(settings)


def reader_schemas(source: SchemaSource, kind: str) -> Iterator[Schema]:
    """Yield the schema of the columns, then older versions for queries planned with one of those."""
    if source.text is not None:
        yield Schema(source.text, TYPES[kind])
        return
    assert source.registry is not None
    registry = shared_registry(source.registry)
    if source.id is not None:
        yield _of_kind(registry.by_id(source.id), kind, f"Schema {source.id}")
        return
    assert source.subject is not None
    what = f"Subject '{source.subject}'"
    if source.version is not None:
        yield _of_kind(registry.version(source.subject, source.version), kind, what)
        return
    latest = _of_kind(registry.latest(source.subject), kind, what)
    yield latest
    for version in sorted(registry.versions(source.subject), reverse=True):
        if version < latest.version:
            yield registry.version(source.subject, version)


def referenced(source: SchemaSource, schema: Schema) -> dict[str, Schema]:
    if source.registry is None or not schema.references:
        return {}
    return shared_registry(source.registry).referenced(schema)


def columns_schema(source: SchemaSource, kind: str) -> Schema:
    """Return the schema of the columns. Raises OptionError."""
    try:
        return next(reader_schemas(source, kind))
    except OptionError:
        raise
    except ClientError as error:
        raise OptionError(error.message) from None


def _of_kind(schema: Schema, kind: str, what: str) -> Schema:
    if schema.type != TYPES[kind]:
        named = {each: name for name, each in TYPES.items()}.get(schema.type, schema.type.lower())
        raise OptionError(f"{what} is {schema.type}, not {TYPES[kind]}: say {named} as the format.")
    return schema

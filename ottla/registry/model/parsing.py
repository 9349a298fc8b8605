"""From the text of a schema to a parsed one, with everything that it refers to."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ottla.registry import schemas
from ottla.registry.errors import MOST_QUOTED, invalid_schema
from ottla.registry.model.contracts import Reference
from ottla.registry.model.records import SchemaVersion
from ottla.registry.model.state import State
from ottla.registry.model.subjects import context_of, in_context
from ottla.registry.schemas import InvalidSchema, ParsedSchema

TYPES = ("JSON", "PROTOBUF", "AVRO")
_DEEPEST = 100  # references of references


def parse(
    state: State, subject: str, schema_type: str, text: str, references: Sequence[Reference]
) -> ParsedSchema:
    """RegistryError 42201, if it is not valid or if one of its references is not."""
    if schema_type not in TYPES:
        raise invalid_schema(f"Invalid schema type {schema_type}")
    if not text.strip():
        raise invalid_schema("Empty schema")
    try:
        resolved = _resolve(state, context_of(subject), references, 0)
        return _parse(schema_type, text, resolved)
    except RecursionError:
        raise invalid_schema("Invalid schema, details: it is nested too deeply.") from None
    except InvalidSchema as error:
        quoted = text if len(text) <= MOST_QUOTED else text[:MOST_QUOTED] + "…"
        refs = ", ".join(map(str, references))
        raise invalid_schema(
            f"Invalid schema {quoted} with refs [{refs}] of type {schema_type}, details: {error}"
        ) from None


def parse_version(state: State, version: SchemaVersion) -> ParsedSchema:
    return parse(state, version.subject, version.schema_type, version.schema, version.references)


def _resolve(
    state: State, context: str, references: Sequence[Reference], depth: int
) -> tuple[tuple[str, ParsedSchema], ...]:
    if depth > _DEEPEST:
        raise InvalidSchema("its references run in circles.")
    resolved = []
    for reference in references:
        subject = in_context(context, reference.subject)
        # A soft-deleted version can still be what an older schema refers to.
        found = state.version(subject, reference.version, deleted=reference.version != -1)
        if found is None:
            raise InvalidSchema(
                f'No schema reference found for subject "{subject}" and version {reference.version}'
            )
        inner = _resolve(state, context_of(subject), found.references, depth + 1)
        resolved.append((reference.name, _parse(found.schema_type, found.schema, inner)))
    return tuple(resolved)


@lru_cache(maxsize=2000)
def _parse(schema_type: str, text: str, references: tuple[tuple[str, ParsedSchema], ...]) -> ParsedSchema:
    """References are compared by identity, which the cache itself keeps the same."""
    return schemas.parse(schema_type, text, dict(references))

"""Parse the text of a schema together with all its references."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ottla.registry import schemas
from ottla.registry.errors import MOST_QUOTED, invalid_schema
from ottla.registry.model.contracts import Reference
from ottla.registry.model.records import SchemaVersion
from ottla.registry.model.state import Place, State
from ottla.registry.model.subjects import context_of, in_context
from ottla.registry.schemas import InvalidSchema, ParsedSchema

TYPES = ("JSON", "PROTOBUF", "AVRO")
_DEEPEST = 100  # depth of nested references
_LARGE = 64 * 1024

_References = tuple[tuple[str, ParsedSchema], ...]


def parse(
    state: State,
    subject: str,
    schema_type: str,
    text: str,
    references: Sequence[Reference],
    *,
    stored: bool = False,
) -> ParsedSchema:
    """Raises RegistryError 42201 if the schema or one of its references is invalid.

    `stored` schemas skip rules that another registry did not enforce at their registration.
    """
    if schema_type not in TYPES:
        raise invalid_schema(f"Invalid schema type {schema_type}")
    if not text.strip():
        raise invalid_schema("Empty schema")
    try:
        resolved = _Resolver(state).resolve(context_of(subject), references)
        return _parse(schema_type, text, resolved, stored)
    except ModuleNotFoundError:
        raise invalid_schema(
            f"Schemas of type {schema_type} need packages that are not installed on the server: "
            "pip install 'ottla[registry]'"
        ) from None
    except RecursionError:
        raise invalid_schema("Invalid schema, details: it is nested too deeply.") from None
    except InvalidSchema as error:
        quoted = text if len(text) <= MOST_QUOTED else text[:MOST_QUOTED] + "…"
        refs = ", ".join(map(str, references))
        raise invalid_schema(
            f"Invalid schema {quoted} with refs [{refs}] of type {schema_type}, details: {error}"
        ) from None


def parse_version(state: State, version: SchemaVersion) -> ParsedSchema:
    return parse(state, version.subject, version.schema_type, version.schema, version.references, stored=True)


def referenced_subjects(state: State, subject: str, references: Sequence[Reference]) -> set[str]:
    """Return all subjects that a schema of `subject` refers to, directly or indirectly."""
    found: set[str] = set()
    seen: set[Place] = set()
    waiting = [(context_of(subject), each) for each in references]
    while waiting:
        context, reference = waiting.pop()
        named = in_context(context, reference.subject)
        found.add(named)
        version = state.version(named, reference.version, deleted=reference.version != -1)
        if version is not None and (version.subject, version.version) not in seen:
            seen.add((version.subject, version.version))
            waiting += [(context_of(named), each) for each in version.references]
    return found


class _Resolver:
    """Resolves the direct and indirect references of one schema, parsing each version once."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._parsed: dict[Place, ParsedSchema] = {}
        self._open: list[Place] = []  # path from the schema to the current reference

    def resolve(self, context: str, references: Sequence[Reference]) -> _References:
        return tuple((each.name, self._one(context, each)) for each in references)

    def _one(self, context: str, reference: Reference) -> ParsedSchema:
        subject = in_context(context, reference.subject)
        # An older schema may refer to a soft-deleted version.
        found = self._state.version(subject, reference.version, deleted=reference.version != -1)
        if found is None:
            raise InvalidSchema(
                f'No schema reference found for subject "{subject}" and version {reference.version}'
            )
        place = (found.subject, found.version)
        if place in self._open or len(self._open) > _DEEPEST:
            raise InvalidSchema(f'The references of subject "{subject}" run in circles')
        if place not in self._parsed:
            self._open.append(place)
            inner = self.resolve(context_of(subject), found.references)
            self._parsed[place] = _parse(found.schema_type, found.schema, inner, True)
            self._open.pop()
        return self._parsed[place]


def _parse(schema_type: str, text: str, references: _References, stored: bool) -> ParsedSchema:
    parse_text = _parse_small if len(text) < _LARGE else _parse_large
    return parse_text(schema_type, text, references, stored)


# References are compared by identity, which the caches preserve. Few large schemas are kept: they use memory, and are
# used right after being parsed in a thread.


@lru_cache(maxsize=2000)
def _parse_small(schema_type: str, text: str, references: _References, stored: bool) -> ParsedSchema:
    return schemas.parse(schema_type, text, dict(references), stored=stored)


@lru_cache(maxsize=20)
def _parse_large(schema_type: str, text: str, references: _References, stored: bool) -> ParsedSchema:
    return schemas.parse(schema_type, text, dict(references), stored=stored)

"""Check whether a new schema may follow the existing versions."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.registry import schemas
from ottla.registry.errors import MOST_QUOTED, invalid_schema
from ottla.registry.model.contracts import Json
from ottla.registry.model.parsing import parse_version
from ottla.registry.model.records import SchemaVersion
from ottla.registry.model.state import State
from ottla.registry.schemas import ParsedSchema

_RESERVED = "confluent:reserved"


def check(
    state: State,
    config: Json,
    new: ParsedSchema,
    metadata: Json | None,
    versions: Sequence[SchemaVersion],
) -> list[str]:
    """Return incompatibilities in Confluent's words; empty if compatible. `versions` are in order.

    With a compatibilityGroup, only versions with the same value of that metadata property count. validateFields
    protects the fields that the metadata reserve. Raises RegistryError for names that validateFields forbids.
    """
    level = config["compatibilityLevel"]
    validates = config.get("validateFields") is True
    messages = _reserved_fields(new, metadata, versions) if validates else []
    group = config.get("compatibilityGroup")
    if group:
        value = _property(metadata, group)
        versions = [each for each in versions if _property(each.metadata, group) == value]
    messages += _differences(state, config, level, new, versions)
    if messages:
        messages.append(f"{{validateFields: '{str(validates).lower()}', compatibility: '{level}'}}")
    return messages


def _reserved_fields(
    new: ParsedSchema, metadata: Json | None, versions: Sequence[SchemaVersion]
) -> list[str]:
    for name in new.fields:
        if name.startswith("$$"):
            raise invalid_schema(f"Invalid schema, details: the field name {name} must not begin with $$")
    reserved = _reserved(metadata)
    removed = [each for each in _reserved(versions[-1].metadata) if each not in reserved] if versions else []
    return [
        *(
            f"The new schema has reserved field {each} removed from its metadata which is present in the old "
            "schema's metadata."
            for each in removed
        ),
        *(
            f"The new schema has field that conflicts with the reserved field {each}."
            for each in reserved
            if each in new.fields
        ),
    ]


def _reserved(metadata: Json | None) -> list[str]:
    names = (_property(metadata, _RESERVED) or "").split(",")
    return list(dict.fromkeys(each.strip() for each in names if each.strip()))


def _differences(
    state: State, config: Json, level: str, new: ParsedSchema, versions: Sequence[SchemaVersion]
) -> list[str]:
    if level == "NONE":
        return []
    wanted = versions if level.endswith("_TRANSITIVE") else versions[-1:]
    for version in reversed(wanted):
        messages = _between(state, config, level, new, version)
        if messages:
            old = version.schema if len(version.schema) <= MOST_QUOTED else version.schema[:MOST_QUOTED] + "…"
            return [*messages, f"{{oldSchemaVersion: {version.version}}}", f"{{oldSchema: '{old}'}}"]
    return []


def _between(state: State, config: Json, level: str, new: ParsedSchema, version: SchemaVersion) -> list[str]:
    old = parse_version(state, version)
    policy = config.get("compatibilityPolicy") or "STRICT"
    found: list[str] = []
    if not level.startswith("FORWARD"):
        found += [each.message() for each in schemas.check(new, old, policy)]
    if not level.startswith("BACKWARD"):
        found += [each.message(reader="old", writer="new") for each in schemas.check(old, new, policy)]
    return found


def _property(metadata: Json | None, name: str) -> str | None:
    value = (metadata or {}).get("properties", {}).get(name)
    return None if value is None else str(value)

"""Check whether a new schema may follow the existing versions."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.registry import schemas
from ottla.registry.errors import MOST_QUOTED
from ottla.registry.model.contracts import Json
from ottla.registry.model.parsing import parse_version
from ottla.registry.model.records import SchemaVersion
from ottla.registry.model.state import State
from ottla.registry.schemas import ParsedSchema


def comparable(
    config: Json, metadata: Json | None, versions: Sequence[SchemaVersion]
) -> Sequence[SchemaVersion]:
    """Return the comparable versions: with a compatibilityGroup, those with the same
    value of that metadata property.
    """
    group = config.get("compatibilityGroup")
    if not group:
        return versions
    value = _property(metadata, group)
    return [each for each in versions if _property(each.metadata, group) == value]


def check(
    state: State,
    config: Json,
    new: ParsedSchema,
    versions: Sequence[SchemaVersion],
    *,
    level: str | None = None,
) -> list[str]:
    """Return incompatibilities in Confluent's words; empty if compatible. `versions` are in order."""
    level = level or config["compatibilityLevel"]
    if level == "NONE":
        return []
    wanted = versions if level.endswith("_TRANSITIVE") else versions[-1:]
    for version in reversed(wanted):
        messages = _between(state, config, level, new, version)
        if messages:
            old = version.schema if len(version.schema) <= MOST_QUOTED else version.schema[:MOST_QUOTED] + "…"
            validates = "true" if config.get("validateFields") else "false"
            return [
                *messages,
                f"{{oldSchemaVersion: {version.version}}}",
                f"{{oldSchema: '{old}'}}",
                f"{{validateFields: '{validates}', compatibility: '{level}'}}",
            ]
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

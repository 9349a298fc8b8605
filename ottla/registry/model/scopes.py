"""Effective config and mode: of the subject, its context, all contexts, or the default."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.registry.model.contracts import Json
from ottla.registry.model.state import State
from ottla.registry.model.subjects import DEFAULT_CONTEXT, GLOBAL_CONTEXT, context_prefix, parse_subject

LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
POLICIES = ("LOGICAL", "STRICT", "LENIENT")
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")
READ_ONLY = ("READONLY", "READONLY_OVERRIDE")


@dataclass(frozen=True)
class Defaults:
    """Defaults from the registry's settings."""

    compatibility_level: str = "BACKWARD"
    mode: str = "READWRITE"


def scope_key(subject: str | None) -> str | None:
    """Return the storage key of a config or mode: for a subject, a context (a subject without a name), or globally."""
    if subject is None:
        return None
    parsed = parse_subject(subject)
    if not parsed.name:
        return None if parsed.context == DEFAULT_CONTEXT else context_prefix(parsed.context)
    return str(parsed)


def scopes(subject: str | None) -> list[str | None]:
    """Return the scopes from the narrowest to the widest."""
    keys: list[str | None] = []
    if subject is not None:
        parsed = parse_subject(subject)
        if parsed.name:
            keys.append(str(parsed))
        if parsed.context not in (DEFAULT_CONTEXT, GLOBAL_CONTEXT):
            keys += [context_prefix(parsed.context), context_prefix(GLOBAL_CONTEXT), None]
            return keys
        if parsed.context == GLOBAL_CONTEXT:
            return [*keys, context_prefix(GLOBAL_CONTEXT), None]
    return [*keys, None, context_prefix(GLOBAL_CONTEXT)]


def effective_config(state: State, subject: str | None, defaults: Defaults) -> Json:
    """Take each field from the narrowest scope that has it."""
    config: Json = {"compatibilityLevel": defaults.compatibility_level}
    keys = scopes(subject)
    for key in reversed(keys):
        config.update(
            # An alias applies to this subject only.
            (name, value)
            for name, value in state.configs.get(key, {}).items()
            if name != "subject" and (name != "alias" or key == keys[0])
        )
    return config


def effective_mode(state: State, subject: str | None, defaults: Defaults) -> str:
    found = [state.modes[key] for key in scopes(subject) if key in state.modes]
    if "READONLY_OVERRIDE" in found:
        return "READONLY_OVERRIDE"
    return found[0] if found else defaults.mode


def resolve_alias(state: State, subject: str) -> str:
    """Resolve an alias, without following further aliases."""
    alias = state.configs.get(scope_key(subject), {}).get("alias")
    if not alias:
        return subject
    parsed = parse_subject(str(alias))
    if str(alias).startswith(":."):
        return str(parsed)
    return str(parsed._replace(context=parse_subject(subject).context))

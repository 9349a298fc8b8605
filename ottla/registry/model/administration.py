"""Commands that change configs, modes and contexts."""

from __future__ import annotations

from typing import Any

from ottla.registry import errors
from ottla.registry.model.contracts import Json, check_rule_set, read_metadata, read_rule_set
from ottla.registry.model.records import CONFIG, CONTEXT, MODE, Key, Write
from ottla.registry.model.scopes import (
    LEVELS,
    MODES,
    POLICIES,
    READ_ONLY,
    Defaults,
    effective_mode,
    scope_key,
)
from ottla.registry.model.state import State
from ottla.registry.model.subjects import DEFAULT_CONTEXT, context_of, parse_subject

#: In the order of storage and responses.
FIELDS = (
    "alias",
    "normalize",
    "validateFields",
    "validateRules",
    "compatibilityLevel",
    "compatibilityPolicy",
    "compatibilityGroup",
    "defaultMetadata",
    "overrideMetadata",
    "defaultRuleSet",
    "overrideRuleSet",
)
_FLAGS = ("normalize", "validateFields", "validateRules")
_TEXTS = ("alias", "compatibilityGroup")


def set_config(state: State, subject: str | None, request: Json, defaults: Defaults) -> list[Write]:
    """Set a config. Omitted fields stay; null removes a field."""
    _check_writable(state, subject, defaults)
    key = scope_key(subject)
    config = {name: value for name, value in state.configs.get(key, {}).items() if name in FIELDS}
    for name in FIELDS:
        asked = "compatibility" if name == "compatibilityLevel" else name
        if asked not in request and name in request:
            asked = name
        if asked in request:
            config[name] = _read(name, request[asked])
    ordered = {name: config[name] for name in FIELDS if config.get(name) is not None}
    return [Write(Key(CONFIG, key), ordered)]


def _read(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "compatibilityLevel":
        level = str(value).upper()
        if level not in LEVELS:
            raise errors.invalid_level()
        return level
    if name == "compatibilityPolicy":
        policy = str(value).upper()
        if policy not in POLICIES:
            raise errors.unprocessable(
                f"Invalid compatibility policy. Valid values are {', '.join(POLICIES)}"
            )
        return policy
    if name in _FLAGS:
        if not isinstance(value, bool):
            raise errors.bad_request(f"{name} must be true or false.")
        return value
    if name in _TEXTS:
        if not isinstance(value, str):
            raise errors.bad_request(f"{name} must be a string.")
        return value
    if name.endswith("Metadata"):
        return read_metadata(value)
    rules = read_rule_set(value)
    check_rule_set(rules)
    return rules


def delete_config(state: State, subject: str | None, defaults: Defaults) -> tuple[Json, list[Write]]:
    """Return the previous config."""
    _check_writable(state, subject, defaults)
    key = scope_key(subject)
    if key not in state.configs:
        if subject is not None and key is not None:
            raise errors.subject_not_found(subject)
        return {"compatibilityLevel": defaults.compatibility_level}, []
    return state.configs[key], [Write(Key(CONFIG, key), None)]


def _check_writable(state: State, subject: str | None, defaults: Defaults) -> None:
    if effective_mode(state, subject, defaults) in READ_ONLY:
        raise errors.not_permitted(
            "The registry is in read-only mode"
            if subject is None
            else f"Subject {subject} is in read-only mode"
        )


def set_mode(state: State, subject: str | None, mode: object, *, force: bool = False) -> list[Write]:
    """Set the mode. IMPORT requires an empty scope, unless forced."""
    name = mode.upper() if isinstance(mode, str) else ""
    if name not in MODES:
        raise errors.invalid_mode()
    key = scope_key(subject)
    if name == "IMPORT" and state.modes.get(key) != "IMPORT" and not force:
        _check_empty(state, subject)
    return [Write(Key(MODE, key), {"mode": name})]


def _check_empty(state: State, subject: str | None) -> None:
    scope = parse_subject(subject or "")
    if scope.name:
        occupied = next(state.versions(str(scope)), None) is not None
    else:
        occupied = any(context_of(each) == scope.context for each in state.subject_names())
    if occupied:
        raise errors.not_permitted("Cannot import since found existing subjects")


def delete_mode(
    state: State, subject: str | None, defaults: Defaults, *, recursive: bool = False
) -> tuple[str, list[Write]]:
    """Return the previous mode. `recursive` also deletes the modes of all subjects in a context."""
    key = scope_key(subject)
    scope = parse_subject(subject or "")
    if recursive and not scope.name:
        inner = [each for each in state.modes if each and parse_subject(each).context == scope.context]
        mode = state.modes.get(key, defaults.mode)
        return mode, [
            Write(Key(MODE, each), None) for each in dict.fromkeys([key, *inner]) if each in state.modes
        ]
    if key not in state.modes:
        if subject is not None and key is not None:
            raise errors.subject_not_found(subject)
        return defaults.mode, []
    return state.modes[key], [Write(Key(MODE, key), None)]


def delete_context(state: State, context: str) -> list[Write]:
    if context == DEFAULT_CONTEXT or any(context_of(each) == context for each in state.subjects):
        raise errors.context_not_empty(context)
    return [Write(Key(CONTEXT, context=context), None)] if context in state.named_contexts else []

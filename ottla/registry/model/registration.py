"""Registering, looking up and deleting schemas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ottla.registry import errors
from ottla.registry.model import compatibility
from ottla.registry.model.contracts import (
    Json,
    Reference,
    check_rule_set,
    content_md5,
    merge_metadata,
    merge_rule_sets,
)
from ottla.registry.model.parsing import parse
from ottla.registry.model.records import (
    CONFIG,
    CONTEXT,
    DELETE_SUBJECT,
    MODE,
    TENANT,
    Key,
    SchemaVersion,
    Write,
)
from ottla.registry.model.scopes import READ_ONLY, Defaults, effective_config, effective_mode
from ottla.registry.model.state import State
from ottla.registry.model.subjects import DEFAULT_CONTEXT, context_of, in_context
from ottla.registry.schemas import ParsedSchema

# Registration and lookup of schemas under a subject.


@dataclass(frozen=True)
class Given:
    """A schema sent by a client. The registry assigns a missing id or version."""

    schema: str
    schema_type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    metadata: Json | None = None
    rule_set: Json | None = None
    id: int = -1
    version: int = 0


@dataclass(frozen=True)
class Registration:
    """The response and the records to write; none if the schema existed already."""

    version: SchemaVersion
    writes: tuple[Write, ...] = ()


def register(
    state: State, subject: str, given: Given, defaults: Defaults, *, normalize: bool = False
) -> Registration:
    mode = effective_mode(state, subject, defaults)
    _check_mode(subject, mode, given)
    config = effective_config(state, subject, defaults)
    normalize = normalize or config.get("normalize") is True
    check_rule_set(given.rule_set)
    given = _pinned(state, subject, given)
    parsed = parse(state, subject, given.schema_type, given.schema, given.references)
    text = parsed.normalized if normalize else parsed.canonical
    references = tuple(sorted(set(given.references))) if normalize else given.references
    given = replace(given, schema=text, references=references)
    merged = given if mode == "IMPORT" else _with_contracts(state, subject, given, config)

    existing = _same_in(state.versions(subject, deleted=True), merged)
    if existing is not None and not existing.deleted and _is_that(existing, given):
        return Registration(existing)
    if given.id < 0:
        existing = existing or lookup_version(state, subject, given)
        if existing is not None and not existing.deleted:
            return Registration(existing)
    if mode != "IMPORT":
        _check_version(state, subject, given)
        versions = list(state.versions(subject))
        messages = compatibility.check(state, config, parsed, merged.metadata, versions)
        if messages:
            raise errors.incompatible(subject, messages)
    return _new_version(state, subject, merged)


def _check_mode(subject: str, mode: str, given: Given) -> None:
    if mode in READ_ONLY:
        raise errors.not_permitted(f"Subject {subject} is in read-only mode")
    if given.id >= 0 and mode != "IMPORT":
        raise errors.not_permitted(f"Subject {subject} is not in import mode")
    if given.id < 0 and mode == "IMPORT":
        raise errors.not_permitted(f"Subject {subject} is in import mode")


def _check_version(state: State, subject: str, given: Given) -> None:
    highest = state.latest(subject, deleted=True)
    if given.version not in (0, 1 if highest is None else highest.version + 1):
        raise errors.invalid_schema("Version is not one more than previous version")


def _pinned(state: State, subject: str, given: Given) -> Given:
    """Replace references to the latest version (-1) by the current version number."""
    if all(each.version != -1 for each in given.references):
        return given
    pinned = []
    for reference in given.references:
        if reference.version == -1:
            latest = state.latest(in_context(context_of(subject), reference.subject))
            reference = reference if latest is None else reference._replace(version=latest.version)
        pinned.append(reference)
    return replace(given, references=tuple(pinned))


def _with_contracts(state: State, subject: str, given: Given, config: Json) -> Given:
    """Complete metadata and rules: omitted ones come from the latest version, between defaults and overrides."""
    latest = state.latest(subject)
    metadata = given.metadata if given.metadata is not None or latest is None else latest.metadata
    rules = given.rule_set if given.rule_set is not None or latest is None else latest.rule_set
    metadata = merge_metadata(config.get("defaultMetadata"), metadata)
    rules = merge_rule_sets(config.get("defaultRuleSet"), rules)
    return replace(
        given,
        metadata=merge_metadata(metadata, config.get("overrideMetadata")),
        rule_set=merge_rule_sets(rules, config.get("overrideRuleSet")),
    )


def _is_that(existing: SchemaVersion, given: Given) -> bool:
    """Match an import that names id and version exactly."""
    return given.id in (-1, existing.id) and given.version in (0, existing.version)


def _new_version(state: State, subject: str, given: Given) -> Registration:
    context = context_of(subject)
    md5 = content_md5(given.schema, given.references, given.metadata, given.rule_set)
    known = state.id_of(context, md5)
    highest = state.latest(subject, deleted=True)
    number = given.version or (1 if highest is None else highest.version + 1)
    if given.id >= 0:
        _check_import(state, subject, given, md5, number)
    schema_id = given.id if given.id >= 0 else (state.next_id(context) if known is None else known)
    version = SchemaVersion(
        subject,
        number,
        schema_id,
        given.schema,
        given.schema_type,
        given.references,
        given.metadata,
        given.rule_set,
    )
    writes = []
    if context != DEFAULT_CONTEXT and context not in state.named_contexts:
        writes.append(Write(Key(CONTEXT, context=context), {"tenant": TENANT, "context": context}))
    writes.append(version.write())
    # Replaces the same schema after a soft deletion.
    writes += [
        Write(each.key, None)
        for each in state.versions(subject, deleted=True)
        if each.deleted
        and each.md5 == md5
        and each.version != number
        and not state.referring_to(subject, each.version)
    ]
    return Registration(version, tuple(writes))


def _check_import(state: State, subject: str, given: Given, md5: bytes, number: int) -> None:
    held = state.places_of(context_of(subject), given.id)
    if held and all(each.md5 != md5 for each in held.values()):
        raise errors.not_permitted(f"Overwrite new schema with id {given.id} is not permitted.")
    there = state.version(subject, number)
    if there is not None and there.md5 == md5 and there.id != given.id:
        raise errors.id_does_not_match(there.id, given.id)


def _same_in(versions: Iterable[SchemaVersion], given: Given) -> SchemaVersion | None:
    """Return the newest version with this content, preferring one that is not deleted."""
    md5 = content_md5(given.schema, given.references, given.metadata, given.rule_set)
    same = [each for each in versions if each.md5 == md5]
    return max(same, key=lambda each: (not each.deleted, each.version), default=None)


# Lookup


def lookup(
    state: State,
    subject: str,
    given: Given,
    defaults: Defaults,
    *,
    normalize: bool = False,
    deleted: bool = False,
) -> SchemaVersion:
    if next(state.versions(subject, deleted=deleted), None) is None:
        raise errors.subject_not_found(subject)
    config = effective_config(state, subject, defaults)
    given = _pinned(state, subject, given)
    parsed = parse(state, subject, given.schema_type, given.schema, given.references, stored=True)
    found = None
    for text in _spellings(parsed, given, normalize or config.get("normalize") is True):
        found = lookup_version(state, subject, replace(given, schema=text), deleted=deleted)
        if found is not None:
            return found
    raise errors.schema_not_found()


def _spellings(parsed: ParsedSchema, given: Given, normalize: bool) -> list[str]:
    """Return equivalent texts, because Confluent's registry may have stored the original one."""
    if normalize:
        return [parsed.normalized, parsed.canonical]
    return list(dict.fromkeys([parsed.canonical, given.schema]))


def lookup_version(
    state: State, subject: str, given: Given, *, deleted: bool = False
) -> SchemaVersion | None:
    """Find the same content. Without metadata and rules in the request, those of versions are ignored."""
    found = _same_in(state.versions(subject, deleted=deleted), given)
    if found is not None or given.metadata is not None or given.rule_set is not None:
        return found
    same = [
        each
        for each in state.versions(subject, deleted=deleted)
        if each.schema == given.schema
        and each.references == given.references
        and each.schema_type == given.schema_type
    ]
    return max(same, key=lambda each: (not each.deleted, each.version), default=None)


# Deletion of versions and subjects: soft first, then permanent.


def delete_version(
    state: State, subject: str, number: int, defaults: Defaults, *, permanent: bool = False
) -> tuple[int, list[Write]]:
    """Return the deleted version, and the records to write."""
    _check_deletion_mode(state, subject, defaults)
    if subject not in state.subjects:
        raise errors.subject_not_found(subject)
    if number == -1:
        latest = state.latest(subject, deleted=permanent)
        if latest is None:
            raise errors.version_not_found("latest")
        number = latest.version
    held = state.version(subject, number, deleted=True)
    if held is None:
        raise errors.version_not_found(number)
    _check_unreferenced(state, subject, number)
    if permanent:
        if not held.deleted:
            raise errors.version_not_soft_deleted(subject, number)
        writes = [Write(held.key, None)]
        if all(each.version == number for each in state.versions(subject, deleted=True)):
            writes += _settings_of(state, subject)
        return number, writes
    if held.deleted:
        raise errors.version_soft_deleted(subject, number)
    return number, [held.as_deleted().write()]


def delete_subject(
    state: State, subject: str, defaults: Defaults, *, permanent: bool = False
) -> tuple[list[int], list[Write]]:
    _check_deletion_mode(state, subject, defaults)
    every = list(state.versions(subject, deleted=True))
    if not every:
        raise errors.subject_not_found(subject)
    live = [each.version for each in every if not each.deleted]
    if permanent and live:
        raise errors.subject_not_soft_deleted(subject)
    if not permanent and not live:
        raise errors.subject_soft_deleted(subject)
    for each in every:
        _check_unreferenced(state, subject, each.version)
    if permanent:
        writes = [*(Write(each.key, None) for each in every), *_settings_of(state, subject)]
        return [each.version for each in every], writes
    return live, [Write(Key(DELETE_SUBJECT, subject), {"subject": subject, "version": max(live)})]


def _check_deletion_mode(state: State, subject: str, defaults: Defaults) -> None:
    if effective_mode(state, subject, defaults) in READ_ONLY:
        raise errors.not_permitted(f"Subject {subject} is in read-only mode")


def _check_unreferenced(state: State, subject: str, version: int) -> None:
    if any(each.subject != subject for each in state.referring_to(subject, version)):
        raise errors.reference_exists(subject, version)


def _settings_of(state: State, subject: str) -> list[Write]:
    """Remove config and mode of a subject whose last version is deleted permanently."""
    writes = []
    if subject in state.modes:
        writes.append(Write(Key(MODE, subject), None))
    if subject in state.configs:
        writes.append(Write(Key(CONFIG, subject), None))
    return writes

"""Deletion of versions and subjects: soft first, then permanent."""

from __future__ import annotations

from ottla.registry import errors
from ottla.registry.model.records import CONFIG, DELETE_SUBJECT, MODE, Key, Write
from ottla.registry.model.scopes import READ_ONLY, Defaults, effective_mode
from ottla.registry.model.state import State


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

"""Masked fields, hidden everywhere: on pages, in searches, in exports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from ottla.console.access.roles import User
from ottla.console.messages.decoding import Shown, ShownMessage
from ottla.console.settings import Mask

_EVERYTHING = "*"


def masker_of(masks: Sequence[Mask], topic: str, user: User) -> Masker | None:
    """Return None if nothing is hidden from this user."""
    roles = {role.name for role in user.roles}
    found = [
        mask
        for mask in masks
        if any(fnmatchcase(topic, pattern) for pattern in mask.topics) and not roles & mask.except_roles
    ]
    return Masker(found) if found else None


class Masker:
    """Hides fields. A value without fields is hidden as a whole, because its content is unknown.

    A key without fields stays, unless everything is hidden or the key could not be decoded.
    """

    def __init__(self, masks: Sequence[Mask]) -> None:
        self.masks = masks

    def __call__(self, message: ShownMessage) -> ShownMessage:
        for mask in self.masks:
            hide_all = _EVERYTHING in mask.fields
            message = replace(
                message,
                key=self._part(message.key, mask, whole=hide_all),
                value=self._part(message.value, mask, whole=hide_all or not message.value.is_structured),
                headers=tuple(
                    (name, self._part(each, mask, whole=hide_all or f"headers.{name}" in mask.fields))
                    for name, each in message.headers
                ),
            )
        return message

    def _part(self, part: Shown, mask: Mask, *, whole: bool) -> Shown:
        if part.format == "null":
            return part
        if whole:
            return Shown("masked", mask.replace, 0)
        if not part.is_structured:
            return Shown("masked", mask.replace, 0) if _may_have_fields(part) else part
        value = part.value
        for field in mask.fields:
            value = _hidden(value, field.split("."), mask.replace)
        return replace(part, value=value)


def _may_have_fields(part: Shown) -> bool:
    return bool(part.note) or (part.format == "text" and str(part.value).lstrip()[:1] in ("{", "["))


def _hidden(value: Any, path: list[str], mask: str) -> Any:
    """Hide a field, descending into each list element and through the type names of Avro unions."""
    if isinstance(value, list):
        return [_hidden(each, path, mask) for each in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for name, each in value.items():
        if name == path[0]:
            found[name] = mask if len(path) == 1 else _hidden(_unwrapped(each), path[1:], mask)
        else:
            found[name] = each
    return found


def _unwrapped(value: Any) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        [(name, inner)] = value.items()
        if isinstance(inner, dict) and ("." in name or name == "map"):
            return inner
    return value

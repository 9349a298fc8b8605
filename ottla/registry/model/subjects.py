"""Subjects and their contexts: `:.context:subject`, or the subject alone in the default context."""

from __future__ import annotations

import re
from typing import NamedTuple

from ottla.registry.errors import invalid_subject

DEFAULT_CONTEXT = "."
#: Its config and mode apply to all contexts.
GLOBAL_CONTEXT = ".__GLOBAL"
#: As a prefix it selects the subjects of all contexts.
ANY_CONTEXT = ":*:"

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_RESERVED = ("__GLOBAL", "__EMPTY")
_LONGEST = 255


class Subject(NamedTuple):
    context: str
    name: str

    def __str__(self) -> str:
        """Format as stored and as used by clients."""
        return self.name if self.context == DEFAULT_CONTEXT else f":{self.context}:{self.name}"


def parse_subject(text: str) -> Subject:
    if text.startswith(":."):
        context, _, name = text[1:].partition(":")
        return Subject(context, name)
    return Subject(DEFAULT_CONTEXT, text)


def checked_subject(text: str) -> str:
    """Return the stored name. Raises RegistryError for invalid subjects."""
    subject = parse_subject(text)
    if not subject.name or subject.name in _RESERVED or _CONTROL.search(text) or len(text) > _LONGEST:
        raise invalid_subject(text)
    return str(subject)


def context_of(subject: str) -> str:
    return parse_subject(subject).context


def in_context(context: str, subject: str) -> str:
    """Return the subject in this context, unless it names one itself."""
    return subject if subject.startswith(":.") else str(Subject(context, subject))


def context_name(text: str) -> str:
    """Accept `ctx`, `.ctx` and `:.ctx:` for the same context."""
    name = text.strip(":") or DEFAULT_CONTEXT
    name = name if name.startswith(".") else f".{name}"
    if _CONTROL.search(name) or ":" in name:
        raise invalid_subject(text)
    return name


def context_prefix(context: str) -> str:
    """Return the storage key for configs and modes of a whole context; None for the default one."""
    return f":{context}:"

"""Authorization per subject: operations of Confluent's security plugin, and ACLs that allow them.

The ACLs are lines in a file (`confluent.schema.registry.acl.file`), with the options of Confluent's `sr-acl-cli`:

    --principal ann --subject orders-value --operation SUBJECT_READ:SUBJECT_WRITE
    --principal * --operation GLOBAL_SUBJECTS_READ
"""

from __future__ import annotations

import enum
import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from ottla.http import HttpError, Request
from ottla.registry.model.contracts import Reference
from ottla.registry.model.parsing import referenced_subjects
from ottla.registry.model.scopes import resolve_alias
from ottla.registry.model.state import State
from ottla.registry.model.subjects import context_name, in_context, parse_subject
from ottla.registry.security.schema_subjects import subjects_of_schema


class Operation(enum.Enum):
    SUBJECT_READ = enum.auto()
    SUBJECT_WRITE = enum.auto()
    SUBJECT_DELETE = enum.auto()
    SUBJECT_COMPATIBILITY_READ = enum.auto()
    SUBJECT_COMPATIBILITY_WRITE = enum.auto()
    GLOBAL_SUBJECTS_READ = enum.auto()
    GLOBAL_COMPATIBILITY_READ = enum.auto()
    GLOBAL_COMPATIBILITY_WRITE = enum.auto()
    GLOBAL_READ = enum.auto()
    GLOBAL_WRITE = enum.auto()
    #: Never granted directly: the right to read one of the schema's subjects implies it.
    SCHEMA_READ = enum.auto()


class BadAcls(ValueError):
    """A malformed ACL file. The message names file and line."""


@dataclass(frozen=True)
class SubjectAcl:
    principal: str  # `*` is everyone
    subject: str  # `*` matches any text; empty for operations on the whole registry
    operations: frozenset[Operation]


class Rights:
    """Rights without limits. `LimitedRights` is for registries with ACLs."""

    are_limited = False

    def check(self, request: Request, operation: Operation) -> None:
        """Raises HttpError 403."""

    def may_read(self, request: Request, subject: str) -> bool:
        return True

    def check_references(self, request: Request, subject: str, references: Sequence[Reference]) -> None:
        """Raises HttpError 403 unless the caller may read every subject that a schema refers to.

        Indirect references count as well. The schema belongs to `subject`.
        """


class LimitedRights(Rights):
    are_limited = True

    def __init__(self, state: Callable[[], State], super_users: Collection[str] = ()) -> None:
        self._state = state
        self._super_users = frozenset(super_users)

    def is_allowed(self, request: Request, operation: Operation, subject: str) -> bool:
        """`subject` is "" for operations on the whole registry."""
        raise NotImplementedError

    def is_super(self, request: Request) -> bool:
        return request.principal.name in self._super_users

    def check(self, request: Request, operation: Operation) -> None:
        if self.is_super(request):
            return
        if operation is Operation.SCHEMA_READ:
            subjects = subjects_of_schema(self._state(), request)
            allowed = any(self.is_allowed(request, Operation.SUBJECT_READ, each) for each in subjects)
        else:
            allowed = all(self.is_allowed(request, operation, each) for each in self._subjects(request))
        if not allowed:
            raise HttpError(403, 40301, f"User is denied operation {operation.name} on this Subject")

    def may_read(self, request: Request, subject: str) -> bool:
        return self.is_super(request) or self.is_allowed(request, Operation.SUBJECT_READ, subject)

    def check_references(self, request: Request, subject: str, references: Sequence[Reference]) -> None:
        for each in referenced_subjects(self._state(), subject, references):
            if not self.may_read(request, each):
                raise HttpError(
                    403, 40301, "User is denied operation SUBJECT_READ on a Subject that the schema refers to"
                )

    def _subjects(self, request: Request) -> set[str]:
        """Return the named subject and the target of its alias; "" for the whole registry."""
        subject = request.params.get("subject", "")
        if not subject:
            return {""}
        if "context" in request.params:
            subject = in_context(context_name(request.params["context"]), subject)
        # `:.:` is the default context without a subject; it must not count as the whole registry.
        subject = str(parse_subject(subject)) or subject
        return {subject, resolve_alias(self._state(), subject)}


class AclFileRights(LimitedRights):
    """Rights from a file of ACLs."""

    def __init__(
        self, acls: Iterable[SubjectAcl], state: Callable[[], State], super_users: Collection[str] = ()
    ) -> None:
        super().__init__(state, super_users)
        self._acls = list(acls)

    def is_allowed(self, request: Request, operation: Operation, subject: str) -> bool:
        principal = request.principal.name
        return any(
            acl.principal in ("*", principal)
            and operation in acl.operations
            and (not subject or fnmatchcase(subject, acl.subject))
            for acl in self._acls
        )


def read_acls(path: Path) -> list[SubjectAcl]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BadAcls(f"The ACLs in {path} cannot be read: {reason}.") from None
    acls = []
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                acls.append(_parse(line))
            except ValueError as error:
                raise BadAcls(f"{path}, line {number}: {error}.") from None
    return acls


def _parse(line: str) -> SubjectAcl:
    words = shlex.split(line)
    options: dict[str, str] = {}
    for name, value in zip(words[::2], words[1::2], strict=False):
        options[name.lstrip("-")] = value
    if len(words) % 2 or not options.keys() <= {"principal", "subject", "operation", "topic", "p", "s", "o"}:
        raise ValueError("write --principal NAME --subject SUBJECT --operation OPERATION:OPERATION")
    principal = options.get("principal", options.get("p", ""))
    names = options.get("operation", options.get("o", "")).replace(",", ":").upper()
    if not principal or not names:
        raise ValueError("it needs a --principal and an --operation")
    if names == "*":
        operations = frozenset(Operation)
    else:
        unknown = [name for name in names.split(":") if name not in Operation.__members__]
        if unknown or "SCHEMA_READ" in names.split(":"):
            raise ValueError(f"there is no operation {(unknown or ['SCHEMA_READ'])[0]} to allow")
        operations = frozenset(Operation[name] for name in names.split(":"))
    return SubjectAcl(principal, options.get("subject", options.get("s", "")), operations)

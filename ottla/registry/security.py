"""Logins of the registry, and rights per subject."""

from __future__ import annotations

import enum
import os
import re
import shlex
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from ottla.client.http_login import KafkaLogin
from ottla.http import Access, BasicAuthentication, HttpError, Request
from ottla.http.authentication import Authenticate, BadPasswordFile, read_password_file
from ottla.registry.model.contracts import Reference
from ottla.registry.model.parsing import referenced_subjects
from ottla.registry.model.scopes import resolve_alias
from ottla.registry.model.state import State
from ottla.registry.model.subjects import DEFAULT_CONTEXT, context_name, context_of, in_context, parse_subject
from ottla.registry.settings import BadSettings, RegistrySettings
from ottla.security.acls import Acl, Entry, ResourcePattern, ResourceType
from ottla.security.acls import Operation as Kafka
from ottla.security.authorizer import Authorizer
from ottla.security.jaas import BadJaas, parse_file

# Logins: BASIC as in Confluent's servers, or KAFKA with the users of the cluster.
#
#     authentication.method=BASIC
#     authentication.roles=admin,developer
#     authentication.realm=SchemaRegistry-Props
#
# The users are in the password file named by the JAAS section of that realm, in the JAAS file that
# `SCHEMA_REGISTRY_OPTS` names by `-Djava.security.auth.login.config=`, or in
# `authentication.password.file`.

_REALM = "SchemaRegistry-Props"
_JAAS_FILE = re.compile(r"-Djava\.security\.auth\.login\.config=(\"[^\"]*\"|\S+)")


def authentication(settings: RegistrySettings) -> Authenticate | None:
    """Return None if no login is required."""
    properties = settings.properties
    method = properties.get("authentication.method", "NONE").strip().upper() or "NONE"
    if method == "NONE":
        return None
    if method == "KAFKA":
        return KafkaLogin(settings.client, realm="schema-registry")
    if method != "BASIC":
        raise BadSettings(f"authentication.method {method} is unknown. Use NONE, BASIC or KAFKA.")
    realm = properties.get("authentication.realm") or _REALM
    path = properties.get("authentication.password.file") or _file_of_jaas(realm)
    if not path:
        raise BadSettings(
            "authentication.method=BASIC needs a file with users: name it in authentication.password.file, or in "
            f"section {realm} of the JAAS file in SCHEMA_REGISTRY_OPTS."
        )
    try:
        users = read_password_file(path)
    except BadPasswordFile as error:
        raise BadSettings(str(error)) from None
    # Jetty's ** admits any logged-in user, with or without a role.
    given = properties.get("authentication.roles", "*").replace("**", "*")
    roles = [each.strip() for each in given.split(",")]
    return BasicAuthentication(users, realm=realm, roles=roles)


def _file_of_jaas(realm: str) -> str:
    found = _JAAS_FILE.search(os.environ.get("SCHEMA_REGISTRY_OPTS", ""))
    if found is None:
        return ""
    path = Path(found[1].strip('"'))
    try:
        sections = parse_file(path.read_text("utf-8"))
    except OSError as error:
        raise BadSettings(f"The JAAS file {path} cannot be read: {error.strerror}.") from None
    except (BadJaas, UnicodeDecodeError) as error:
        raise BadSettings(f"The JAAS file {path} cannot be read: {error}.") from None
    return next((module.options.get("file", "") for module in sections.get(realm, ())), "")


# Subjects of a request for a schema by id or guid.


def subjects_of_schema(state: State, request: Request) -> set[str]:
    if "guid" in request.params:
        try:
            md5 = uuid.UUID(request.params["guid"]).bytes
        except ValueError:
            return set()
        places = [place for found in state.guids.get(md5, ()) for place in state.places_of(*found)]
        return {subject for subject, _ in places}
    text = request.params["id"]
    if not text.isdecimal():
        return set()
    context = DEFAULT_CONTEXT
    if "context" in request.params:
        context = context_name(request.params["context"])
    elif request.query.get("subject", "").startswith(":."):
        context = context_of(request.query["subject"])
    return {subject for subject, _ in state.places_of(context, int(text))}


# Authorization per subject: operations of Confluent's security plugin, and ACLs that allow them.
#
# The ACLs are lines in a file (`confluent.schema.registry.acl.file`), with the options of Confluent's `sr-acl-cli`:
#
#     --principal ann --subject orders-value --operation SUBJECT_READ:SUBJECT_WRITE
#     --principal * --operation GLOBAL_SUBJECTS_READ


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


# Rights on subjects derived from the cluster's topic ACLs, for callers that log in with their Kafka users.
#
# The topic of a subject is its name without `-key` or `-value`. The rules are those of Confluent's TopicAclAuthorizer:
#
#     READ or WRITE on the topic     read its schemas, config and mode
#     WRITE                          register schemas, test their compatibility
#     DELETE                         delete versions and the subject
#     ALTER_CONFIGS                  change the compatibility
#     DESCRIBE on the cluster        list subjects
#     ALTER on the cluster           everything
#
# Subjects outside of the default context belong to no topic, so only ALTER on the cluster gives rights on them.

_ON_TOPIC = {
    Operation.SUBJECT_READ: (Kafka.READ, Kafka.WRITE),
    Operation.SUBJECT_COMPATIBILITY_READ: (Kafka.READ, Kafka.WRITE),
    Operation.SUBJECT_WRITE: (Kafka.WRITE,),
    Operation.SUBJECT_DELETE: (Kafka.DELETE,),
    Operation.SUBJECT_COMPATIBILITY_WRITE: (Kafka.ALTER_CONFIGS,),
}
_ON_REGISTRY = {
    Operation.GLOBAL_COMPATIBILITY_READ: Access.USER,
    Operation.GLOBAL_READ: Access.USER,
    Operation.GLOBAL_SUBJECTS_READ: Access.VIEWER,
}


class TopicRights(LimitedRights):
    """Owner: the event loop."""

    def __init__(self, state: Callable[[], State]) -> None:
        super().__init__(state)
        self._authorizer = Authorizer()

    def replace(self, acls: Iterable[Acl]) -> None:
        entries: dict[ResourcePattern, set[Entry]] = {}
        for acl in acls:
            entries.setdefault(acl.pattern, set()).add(acl.entry)
        authorizer = Authorizer()
        for pattern, found in entries.items():
            authorizer.replace(pattern, found)
        self._authorizer = authorizer

    def is_super(self, request: Request) -> bool:
        return request.access >= Access.ADMIN

    def is_allowed(self, request: Request, operation: Operation, subject: str) -> bool:
        if not subject:
            return request.access >= _ON_REGISTRY.get(operation, Access.ADMIN)
        parsed = parse_subject(subject)
        if parsed.context != DEFAULT_CONTEXT:
            return False
        topic = parsed.name.removesuffix("-value" if parsed.name.endswith("-value") else "-key")
        host = request.peer.rpartition(":")[0]
        return any(
            self._authorizer.authorize(request.principal, host, each, ResourceType.TOPIC, topic).allowed
            for each in _ON_TOPIC.get(operation, ())
        )

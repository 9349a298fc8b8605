"""Rights on subjects derived from the cluster's topic ACLs, for callers that log in with their Kafka users.

The topic of a subject is its name without `-key` or `-value`. The rules are those of Confluent's TopicAclAuthorizer:

    READ or WRITE on the topic     read its schemas, config and mode
    WRITE                          register schemas, test their compatibility
    DELETE                         delete versions and the subject
    ALTER_CONFIGS                  change the compatibility
    DESCRIBE on the cluster        list subjects
    ALTER on the cluster           everything

Subjects outside of the default context belong to no topic, so only ALTER on the cluster gives rights on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.http import Access, Request
from ottla.registry.model.state import State
from ottla.registry.model.subjects import DEFAULT_CONTEXT, parse_subject
from ottla.registry.security.authorization import LimitedRights, Operation
from ottla.security.acls import Acl, Entry, ResourcePattern, ResourceType
from ottla.security.acls import Operation as Kafka
from ottla.security.authorizer import Authorizer

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

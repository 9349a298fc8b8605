"""Cluster security: ACLs, users with passwords, quotas, delegation tokens."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from enum import IntEnum
from operator import itemgetter
from typing import Any, TypeVar

from ottla.client.admin.acls import create_acls, delete_acls, describe_acls
from ottla.client.admin.delegation_tokens import create_token, describe_tokens, expire_token
from ottla.client.admin.quotas import ANY, Quota, alter_quotas, describe_quotas
from ottla.client.admin.scram import MECHANISMS, Secret, alter_credentials, describe_credentials
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.console.access.roles import Level
from ottla.console.web.app import CLUSTER, Route
from ottla.console.web.paging import Change, Plan, is_confirmed, listing, plan_page
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response
from ottla.security.acls import (
    Acl,
    AclFilter,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)

E = TypeVar("E", bound=IntEnum)

_QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate",
           "connection_creation_rate")  # fmt: skip
_ENTITIES = ({"user": ANY}, {"client-id": ANY}, {"user": ANY, "client-id": ANY}, {"ip": ANY})


def routes() -> Iterator[Route]:
    def admin(path: str, handler: Any) -> Route:
        return Route("POST", f"{CLUSTER}/{path}", handler, Level.ADMIN, everywhere=True)

    yield Route("GET", f"{CLUSTER}/acls", acls, everywhere=True)
    yield admin("acls/create", create_acl)
    yield admin("acls/delete", delete_acl)
    yield Route("GET", f"{CLUSTER}/users", users, everywhere=True)
    yield admin("users/set", set_user)
    yield admin("users/delete", delete_user)
    yield Route("GET", f"{CLUSTER}/quotas", quotas, everywhere=True)
    yield admin("quotas/set", set_quota)
    yield Route("GET", f"{CLUSTER}/tokens", tokens, everywhere=True)
    yield admin("tokens/create", new_token)
    yield admin("tokens/expire", end_token)


# -- ACLs --


def _filter() -> AclFilter:
    return AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)


def _acl_row(acl: Acl) -> dict[str, Any]:
    pattern, entry = acl
    return {
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation.name,
        "permission": entry.permission.name,
        "resource_type": pattern.resource_type.name,
        "resource": pattern.name,
        "pattern": pattern.pattern_type.name,
    }


async def acls(visit: Visit) -> Page | Response:
    problem, found = await _or_problem(visit, describe_acls, _filter(), default=[])
    listed = listing(
        [_acl_row(each) for each in found],
        visit.query,
        text=lambda row: " ".join(row.values()),
        columns={name: itemgetter(name) for name in ("principal", "resource", "operation")},
        default="principal",
    )
    choices = {
        "resource_types": [each.name for each in ResourceType if each > 1],
        "operations": [each.name for each in Operation if each > 1],
        "patterns": [PatternType.LITERAL.name, PatternType.PREFIXED.name],
        "permissions": [Permission.ALLOW.name, Permission.DENY.name],
    }
    return Page(
        "security/acls.html",
        {"acls": listed.rows, **listed.plain()},
        more={"listed": listed, "problem": problem, **choices},
    )


def _given_acl(visit: Visit) -> Acl:
    return Acl(
        ResourcePattern(
            _choice(visit, "resource_type", ResourceType),
            visit.needed("resource"),
            _choice(visit, "pattern", PatternType),
        ),
        Entry(
            visit.needed("principal"),
            visit.needed("host"),
            _choice(visit, "operation", Operation),
            _choice(visit, "permission", Permission),
        ),
    )


def _choice(visit: Visit, name: str, kind: type[E]) -> E:
    try:
        return kind[visit.needed(name)]
    except KeyError:
        raise HttpError(400, 400, f"{name} must be one of {', '.join(each.name for each in kind)}.") from None


async def create_acl(visit: Visit) -> Page | Response:
    acl = _given_acl(visit)
    if not is_confirmed(visit):
        plan = Plan("Add an ACL", [Change("ACL", "", _acl_text(acl))], "Add ACL", visit.url("acls"))
        return plan_page(visit, plan)
    await visit.change("create ACL", _acl_text(acl), create_acls, [acl])
    return visit.redirect(visit.url("acls"), f"Added: {_acl_text(acl)}.")


async def delete_acl(visit: Visit) -> Page | Response:
    acl = _given_acl(visit)
    if not is_confirmed(visit):
        plan = Plan("Remove an ACL", [Change("ACL", _acl_text(acl), "removed")], "Remove ACL", visit.url("acls"),
                    is_dangerous=True)  # fmt: skip
        return plan_page(visit, plan)
    pattern, entry = acl
    exact = AclFilter(
        pattern.resource_type, pattern.name, pattern.pattern_type,
        entry.principal, entry.host, entry.operation, entry.permission,
    )  # fmt: skip
    await visit.change("delete ACL", _acl_text(acl), delete_acls, [exact])
    return visit.redirect(visit.url("acls"), f"Removed: {_acl_text(acl)}.")


def _acl_text(acl: Acl) -> str:
    row = _acl_row(acl)
    return (
        f"{row['permission']} {row['principal']} from {row['host']} {row['operation']} "
        f"{row['resource_type']} {row['resource']} ({row['pattern']})"
    )


# -- users --


async def users(visit: Visit) -> Page | Response:
    problem, found = await _or_problem(visit, describe_credentials, None, default=[])
    rows = [{"user": each.user, "mechanisms": each.iterations} for each in found]
    listed = listing(
        rows,
        visit.query,
        text=lambda row: str(row["user"]),
        columns={"user": lambda row: row["user"]},
        default="user",
    )
    return Page(
        "security/users.html",
        {"users": listed.rows, **listed.plain()},
        more={"listed": listed, "problem": problem, "mechanisms": list(MECHANISMS)},
    )


def _mechanism(visit: Visit) -> str:
    mechanism = visit.needed("mechanism")
    if mechanism not in MECHANISMS:
        raise HttpError(400, 400, f"mechanism must be one of {', '.join(MECHANISMS)}.")
    return mechanism


async def set_user(visit: Visit) -> Page | Response:
    user, mechanism = visit.needed("user"), _mechanism(visit)
    password = visit.needed("password")
    sign = visit.app.signature(visit, "password", password)
    if not is_confirmed(visit):
        exists = any(each.user == user for each in await visit.site.calls.read(describe_credentials, None))
        changes = [
            Change(f"{user} ({mechanism})", "has a password" if exists else "no such user", "new password")
        ]
        visit.fields = [
            *((name, value) for name, value in visit.fields if name != "password"),
            ("sign", sign),
        ]
        plan = Plan(
            f"Set the password of {user}", changes, "Set password", visit.url("users"), asks_password=True
        )
        return plan_page(visit, plan)
    if visit.form.get("sign", sign) != sign:
        raise HttpError(400, 400, "Nothing was changed: the two passwords differ.")
    secret = Secret(password)
    await visit.change("set password", user, alter_credentials, user, set_={mechanism: secret})
    return visit.redirect(visit.url("users"), f"The password of '{user}' was set ({mechanism}).")


async def delete_user(visit: Visit) -> Page | Response:
    user, mechanism = visit.needed("user"), _mechanism(visit)
    if not is_confirmed(visit):
        change = Change(f"{user} ({mechanism})", "has a password", "cannot log in")
        plan = Plan(f"Remove the password of {user}", [change], "Remove password", visit.url("users"),
                    is_dangerous=True)  # fmt: skip
        return plan_page(visit, plan)
    await visit.change("delete password", user, alter_credentials, user, set_={}, delete=[mechanism])
    return visit.redirect(visit.url("users"), f"'{user}' cannot log in with {mechanism} any more.")


# -- quotas --


def _quotas_of(cluster: Cluster) -> list[Quota]:
    return [each for entity in _ENTITIES for each in describe_quotas(cluster, entity)]


async def quotas(visit: Visit) -> Page | Response:
    def every(cluster: Cluster) -> list[dict[str, Any]]:
        return [{"entity": each.entity, "values": each.values} for each in _quotas_of(cluster)]

    problem, rows = await _or_problem(visit, every, default=[])
    return Page("security/quotas.html", {"quotas": rows}, more={"problem": problem, "keys": _QUOTAS})


async def set_quota(visit: Visit) -> Page | Response:
    """Set a quota; an empty value removes it. The name <default> applies to entities without their own."""
    entity: dict[str, str | None] = {}
    for kind in ("user", "client-id", "ip"):
        name = visit.form.get(kind, "").strip()
        if name:
            entity[kind] = None if name == "<default>" else name
    if not entity:
        raise HttpError(400, 400, "The quota's target is missing. Choose a user, a client id or an address.")
    key = visit.needed("key")
    if key not in _QUOTAS:
        raise HttpError(400, 400, f"The quota must be one of {', '.join(_QUOTAS)}.")
    text = visit.form.get("value", "").strip()
    try:
        value = float(text) if text else None
    except ValueError:
        raise HttpError(400, 400, "The value must be a number.") from None
    whom = " ".join(f"{kind} {name or '<default>'}" for kind, name in entity.items())
    if not is_confirmed(visit):
        now = [
            each.values.get(key) for each in await visit.site.calls.read(_quotas_of) if each.entity == entity
        ]
        before = "" if not now or now[0] is None else f"{now[0]:g}"
        shown = Change(f"{key} of {whom}", before, "removed" if value is None else f"{value:g}")
        return plan_page(visit, Plan("Set a quota", [shown], "Set quota", visit.url("quotas")))
    change: dict[str, Any] = {"delete": [key]} if value is None else {"set_": {key: value}}
    await visit.change(f"set quota {key}", whom, alter_quotas, entity, **change)
    return visit.redirect(
        visit.url("quotas"), f"The quota {key} of {whom} was {'removed' if value is None else 'set'}."
    )


# -- delegation tokens --


async def tokens(visit: Visit) -> Page | Response:
    problem, found = await _or_problem(visit, describe_tokens, default=[])
    rows = [
        {
            "token_id": each.token_id,
            "owner": str(each.owner),
            "requester": str(each.requester),
            "renewers": [str(renewer) for renewer in each.renewers],
            "issued_ms": each.issued_ms,
            "expires_ms": each.expires_ms,
            "ends_ms": each.ends_ms,
        }
        for each in found
    ]
    return Page("security/tokens.html", {"tokens": rows}, more={"problem": problem, "made": None})


async def new_token(visit: Visit) -> Page | Response:
    """Create a token. Its secret is shown only once."""
    hours = visit.form.get("hours", "").strip()
    lifetime = int(hours) * 3_600_000 if hours.isdecimal() and len(hours) < 6 else -1
    token = await visit.change("create token", visit.user.name, create_token, max_lifetime_ms=lifetime)
    page = await tokens(visit)
    assert isinstance(page, Page)
    made = {"token_id": token.token_id, "hmac": b64encode(token.hmac).decode()}
    return Page(page.template, page.data, 200, {**page.more, "made": made})


async def end_token(visit: Visit) -> Page | Response:
    name = visit.needed("token_id")
    found = [each for each in await visit.site.calls.read(describe_tokens) if each.token_id == name]
    if not found:
        raise HttpError(404, 404, f"There is no token '{name}'.")
    await visit.change("expire token", name, expire_token, found[0].hmac)
    return visit.redirect(visit.url("tokens"), f"Token '{name}' has expired.")


async def _or_problem(visit: Visit, function: Any, *arguments: Any, default: Any) -> tuple[str | None, Any]:
    """Return errors of a cluster without security as a sentence for the page."""
    try:
        return None, await visit.site.calls.read(function, *arguments)
    except ClientError as error:
        return error.message, default

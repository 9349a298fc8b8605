"""`ottla acls …`"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.commands.completion import complete_groups, complete_topics
from ottla.cli.errors import JobError
from ottla.cli.options import client_options, confirm_or_exit, json_option, yes_option

if TYPE_CHECKING:
    from ottla.security.acls import Acl, ResourceType

Command = TypeVar("Command", bound=Callable[..., Any])

# Option → resource type and operations. Read, Write and Alter imply Describe.
_RIGHTS = {
    "read": ("TOPIC", ("READ",)),
    "write": ("TOPIC", ("WRITE",)),
    "create": ("TOPIC", ("CREATE",)),
    "manage": ("TOPIC", ("CREATE", "DELETE", "ALTER", "ALTER_CONFIGS")),
    "group": ("GROUP", ("READ",)),
    "transactional_id": ("TRANSACTIONAL_ID", ("WRITE",)),
}
_RIGHT_OPTIONS = (
    ("--read", "-r", "TOPIC", "Consume this topic. May be repeated, like all of these.", complete_topics),
    ("--write", "-w", "TOPIC", "Produce to this topic.", complete_topics),
    ("--create", None, "TOPIC", "Create this topic.", None),
    ("--manage", None, "TOPIC", "Create, delete and alter this topic and its settings.", complete_topics),
    ("--group", "-g", "GROUP", "Consume as a member of this group.", complete_groups),
    ("--transactional-id", None, "ID", "Use this transactional id.", None),
)


class Rights:
    """Rights named by the options of `add` and `remove`."""

    def __init__(
        self, names: dict[str, tuple[str, ...]], cluster: bool, prefix: bool, deny: bool, host: str
    ) -> None:
        self._names = names
        self._cluster = cluster
        self._prefix = prefix
        self._permission = "DENY" if deny else "ALLOW"
        self._host = host

    def __bool__(self) -> bool:
        return self._cluster or any(self._names.values())

    def acls(self, principal: str) -> list[Acl]:
        from ottla.security.acls import Acl, Entry, Operation, Permission, ResourcePattern

        return [
            Acl(
                ResourcePattern(*resource),
                Entry(principal, self._host, Operation[operation], Permission[self._permission]),
            )
            for resource, operations in self._resources()
            for operation in operations
        ]

    def _resources(self) -> Iterator[tuple[tuple[ResourceType, str, Any], Sequence[str]]]:
        from ottla.security.acls import CLUSTER_NAME, WILDCARD, PatternType, ResourceType

        for option, names in self._names.items():
            kind, operations = _RIGHTS[option]
            for name in names:
                if not name:
                    raise JobError(f"--{option.replace('_', '-')} needs a name. Use '*' for all.")
                # The prefix of all names is the name '*', which is literal.
                prefixed = self._prefix and name != WILDCARD
                pattern_type = PatternType.PREFIXED if prefixed else PatternType.LITERAL
                yield (ResourceType[kind], name, pattern_type), operations
        if self._cluster:
            yield (ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL), ("ALL",)


def rights_options(command: Command) -> Command:
    """Add the options for rights. The command gets them as `rights`."""

    @functools.wraps(command)
    def with_rights(*args: Any, cluster: bool, prefix: bool, deny: bool, host: str, **others: Any) -> Any:
        names = {option: others.pop(option) for option in _RIGHTS}
        return command(*args, rights=Rights(names, cluster, prefix, deny, host), **others)

    decorated: Any = with_rights
    for option in (
        click.option("--host", default="*", show_default=True, help="Apply only to clients at this address."),
        click.option("--deny", is_flag=True, help="Deny instead of allow. Denials override other ACLs."),
        click.option("--prefix", is_flag=True, help="Treat each name as a prefix."),
        click.option(
            "--cluster", is_flag=True, help="Administer the cluster: ACLs, users, settings of brokers."
        ),
        *(
            click.option(
                *filter(None, (long, short)),
                multiple=True,
                metavar=metavar,
                help=help_text,
                shell_complete=complete,
            )
            for long, short, metavar, help_text, complete in reversed(_RIGHT_OPTIONS)
        ),
    ):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def principal_of(user: str) -> str:
    """Return the principal of ACLs: `User:ann` for `ann`, `User:*` for `*`."""
    principal = user if user.startswith("User:") else f"User:{user}"
    if principal == "User:":
        raise JobError("The user is missing. Pass a name, or '*' for every user.")
    return principal


@click.group(short_help="Show and change access rights.")
def acls() -> None:
    """Show and change access rights. If the brokers have an authorizer, anything not explicitly allowed is denied.

    \b
    Examples:
      ottla acls add ann --read orders --group billing
      ottla acls add ann --write orders-eu- --prefix
      ottla acls list ann
      ottla acls remove ann --read orders
    """


@acls.command("list")
@click.argument("user", metavar="[USER]", required=False)
@click.option(
    "--topic",
    "-t",
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="List only ACLs that apply to this name.",
)
@click.option(
    "--group",
    "-g",
    metavar="GROUP",
    shell_complete=complete_groups,
    help="List only ACLs that apply to this name.",
)
@json_option()
@client_options
def list_(client: Client, user: str | None, topic: str | None, group: str | None, as_json: bool) -> None:
    """List all ACLs, or the ACLs of a user, a topic or a group."""
    from ottla.client.admin.acls import describe_acls
    from ottla.security.acls import AclFilter, PatternType, ResourceType

    if topic is not None and group is not None:
        raise click.UsageError("Give --topic or --group, not both.")
    wanted = AclFilter(principal=None if user is None else principal_of(user))
    for kind, name in ((ResourceType.TOPIC, topic), (ResourceType.GROUP, group)):
        if name is not None:
            wanted = wanted._replace(resource_type=kind, name=name, pattern_type=PatternType.MATCH)
    found = describe_acls(client.cluster, wanted)
    if as_json:
        output.print_json([_json(acl) for acl in found])
    elif found:
        columns = ("PRINCIPAL", "PERMISSION", "OPERATION", "RESOURCE", "NAME", "PATTERN", "HOST")
        rows = sorted(tuple(_json(acl).values()) for acl in found)
        output.print_table(columns, rows, ("cyan", None, "bold", None, None, "dim", "dim"))
    else:
        output.note("There are no ACLs yet." if wanted == AclFilter() else "There are no such ACLs.")


@acls.command()
@click.argument("user", metavar="USER")
@rights_options
@client_options
def add(client: Client, user: str, rights: Rights) -> None:
    """Allow or deny operations to a user. '*' means every user, and as a name every topic or group.

    \b
    Examples:
      ottla acls add ann --read orders --group billing
      ottla acls add loader --write orders --transactional-id loader-1
      ottla acls add '*' --read public- --prefix
      ottla acls add bob --write orders --deny
    """
    from ottla.client.admin.acls import create_acls

    if not rights:
        raise click.UsageError(
            "The right is missing. Pass --read, --write, --create, --manage, --group, --transactional-id or --cluster."
        )
    wanted = rights.acls(principal_of(user))
    create_acls(client.cluster, wanted)
    for acl in wanted:
        output.done(f"{_sentence(acl)}.")


@acls.command()
@click.argument("user", metavar="USER")
@rights_options
@yes_option
@client_options
def remove(client: Client, user: str, rights: Rights, yes: bool) -> None:
    """Remove the ACLs that `add` with the same options has created; without options, all ACLs of the user.

    \b
    Examples:
      ottla acls remove ann --read orders
      ottla acls remove ann
    """
    from ottla.client.admin.acls import delete_acls, describe_acls
    from ottla.security.acls import AclFilter

    principal = principal_of(user)
    filters = [AclFilter(**acl.pattern._asdict(), **acl.entry._asdict()) for acl in rights.acls(principal)]
    if not rights:
        filters = [AclFilter(principal=principal)]
        count = len(describe_acls(client.cluster, filters[0]))
        if count:
            confirm_or_exit(f"Remove all {count} ACLs of {principal}?", yes)
    removed = delete_acls(client.cluster, filters)
    if not removed:
        raise JobError(f"{principal} has no such ACL.")
    for acl in removed:
        output.done(f"Removed: {_sentence(acl)}.")


def _json(acl: Acl) -> dict[str, str]:
    pattern, entry = acl
    return {
        "principal": entry.principal,
        "permission": entry.permission.name,
        "operation": entry.operation.name,
        "resource": pattern.resource_type.name,
        "name": pattern.name,
        "pattern": pattern.pattern_type.name,
        "host": entry.host,
    }


def _sentence(acl: Acl) -> str:
    from ottla.security.acls import WILDCARD, PatternType, Permission, ResourceType

    pattern, entry = acl
    kind = pattern.resource_type.name.lower().replace("_", " ")
    if pattern.resource_type is ResourceType.CLUSTER:
        what = "the cluster"
    elif pattern.pattern_type is PatternType.PREFIXED:
        what = f"every {kind} that begins with {pattern.name}"
    else:
        what = f"every {kind}" if pattern.name == WILDCARD else f"{kind} {pattern.name}"
    may = "may" if entry.permission is Permission.ALLOW else "must not"
    where = "" if entry.host == WILDCARD else f" from {entry.host}"
    return f"{entry.principal} {may} {entry.operation.name} {what}{where}"

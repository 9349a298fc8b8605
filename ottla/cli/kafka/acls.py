"""`kafka-acls`"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from ottla.cli.client import Client
from ottla.cli.errors import BrokerUnreachable, JobError
from ottla.cli.kafka import tool
from ottla.client.admin.acls import create_acls, delete_acls, describe_acls
from ottla.client.errors import in_kafkas_words
from ottla.protocol.errors import ErrorCode
from ottla.security.acls import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclFilter,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    in_words,
)
from ottla.security.principal import KafkaPrincipal

# Principals on the command line, and refusals in the words of Kafka's client.

# Exceptions of Kafka's client whose names differ from their error codes.
_EXCEPTIONS = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorization",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "DelegationTokenDisabled",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "UnsupportedByAuthentication",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "DelegationTokenAuthorization",
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServer",
}
# Errors that the client finds before it asks a broker. Our own sentences explain more.
_OWN = frozenset(
    {
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_CONFIG,
    }
)


def parse_principals(texts: Iterable[str]) -> list[KafkaPrincipal]:
    return [_principal(text.strip()) for text in texts]


def _principal(text: str) -> KafkaPrincipal:
    kind, colon, name = text.partition(":")
    if not colon:
        raise JobError(f"expected a string in format principalType:principalName but got {text}")
    return KafkaPrincipal(kind, name)


@contextmanager
def exceptions_named() -> Iterator[None]:
    """Prefix refusals with the exception name, as Kafka's tools do."""
    try:
        yield
    except BrokerUnreachable:
        raise
    except JobError as error:
        if error.code is None or error.code in _OWN:
            raise
        name = _EXCEPTIONS.get(error.code) or "".join(map(str.capitalize, error.code.name.split("_")))
        words = in_kafkas_words(error.code, error.broker_message).message
        raise JobError(f"org.apache.kafka.common.errors.{name}Exception: {words}", error.code) from None


# `kafka-acls`

# Operations of each resource type; All applies to every type.
_SUPPORTED = {
    ResourceType.TOPIC: (
        Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DESCRIBE, Operation.DELETE, Operation.ALTER,
        Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ, Operation.DESCRIBE, Operation.DELETE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE, Operation.CLUSTER_ACTION, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE, Operation.ALTER, Operation.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}  # fmt: skip
_OPERATIONS = {in_words(each): each for each in Operation if each > Operation.ANY}
_BY_NAME = _OPERATIONS | {name.upper(): each for name, each in _OPERATIONS.items()}
# Options for resources, and their resource types. Filters allow any pattern type.
_RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "delegation_token": ResourceType.DELEGATION_TOKEN,
    "user_principal": ResourceType.USER,
}
_CLUSTER = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME)

# Entries by resource, or by a filter of resources. No entries means all.
_Entries = Mapping[ResourcePattern, list[Entry]]


@tool.entry_point(prefix="Error while executing ACL command: ", to_stdout=True)
def main(argv: list[str]) -> None:
    args = _parser().options(argv)
    _check(args)
    with exceptions_named():
        if args.add:
            _add(args)
        elif args.remove:
            _remove(args)
        else:
            _list(args)


def _parser() -> tool.Parser:
    parser = tool.Parser(
        "kafka-acls", "Show, add and remove ACLs.", """
        --bootstrap-server, --broker-list
        --bootstrap-controller
        --command-config
        --add      add ACLs
        --remove   remove ACLs
        --list     list the ACLs of the given resources, or all
        --force    remove ACLs without confirmation
        """,
    )  # fmt: skip
    parser.add_options("""
        --authorizer CLASS               no effect: the brokers configure their authorizer
        --authorizer-properties KEY=VALUE*  zookeeper.connect=HOST:PORT[/CHROOT] finds the brokers there
        --zk-tls-config-file FILE        file with zookeeper.ssl.… settings for TLS
        """, "as older versions have them")  # fmt: skip
    parser.add_options("""
        --topic TOPIC*          topic name; '*' means all
        --group GROUP*          consumer group; '*' means all
        --cluster               the cluster
        --transactional-id ID*  transactional id; '*' means all
        --delegation-token ID*  delegation token; '*' means all
        --user-principal USER*  user for whom others create or describe delegation tokens
        --resource-pattern-type any|match|literal|prefixed  how the names above are meant: exactly, or as the
                                beginning of names; match finds all ACLs that apply to a resource, any those of the
                                same name of both kinds
        """, "resources")  # fmt: skip
    parser.add_options(f"""
        --allow-principal TYPE:NAME*  principal to allow, such as User:ann; User:* means everyone
        --deny-principal TYPE:NAME*   principal to deny; denials override other ACLs
        --allow-host HOST*            client address to allow (default: any)
        --deny-host HOST*             client address to deny (default: any)
        --operation OPERATION*        operation to allow or deny (default: All): {", ".join(_OPERATIONS)}
        --producer                    allow what a producer needs: Write, Describe and Create of the topic, Write and
                                      Describe of the transactional id
        --consumer                    allow what a consumer needs: Read and Describe of the topic, Read of the group
        --idempotent                  with --producer: add IdempotentWrite on the cluster
        --principal TYPE:NAME?*       with --list: list only ACLs of this principal
        """, "who and what")  # fmt: skip
    parser.set_defaults(resource_pattern_type="literal")
    return parser


def _check(args: argparse.Namespace) -> None:
    """In Kafka's order, with its words."""
    if args.bootstrap_server and args.bootstrap_controller:
        raise tool.UsageError("Only one of --bootstrap-server or --bootstrap-controller must be specified")
    args.bootstrap_server = args.bootstrap_server or args.bootstrap_controller
    properties = tool.key_values(args.authorizer_properties)
    if args.bootstrap_server and args.authorizer:
        raise tool.UsageError("Only one of --bootstrap-server or --authorizer must be specified")
    if args.bootstrap_server and properties:
        raise tool.UsageError("The --authorizer-properties option can only be used with --authorizer option")
    args.zookeeper = properties.get("zookeeper.connect")
    if not args.bootstrap_server and not args.zookeeper:
        raise tool.UsageError("One of --bootstrap-server or --bootstrap-controller must be specified")
    tool.only_one(
        args,
        ("list", "add", "remove"),
        "Command must include exactly one action: --list, --add, --remove. ",
    )
    for option, excluded in (
        ("list", ("producer", "consumer", "allow_host", "allow_principal", "deny_host", "deny_principal")),
        ("producer", ("operation", "deny_principal", "deny_host")),
        ("consumer", ("operation", "deny_principal", "deny_host")),
    ):
        for other in excluded:
            if getattr(args, option) and getattr(args, other):
                raise tool.together(option, other)
    if args.principal and not args.list:
        raise tool.UsageError("The --principal option is only available if --list is set")
    if args.producer and not args.topic:
        raise tool.UsageError("With --producer you must specify a --topic")
    if args.idempotent and not args.producer:
        raise tool.UsageError("The --idempotent option is only available if --producer is set")
    more_than_a_consumer = not args.producer and (args.cluster or args.transactional_id)
    if args.consumer and (not args.topic or not args.group or more_than_a_consumer):
        raise tool.UsageError(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option "
            "should be specified."
        )


# -- the three actions ----------------------------------------------------------------------------------


def _add(args: argparse.Namespace) -> None:
    pattern_type = _pattern_type(args)
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise tool.UsageError(
            f"A '--resource-pattern-type' value of '{pattern_type.name}' is not valid when adding acls."
        )
    entries = _entries(args)
    if not all(entries.values()):
        raise tool.UsageError(
            "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
        )
    client = _connect(args)
    for pattern, wanted in entries.items():
        there = {acl.entry for acl in _of_resource(client, pattern)}
        new = []
        for entry in wanted:
            if entry in there:
                print(f"Acl (pattern={_shown(pattern)}, entry={_entry_shown(entry)}) already exists.")
            else:
                new.append(entry)
        if new:
            print(f"Adding ACLs for resource `{_shown(pattern)}`: \n {_lines(new)}\n")
            create_acls(client.cluster, [Acl(pattern, entry) for entry in new])


def _remove(args: argparse.Namespace) -> None:
    entries = _entries(args)
    client = _connect(args)
    for pattern, wanted in entries.items():
        if wanted:
            question = (
                f"Are you sure you want to remove ACLs: \n {_lines(wanted)}\n from resource filter "
                f"`{_shown(pattern)}`? (y/n)"
            )
        else:
            question = (
                f"Are you sure you want to delete all ACLs for resource filter `{_shown(pattern)}`? (y/n)"
            )
        if args.force or _confirmed(question):
            delete_acls(
                client.cluster,
                [_filter(pattern)._replace(**entry._asdict()) for entry in wanted] or [_filter(pattern)],
            )


def _list(args: argparse.Namespace) -> None:
    principals = [str(each) for each in parse_principals(filter(None, args.principal))]
    patterns = _resources(args)
    client = _connect(args)
    if patterns:
        found = sorted({acl for pattern in patterns for acl in _of_resource(client, pattern)})
    else:
        found = describe_acls(client.cluster, AclFilter())
    if not principals:
        _show(found)
    for principal in principals:
        print(f"ACLs for principal `{principal}`")
        _show(acl for acl in found if acl.entry.principal == principal)


def _connect(args: argparse.Namespace) -> Client:
    """Older versions wrote ACLs to ZooKeeper. This tool asks the brokers registered there."""
    if args.zookeeper:
        from ottla.cli.kafka.servers.zookeeper import brokers_of

        args.bootstrap_server = brokers_of(args.zookeeper, args.zk_tls_config_file)
    return tool.connect(args)


def _of_resource(client: Client, pattern: ResourcePattern) -> list[Acl]:
    return describe_acls(client.cluster, _filter(pattern))


def _filter(pattern: ResourcePattern) -> AclFilter:
    return AclFilter(pattern.resource_type, pattern.name, pattern.pattern_type)


def _confirmed(question: str) -> bool:
    print(question, flush=True)
    return sys.stdin.readline().strip().lower() == "y"


# -- what the options name ------------------------------------------------------------------------------


def _entries(args: argparse.Namespace) -> _Entries:
    patterns = _resources(args)
    if not patterns:
        raise tool.UsageError(
            "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
            "--delegation-token <Delegation Token ID>"
        )
    entries: dict[ResourcePattern, list[Entry]] = {}

    def give(kind: ResourceType, *operations: Operation) -> None:
        for pattern in patterns:
            if pattern.resource_type is kind:
                found = entries.setdefault(pattern, [])
                found += [each for each in _of_principals(args, operations) if each not in found]

    if args.producer:
        give(ResourceType.TOPIC, Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
        give(ResourceType.TRANSACTIONAL_ID, Operation.WRITE, Operation.DESCRIBE)
        if args.idempotent:
            entries[_CLUSTER] = _of_principals(args, [Operation.IDEMPOTENT_WRITE])
    if args.consumer:
        give(ResourceType.TOPIC, Operation.READ, Operation.DESCRIBE)
        give(ResourceType.GROUP, Operation.READ)
    if not args.producer and not args.consumer:
        named = dict.fromkeys(each.strip() for each in args.operation or ["All"])
        operations = [_BY_NAME.get(name, Operation.UNKNOWN) for name in named]
        entries = dict.fromkeys(patterns, _of_principals(args, operations))
    _check_operations(entries)
    return entries


def _resources(args: argparse.Namespace) -> list[ResourcePattern]:
    pattern_type = _pattern_type(args)
    found = [
        ResourcePattern(kind, name if kind is ResourceType.TRANSACTIONAL_ID else name.strip(), pattern_type)
        for option, kind in _RESOURCES.items()
        for name in getattr(args, option)
    ]
    if pattern_type is PatternType.LITERAL and (args.cluster or args.idempotent):
        found.append(_CLUSTER)
    return list(dict.fromkeys(found))


def _pattern_type(args: argparse.Namespace) -> PatternType:
    name = args.resource_pattern_type
    if name.upper() not in PatternType.__members__ or name.upper() == PatternType.UNKNOWN.name:
        raise JobError(f"Cannot parse argument '{name}' of option resource-pattern-type")
    return PatternType[name.upper()]


def _of_principals(args: argparse.Namespace, operations: Iterable[Operation]) -> list[Entry]:
    given = (
        (Permission.ALLOW, args.allow_principal, args.allow_host),
        (Permission.DENY, args.deny_principal, args.deny_host),
    )
    return [
        Entry(str(principal), host.strip(), operation, permission)
        for permission, principals, hosts in given
        for principal in dict.fromkeys(parse_principals(principals))
        for operation in operations
        for host in dict.fromkeys(hosts or [WILDCARD])
    ]


def _check_operations(entries: _Entries) -> None:
    for pattern, found in entries.items():
        supported = [*_SUPPORTED[pattern.resource_type], Operation.ALL]
        if any(entry.operation not in supported for entry in found):
            names = ", ".join(each.name for each in supported)
            raise tool.UsageError(
                f"ResourceType {pattern.resource_type.name} only supports operations [{names}]"
            )


# -- output ------------------------------------------------------------------------------------


def _show(acls: Iterable[Acl]) -> None:
    by_resource: dict[ResourcePattern, list[Entry]] = {}
    for acl in acls:
        by_resource.setdefault(acl.pattern, []).append(acl.entry)
    for pattern, entries in by_resource.items():
        print(f"Current ACLs for resource `{_shown(pattern)}`:\n{_lines(entries)}\n")


def _lines(entries: Iterable[Entry]) -> str:
    return "\n".join(f"\t{_entry_shown(entry)}" for entry in entries)


def _shown(pattern: ResourcePattern) -> str:
    return (
        f"ResourcePattern(resourceType={pattern.resource_type.name}, name={pattern.name}, "
        f"patternType={pattern.pattern_type.name})"
    )


def _entry_shown(entry: Entry) -> str:
    return (
        f"(principal={entry.principal}, host={entry.host}, operation={entry.operation.name}, "
        f"permissionType={entry.permission.name})"
    )

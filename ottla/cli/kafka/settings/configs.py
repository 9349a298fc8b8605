"""`kafka-configs`"""

from __future__ import annotations

import argparse
import re
from typing import Any

from ottla.cli.client import Client
from ottla.cli.kafka import tool
from ottla.cli.kafka.settings import quotas, zookeeper_credentials
from ottla.client.admin.configs import (
    ConfigEntry,
    Kind,
    Resource,
    alter_configs,
    describe_configs,
    resource_names,
)

_TYPES = ("topics", "clients", "users", "brokers", "ips", "client-metrics", "groups", "broker-loggers")
_KINDS: dict[str, Kind] = {
    "topics": "topic",
    "brokers": "broker",
    "groups": "group",
    "broker-loggers": "broker-logger",
    "client-metrics": "client-metric",
}
# The order in which Kafka's tool looks at --topic, --client, …
_FLAGS = ("topics", "clients", "users", "brokers", "broker-loggers", "ips", "client-metrics", "groups")
_DYNAMIC = {
    "topic": ("DYNAMIC_TOPIC_CONFIG",),
    "group": ("DYNAMIC_GROUP_CONFIG",),
    "broker-logger": ("DYNAMIC_BROKER_LOGGER_CONFIG",),
    "client-metric": ("DYNAMIC_CLIENT_METRICS_CONFIG",),
}


@tool.entry_point(prefix="Error while executing config command with args '{args}'\n")
def main(argv: list[str]) -> None:
    args = _parser().options(argv)
    action = tool.only_one(
        args, ("describe", "alter"), "Command must include exactly one action: --describe, --alter"
    )
    tool.controller_too(args)
    entities = _entities(args)
    if args.zookeeper and action == "alter":
        (kind, name), added, deleted = entities[0], _added(args), _deleted(args)
        if zookeeper_credentials.is_meant(kind, name, [*added, *deleted]):
            zookeeper_credentials.alter(args.zookeeper, args.zk_tls_config_file, name or "", added, deleted)
            return
    client = tool.connect(args)
    if entities[0][0] in quotas.KINDS:
        if action == "describe":
            quotas.describe(client, entities)
        else:
            quotas.alter(client, entities, _added(args), _deleted(args))
    elif action == "alter":
        _alter(client, entities[0], args)
    else:
        for kind, name in entities:
            _describe(client, kind, name, args.all)


class _Entity(argparse.Action):
    """`--topic T` is `--entity-type topics --entity-name T`; the latter two keep the order they were given in."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        entities: list[list[str | None]] = namespace.entities or []
        namespace.entities = entities
        flags: list[tuple[str, str]] = namespace.flags
        option = option_string or ""
        if option == "--entity-type":
            entities.append([values, None])
        elif option in ("--entity-name", "--entity-default"):
            name = "" if option == "--entity-default" else values
            waiting = [entity for entity in entities if entity[1] is None]
            if waiting:
                waiting[0][1] = name
            else:
                namespace.early = [*namespace.early, name]
        else:
            kind = option[2:].removesuffix("-defaults")
            plural = kind if kind.endswith("s") else f"{kind}s"
            name = "" if option.endswith("-defaults") else values
            if name and any(flag == plural and given for flag, given in flags):
                raise tool.UsageError(
                    f"Found multiple arguments for option {option[2:]}, but you asked for only one"
                )
            namespace.flags = [*flags, (plural, name)]


def _parser() -> tool.Parser:
    parser = tool.Parser(
        "kafka-configs",
        "Show and change the settings of topics, brokers, groups, and quotas of users and clients.", """
        --bootstrap-server, --broker-list
        --zookeeper
        --zk-tls-config-file FILE     file with zookeeper.ssl.… settings for TLS
        --bootstrap-controller
        --command-config
        --describe                    list settings of the given entity
        --alter                       change settings of the given entity
        --all                         list all settings, including defaults
        --add-config K=V,K=[V1,V2]    settings to add
        --add-config-file FILE        file with settings to add
        --delete-config K1,K2         settings to delete
        --force                       no effect: changes need no confirmation
        """,
        without_any="This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, "
        "client-metrics or group",
    )  # fmt: skip
    parser.set_defaults(entities=None, early=[], flags=[])
    for option in ("entity-type", "entity-name", "topic", "broker", "group", "broker-logger", "client", "user",
                   "ip", "client-metrics"):  # fmt: skip
        parser.add_argument(
            f"--{option}", action=_Entity, metavar="NAME", help=f"the {option.replace('-', ' ')}"
        )
    for option in ("entity-default", "broker-defaults", "client-defaults", "user-defaults", "ip-defaults"):
        parser.add_argument(f"--{option}", action=_Entity, nargs=0, help=f"the {option.replace('-', ' ')}")
    return parser


def _entities(args: argparse.Namespace) -> list[tuple[str, str | None]]:
    entities: list[list[str | None]] = args.entities or []
    for entity in entities:
        if entity[1] is None and args.early:
            entity[1] = args.early.pop(0)
    flags = sorted(args.flags, key=lambda flag: (flag[1] == "", _FLAGS.index(flag[0])))
    entities += [list(flag) for flag in flags]
    kinds = [kind or "" for kind, _ in entities]
    if not entities:
        raise tool.UsageError("At least one entity type must be specified")
    if twice := tool.repeated(kinds):
        raise tool.UsageError(f"Duplicate entity type(s) specified: {','.join(twice)}")
    for kind in kinds:
        if kind not in _TYPES:
            raise tool.UsageError(
                f"Invalid entity type {kind}, the entity type must be one of {', '.join(_TYPES)} with a "
                "--bootstrap-server or --bootstrap-controller argument"
            )
    if len(kinds) > 1 and not {"users", "clients"}.issuperset(kinds):
        raise tool.UsageError("Only 'users' and 'clients' entity types may be specified together")
    if args.alter:
        _check_alter(args, entities)
    elif args.add_config or args.add_config_file or args.delete_config:
        option = next(
            name for name in ("add_config", "add_config_file", "delete_config") if getattr(args, name)
        )
        raise tool.together("describe", option)
    for of_kind, name in entities:
        _check_name(of_kind or "", name)
    return [(kind or "", name) for kind, name in entities]


def _check_alter(args: argparse.Namespace, entities: list[list[str | None]]) -> None:
    if args.early:
        raise tool.UsageError("An entity name must be specified for every entity type")
    kind, name = entities[0]
    if kind in ("brokers", *quotas.KINDS):
        if name is None:
            raise tool.UsageError(
                "An entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
            )
    elif not name:
        raise tool.UsageError(f"An entity name must be specified with --alter of {kind}")
    if not (args.add_config or args.add_config_file or args.delete_config):
        raise tool.UsageError(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )
    if args.add_config and args.add_config_file:
        raise tool.UsageError("Only one of --add-config or --add-config-file must be specified")


def _check_name(kind: str, name: str | None) -> None:
    if kind == "brokers" and name and not name.removeprefix("-").isdecimal():
        raise tool.UsageError(
            f"The entity name for brokers must be a valid integer broker id, but it is: {name}"
        )
    if kind == "broker-loggers" and name is None:
        raise tool.UsageError("An entity name must be specified with --describe of broker-loggers")
    if kind == "ips" and name and not quotas.resolvable(name):
        raise tool.UsageError(
            f"The entity name for ips must be a valid IP or resolvable host, but it is: {name}"
        )
    if kind == "topics" and name and not re.fullmatch(r"[a-zA-Z0-9._-]+", name):
        raise tool.UsageError(
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    if name == "" and kind not in ("brokers", *quotas.KINDS):
        raise tool.UsageError(f"--entity-default must not be specified with --describe of {kind}")


# -- describe ------------------------------------------------------------------------------------------


def _describe(client: Client, entity_type: str, name: str | None, all_settings: bool) -> None:
    kind = _KINDS[entity_type]
    if name is None:
        names = _known(client, kind)
        if kind == "broker":
            names.append("")
    elif name and not all_settings and name not in _known(client, kind):
        print(f"The {kind} '{name}' doesn't exist and doesn't have dynamic config.")
        return
    else:
        names = [name]
    for each in names:
        _show(client, Resource(kind, each), all_settings)


def _show(client: Client, resource: Resource, all_settings: bool) -> None:
    entries = describe_configs(client.cluster, resource)
    if resource.kind == "broker":
        sources = ("DYNAMIC_BROKER_CONFIG",) if resource.name else ("DYNAMIC_DEFAULT_BROKER_CONFIG",)
    else:
        sources = _DYNAMIC[resource.kind]
    if resource.name:
        which = "All" if all_settings else "Dynamic"
        print(f"{which} configs for {resource.kind} {resource.name} are:")
    else:
        print("Default configs for brokers in the cluster are:")
    for entry in entries:
        if all_settings or entry.source in sources:
            print(f"  {_line(entry)}")


def _line(entry: ConfigEntry) -> str:
    def text(value: str | None) -> str:
        return "null" if value is None else value

    synonyms = ", ".join(f"{s.source}:{s.name}={text(s.value)}" for s in entry.synonyms)
    sensitive = str(entry.sensitive).lower()
    return f"{entry.name}={text(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _known(client: Client, kind: Kind) -> list[str]:
    if kind == "topic":
        from ottla.cli.kafka.tool import hash_map_order
        from ottla.client.admin.topics import topic_names

        return hash_map_order(topic_names(client.cluster, include_internal=True))
    if kind in ("broker", "broker-logger"):
        return [str(node) for node in client.cluster.nodes()]
    if kind == "group":
        from ottla.client.admin.groups import list_consumer_groups

        known = [
            *(listing.group for listing in list_consumer_groups(client.cluster)),
            *resource_names(client.cluster, kind),
        ]
        return sorted(set(known))
    return resource_names(client.cluster, kind)


# -- alter ---------------------------------------------------------------------------------------------


def _alter(client: Client, entity: tuple[str, str | None], args: argparse.Namespace) -> None:
    entity_type, name = entity
    resource = Resource(_KINDS[entity_type], name or "")
    added, deleted = _added(args), _deleted(args)
    if resource.kind == "broker-logger":
        loggers = {entry.name for entry in describe_configs(client.cluster, resource)}
        unknown = [name for name in (*added, *deleted) if name not in loggers]
        if unknown:
            raise tool.UsageError(f"Invalid broker logger(s): {','.join(unknown)}")
    alter_configs(client.cluster, resource, set_=added, delete=deleted)
    if resource.name:
        print(f"Completed updating config for {resource.kind} {resource.name}.")
    else:
        print("Completed updating default config for brokers in the cluster.")


def _deleted(args: argparse.Namespace) -> list[str]:
    return [key.strip() for key in (args.delete_config or "").split(",") if key.strip()]


def _added(args: argparse.Namespace) -> dict[str, str]:
    if args.add_config_file is not None:
        from ottla.cli.properties import parse_properties

        return parse_properties(tool.read_text(args.add_config_file))
    added: dict[str, str] = {}
    # A comma inside of [ ] belongs to the value.
    for pair in re.split(r",(?=[^\]]*(?:\[|$))", args.add_config or ""):
        if not pair.strip():
            continue
        key, separator, value = pair.partition("=")
        if not separator:
            raise tool.UsageError(
                'requirement failed: Invalid entity config: all configs to be added must be in the format "key=val" '
                'or  "key=[val1,val2]" to group values which contain commas.'
            )
        added[key.strip()] = value.strip().removeprefix("[").removesuffix("]")
    return added

"""`kafka-client-metrics`"""

from __future__ import annotations

import argparse
import sys
import uuid
from typing import TYPE_CHECKING

from ottla.cli.kafka import tool

if TYPE_CHECKING:
    from ottla.cli.client import Client

_ACTIONS = ("alter", "delete", "describe", "list")


def main() -> None:
    tool.main(run, prefix="Error while executing client metrics command : ", stream=lambda: sys.stdout)


def run(argv: list[str]) -> int | None:
    args = _parser().options(argv)
    action = tool.only_one(
        args,
        _ACTIONS,
        "Command must include exactly one action: --alter, --delete, --describe or --list.",
    )
    _check(args, action)
    client = tool.connect(args)
    {"alter": _alter, "delete": _delete, "describe": _describe, "list": _list}[action](client, args)
    return 0


def _parser() -> tool.Parser:
    parser = tool.Parser("kafka-client-metrics", "Choose which metrics clients send to the brokers.")
    parser.add_servers()
    parser.add_command_config()
    parser.add_flag("--alter", help="change a subscription, or make one")
    parser.add_flag("--delete", help="delete a subscription")
    parser.add_flag("--describe", help="show what a subscription says, or all of them")
    parser.add_flag("--list", help="list the names of subscriptions")
    parser.add_argument("--name", help="of the subscription")
    parser.add_flag("--generate-name", help="make a name for a new one")
    parser.add_argument("--interval", metavar="MS", help="how often clients send; empty for the default")
    parser.add_argument("--match", metavar="K=V,…", help=(
        "which clients: client_instance_id, client_id, client_software_name,\n"
        "client_software_version, client_source_address, client_source_port"))  # fmt: skip
    parser.add_argument("--metrics", metavar="PREFIX,…", help="which metrics")
    return parser


def _check(args: argparse.Namespace, action: str) -> None:
    if action == "alter":
        if bool(args.name) == args.generate_name:
            raise tool.UsageError("One of --name or --generate-name must be specified with --alter.")
        if args.interval and not args.interval.lstrip("+-").isdecimal():
            raise tool.UsageError("Invalid interval value. Enter an integer, or leave empty to reset.")
    if action == "delete" and not args.name:
        raise tool.UsageError("A client metrics resource name must be specified with --delete.")


def _alter(client: Client, args: argparse.Namespace) -> None:
    from ottla.client.admin.configs import Resource, alter_configs

    name = args.name or str(uuid.uuid4())
    given = {"interval.ms": args.interval, "match": args.match, "metrics": args.metrics}
    alter_configs(
        client.cluster,
        Resource("client-metric", name),
        set_={key: value for key, value in given.items() if value},
        delete=[key for key, value in given.items() if value == ""],
    )
    print(f"Altered client metrics config for {name}.")


def _delete(client: Client, args: argparse.Namespace) -> None:
    from ottla.client.admin.configs import Resource, alter_configs, describe_configs

    resource = Resource("client-metric", args.name)
    if keys := [entry.name for entry in describe_configs(client.cluster, resource) if not entry.is_default]:
        alter_configs(client.cluster, resource, delete=keys)
    print(f"Deleted client metrics config for {args.name}.")


def _describe(client: Client, args: argparse.Namespace) -> None:
    from ottla.client.admin.configs import Resource, describe_configs, resource_names

    names = resource_names(client.cluster, "client-metric")
    if args.name and args.name not in names:
        print(f"The client metric resource {args.name} doesn't exist and doesn't have dynamic config.")
        return
    for name in [args.name] if args.name else names:
        print(f"Client metrics configs for {name} are:")
        for entry in describe_configs(client.cluster, Resource("client-metric", name)):
            print(f"  {entry.name}={entry.value}")


def _list(client: Client, _args: argparse.Namespace) -> None:
    from ottla.client.admin.configs import resource_names

    print("\n".join(resource_names(client.cluster, "client-metric")))


if __name__ == "__main__":
    main()

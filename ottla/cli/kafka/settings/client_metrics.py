"""`kafka-client-metrics`"""

from __future__ import annotations

import argparse
import uuid

from ottla.cli.client import Client
from ottla.cli.kafka import tool
from ottla.client.admin.configs import Resource, alter_configs, describe_configs, resource_names

_ACTIONS = ("alter", "delete", "describe", "list")


@tool.entry_point(prefix="Error while executing client metrics command : ", to_stdout=True)
def main(argv: list[str]) -> None:
    args = _parser().options(argv)
    action = tool.only_one(
        args,
        _ACTIONS,
        "Command must include exactly one action: --alter, --delete, --describe or --list.",
    )
    _check(args, action)
    client = tool.connect(args)
    {"alter": _alter, "delete": _delete, "describe": _describe, "list": _list}[action](client, args)


def _parser() -> tool.Parser:
    return tool.Parser(
        "kafka-client-metrics", "Choose which metrics clients send to the brokers.", """
        --bootstrap-server, --broker-list
        --command-config
        --alter             create or change a subscription
        --delete            delete a subscription
        --describe          describe one or all subscriptions
        --list              list the names of subscriptions
        --name NAME         name of the subscription
        --generate-name     generate a name for a new subscription
        --interval MS:str   time between two pushes of a client; empty resets it
        --match K=V,…       clients to match: client_instance_id, client_id, client_software_name,
                            client_software_version, client_source_address, client_source_port
        --metrics PREFIX,…  metrics to send, by prefix
        """,
    )  # fmt: skip


def _check(args: argparse.Namespace, action: str) -> None:
    if action == "alter":
        if bool(args.name) == args.generate_name:
            raise tool.UsageError("One of --name or --generate-name must be specified with --alter.")
        if args.interval and not args.interval.lstrip("+-").isdecimal():
            raise tool.UsageError("Invalid interval value. Enter an integer, or leave empty to reset.")
    if action == "delete" and not args.name:
        raise tool.UsageError("A client metrics resource name must be specified with --delete.")


def _alter(client: Client, args: argparse.Namespace) -> None:
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
    resource = Resource("client-metric", args.name)
    if keys := [entry.name for entry in describe_configs(client.cluster, resource) if not entry.is_default]:
        alter_configs(client.cluster, resource, delete=keys)
    print(f"Deleted client metrics config for {args.name}.")


def _describe(client: Client, args: argparse.Namespace) -> None:
    names = resource_names(client.cluster, "client-metric")
    if args.name and args.name not in names:
        print(f"The client metric resource {args.name} doesn't exist and doesn't have dynamic config.")
        return
    for name in [args.name] if args.name else names:
        print(f"Client metrics configs for {name} are:")
        for entry in describe_configs(client.cluster, Resource("client-metric", name)):
            print(f"  {entry.name}={entry.value}")


def _list(client: Client, _args: argparse.Namespace) -> None:
    print("\n".join(resource_names(client.cluster, "client-metric")))

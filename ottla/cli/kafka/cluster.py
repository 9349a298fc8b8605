"""`kafka-cluster`"""

from __future__ import annotations

import argparse
from pathlib import Path

from ottla.cli.client import Client
from ottla.cli.errors import from_code
from ottla.cli.kafka import tool
from ottla.protocol.messages.cluster import UnregisterBrokerRequest, UnregisterBrokerResponse

_COMMANDS = {
    "cluster-id": "the id of the cluster",
    "unregister": "let the cluster forget a broker that is gone",
    "list-endpoints": "its brokers",
}


@tool.entry_point()
def main(argv: list[str]) -> int | None:
    args = _parser().parse_args(argv)
    if args.command is None:
        raise tool.UsageError(f"Say what to do: {', '.join(_COMMANDS)}.")
    if bool(args.bootstrap_server) == bool(args.bootstrap_controller):
        raise tool.UsageError(
            "One of the arguments --bootstrap-server and --bootstrap-controller is required."
        )
    tool.renamed(args, ("--config", "--command-config"), said=tool.DEPRECATED)
    args.bootstrap_server = args.bootstrap_server or args.bootstrap_controller
    client = tool.connect(args)
    if args.command == "cluster-id":
        print(f"Cluster ID: {client.brokers.metadata([]).cluster_id}")
    elif args.command == "unregister":
        _unregister(client, args.id)
    else:
        _list_endpoints(client)
    return 0


def _parser() -> tool.Parser:
    parser = tool.Parser("kafka-cluster", "Show the id of the cluster or its endpoints.")
    commands = parser.add_subparsers(dest="command", parser_class=_Sub)
    for name, help_text in _COMMANDS.items():
        command: argparse.ArgumentParser = commands.add_parser(name, help=help_text)
        command.add_argument(
            "--bootstrap-server", "--broker-list", "-b", metavar="HOST:PORT[,…]", help="the brokers"
        )
        command.add_argument(
            "--bootstrap-controller", "-C", metavar="HOST:PORT[,…]", help="Ottla's are its brokers"
        )
        command.add_argument(
            "--command-config", "--config", "-c", dest="command_config", type=Path, metavar="FILE"
        )
        if name == "unregister":
            command.add_argument("--id", "-i", type=int, required=True, metavar="N", help="the broker")
        if name == "list-endpoints":
            # Brokers that are fenced are not in the metadata of a broker of Ottla: there is nothing to add.
            command.add_argument(
                "--include-fenced-brokers", action="store_true", help="also those that may not lead"
            )
    return parser


def _unregister(client: Client, broker: int) -> None:
    connection = client.brokers.controller()
    if UnregisterBrokerRequest.api_key not in connection.versions:
        print("The target cluster does not support the broker unregistration API.")
        return
    answer = connection.request(UnregisterBrokerRequest(broker_id=broker), UnregisterBrokerResponse)
    if answer.error_code:
        raise from_code(answer.error_code, answer.error_message, f"Broker {broker}")
    print(f"Broker {broker} is no longer registered.")


def _list_endpoints(client: Client) -> None:
    rows = [
        (node.id, node.host, node.port, "null" if node.rack is None else node.rack, "unfenced", "broker")
        for node in client.brokers.nodes().values()
    ]
    host = max([4, *(len(row[1]) for row in rows)])
    rack = max([10, *(len(row[3]) for row in rows)])
    for cells in (("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"), *rows):
        print("{:<10} {:<{host}} {:<10} {:<{rack}} {:<10} {:<15}".format(*cells, host=host, rack=rack))


class _Sub(tool.Parser):
    def __init__(self, **options: str) -> None:
        super().__init__(options["prog"], "")

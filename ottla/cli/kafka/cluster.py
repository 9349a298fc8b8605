"""`kafka-cluster`"""

from __future__ import annotations

from ottla.cli.client import Client
from ottla.cli.kafka import tool
from ottla.cli.kafka.broker_api_versions import print_versions
from ottla.client.errors import refusal
from ottla.protocol.messages.cluster import UnregisterBrokerRequest, UnregisterBrokerResponse


@tool.entry_point()
def main(argv: list[str]) -> None:
    args = _parser().command(argv)
    if bool(args.bootstrap_server) == bool(args.bootstrap_controller):
        raise tool.UsageError(
            "One of the arguments --bootstrap-server and --bootstrap-controller is required."
        )
    tool.renamed(args, ("--config", "--command-config"), said=tool.DEPRECATED)
    args.bootstrap_server = args.bootstrap_server or args.bootstrap_controller
    client = tool.connect(args)
    if args.command == "cluster-id":
        print(f"Cluster ID: {client.cluster.metadata([]).cluster_id}")
    elif args.command == "unregister":
        _unregister(client, args.id)
    elif args.command == "api-versions":
        print_versions(client)
    else:
        _list_endpoints(client)


def _parser() -> tool.Parser:
    parser = tool.Parser("kafka-cluster", "Show the id of the cluster, its endpoints or its API versions.")
    servers = """
        --bootstrap-server, --broker-list, -b  the brokers
        --bootstrap-controller, -C             in Ottla, any broker
        --command-config, --config, -c
    """
    parser.add_command("cluster-id", "show the id of the cluster", servers)
    broker = "--id, -i N!  the broker"
    parser.add_command("unregister", "remove a stopped broker from the cluster", f"{servers}{broker}")
    # Brokers that are fenced are not in the metadata of a broker of Ottla: there is nothing to add.
    fenced = "--include-fenced-brokers  include fenced brokers"
    parser.add_command("list-endpoints", "list the brokers", f"{servers}{fenced}")
    parser.add_command("api-versions", "show the API versions of each broker", servers)
    return parser


def _unregister(client: Client, broker: int) -> None:
    connection = client.cluster.controller()
    if UnregisterBrokerRequest.api_key not in connection.versions:
        print("The target cluster does not support the broker unregistration API.")
        return
    answer = connection.request(UnregisterBrokerRequest(broker_id=broker), UnregisterBrokerResponse)
    if answer.error_code:
        raise refusal(answer.error_code, answer.error_message, f"Broker {broker}")
    print(f"Broker {broker} is no longer registered.")


def _list_endpoints(client: Client) -> None:
    rows = [
        (node.id, node.host, node.port, "null" if node.rack is None else node.rack, "unfenced", "broker")
        for node in client.cluster.nodes().values()
    ]
    tool.print_table("ID 10, HOST 4+, PORT 10, RACK 10+, STATE 10, ENDPOINT_TYPE 15", rows)

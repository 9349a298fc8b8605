"""`kafka-cluster`"""

from __future__ import annotations

from pathlib import Path

from ottla.cli.kafka import tool


def main() -> None:
    tool.main(run)


def run(argv: list[str]) -> int | None:
    parser = tool.Parser("kafka-cluster", "Show the id of the cluster or its endpoints.")
    commands = parser.add_subparsers(dest="command", parser_class=_Sub)
    for name, help_text in (("cluster-id", "the id of the cluster"), ("list-endpoints", "its brokers")):
        command = commands.add_parser(name, help=help_text)
        command.add_argument(
            "--bootstrap-server", "--broker-list", "-b", metavar="HOST:PORT[,…]", required=True
        )
        command.add_argument("--config", "-c", dest="command_config", type=Path, metavar="FILE")
    args = parser.parse_args(argv)
    if args.command is None:
        raise tool.UsageError("Say what to do: cluster-id or list-endpoints.")
    client = tool.connect(args)
    if args.command == "cluster-id":
        print(f"Cluster ID: {client.brokers.metadata([]).cluster_id}")
        return 0
    rows = [
        (node.id, node.host, node.port, "null" if node.rack is None else node.rack, "unfenced", "broker")
        for node in client.brokers.nodes().values()
    ]
    host = max([4, *(len(row[1]) for row in rows)])
    rack = max([10, *(len(row[3]) for row in rows)])
    for cells in (("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"), *rows):
        print("{:<10} {:<{host}} {:<10} {:<{rack}} {:<10} {:<15}".format(*cells, host=host, rack=rack))
    return 0


class _Sub(tool.Parser):
    def __init__(self, **options: str) -> None:
        super().__init__(options["prog"], "")


if __name__ == "__main__":
    main()

"""`kafka-preferred-replica-election`: what kafka-leader-election was called before it knew other elections."""

from __future__ import annotations

from pathlib import Path

from ottla.cli.kafka import tool
from ottla.cli.kafka.partitions.leader_election import elect, read_partitions


def main() -> None:
    tool.main(run)


def run(argv: list[str]) -> int | None:
    parser = tool.Parser(
        "kafka-preferred-replica-election",
        "Give partitions back to their preferred leaders: kafka-leader-election --election-type preferred.",
    )
    parser.add_servers(zookeeper=True)
    parser.add_argument(
        "--admin.config", "--command-config", dest="command_config", type=Path, metavar="FILE"
    )
    parser.add_argument(
        "--path-to-json-file", type=Path, metavar="FILE", help="the partitions in JSON; without it, all"
    )
    args = parser.options(argv)
    file = args.path_to_json_file
    partitions = None if file is None else read_partitions(file)
    return elect(tool.connect(args), "preferred", partitions)


if __name__ == "__main__":
    main()

"""`connect-mirror-maker mm2.properties`, and `kafka-mirror-maker` of older Kafkas."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool

if TYPE_CHECKING:
    from ottla.mirror.settings import FlowSettings


@tool.entry_point()
def main(argv: list[str]) -> int | None:
    parser = tool.Parser(
        "connect-mirror-maker",
        "Copy topics, settings and groups between clusters.",
        without_any="USAGE: connect-mirror-maker [-daemon] mm2.properties [--clusters CLUSTER …]",
    )
    parser.add_argument("-daemon", action="store_true", help="run in the background")
    parser.add_argument("properties", type=Path, metavar="mm2.properties", help="clusters and flows")
    parser.add_argument(
        "--clusters", nargs="+", default=[], metavar="CLUSTER", help="run only flows into these clusters"
    )
    args = parser.parse_args(argv)
    _check(args.properties, "mm2.properties")
    if args.daemon:
        from ottla.cli.kafka.servers.start_stop import run_in_background

        return run_in_background(argv, "mirror-maker.out", "is running.")
    from ottla.cli.commands.servers.http_servers import file_properties
    from ottla.cli.jobs.mirror import run_flows

    def read() -> list[FlowSettings]:
        from ottla.mirror.settings import parse_flows

        return parse_flows(file_properties(args.properties), args.clusters)

    run_flows(read)
    return 0


@tool.entry_point()
def main_legacy(argv: list[str]) -> int | None:
    parser = tool.Parser(
        "kafka-mirror-maker",
        "Copy topics under their own names from one cluster to another.",
        """
        --consumer.config FILE!  properties of the consumer: the cluster to copy from, and group.id
        --producer.config FILE!  properties of the producer: the cluster to copy to
        --include, --whitelist REGEX!  the topics to copy
        --num.streams N          no effect: Spark decides the parallelism
        --offset.commit.interval.ms MS  no effect: positions are committed with the records
        --abort.on.send.failure BOOLEAN  no effect: no record is skipped
        --new.consumer           accepted
        """,
        without_any="USAGE: kafka-mirror-maker --consumer.config FILE --producer.config FILE --include REGEX",
    )
    args = vars(parser.options(argv))
    from ottla.cli.commands.servers.http_servers import file_properties
    from ottla.cli.jobs.mirror import run_flows

    consumer, producer = args["consumer.config"], args["producer.config"]
    _check(consumer, "properties of the consumer")
    _check(producer, "properties of the producer")

    def read() -> list[FlowSettings]:
        from ottla.mirror.settings import legacy_flow

        return [legacy_flow(file_properties(consumer), file_properties(producer), args["include"])]

    run_flows(read)
    return 0


def _check(file: Path, what: str) -> None:
    if not file.is_file():
        raise JobError(f"There is no file {file}: name the {what}.")

"""`kafka-leader-election`"""

from __future__ import annotations

import json
from pathlib import Path

from ottla.cli.client import Client
from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.client.admin.reassignments import elect_leaders

_TYPES = {"preferred": 0, "unclean": 1}
_EXCEPTIONS = {
    "UNKNOWN_TOPIC_OR_PARTITION": "UnknownTopicOrPartitionException",
    "PREFERRED_LEADER_NOT_AVAILABLE": "PreferredLeaderNotAvailableException",
    "ELIGIBLE_LEADERS_NOT_AVAILABLE": "EligibleLeadersNotAvailableException",
}


@tool.entry_point()
def main(argv: list[str]) -> None:
    parser = tool.Parser(
        "kafka-leader-election", "Elect the preferred leaders of partitions, or unclean ones.", """
        --bootstrap-server, --broker-list
        --admin.config, --command-config
        --election-type preferred|unclean  which election to hold
        --topic TOPIC                      the topic of the partition
        --partition N:int                  the partition
        --path-to-json-file FILE           the partitions in JSON
        --all-topic-partitions             all partitions of the cluster
        """,
        without_any="This tool attempts to elect a new leader for a set of topic partitions. The type of elections "
        "supported are preferred replicas and unclean replicas.",
    )  # fmt: skip
    args = parser.options(argv)
    tool.renamed(args, ("--admin.config", "--command-config"), said=tool.DEPRECATED, both=tool.TOGETHER)
    if not args.election_type:
        raise tool.UsageError("Missing required option(s): election-type")
    if args.election_type.lower() not in _TYPES:
        raise tool.UsageError(f"There is no election type '{args.election_type}': use preferred or unclean.")
    scopes = [args.topic is not None, args.path_to_json_file is not None, args.all_topic_partitions]
    if sum(scopes) != 1:
        raise tool.UsageError(
            "One and only one of the following options is required: topic, all-topic-partitions, path-to-json-file"
        )
    if (args.topic is None) != (args.partition is None):
        raise tool.UsageError(
            "Missing required option(s): partition" if args.topic else "Missing required option(s): topic"
        )
    partitions: list[tuple[str, int]] | None = None
    if args.topic is not None:
        partitions = [(args.topic, args.partition)]
    elif args.path_to_json_file is not None:
        partitions = _read_partitions(args.path_to_json_file)
    _elect(tool.connect(args), args.election_type.lower(), partitions)


@tool.entry_point()
def main_preferred(argv: list[str]) -> None:
    parser = tool.Parser(
        "kafka-preferred-replica-election",
        "Elect the preferred leaders of partitions: kafka-leader-election --election-type preferred.", """
        --bootstrap-server, --broker-list
        --zookeeper
        --admin.config, --command-config
        --path-to-json-file FILE  the partitions in JSON; without it, all
        """,
    )  # fmt: skip
    args = parser.options(argv)
    file = args.path_to_json_file
    partitions = None if file is None else _read_partitions(file)
    _elect(tool.connect(args), "preferred", partitions)


def _elect(client: Client, kind: str, partitions: list[tuple[str, int]] | None) -> None:
    outcome = elect_leaders(client.cluster, _TYPES[kind], partitions)
    kind = kind.upper()
    names: dict[str, list[str]] = {"NONE": [], "ELECTION_NOT_NEEDED": []}
    for partition, (error, _) in outcome.items():
        names.setdefault(error, []).append(f"{partition[0]}-{partition[1]}")
    if names["NONE"]:
        print(f"Successfully completed leader election ({kind}) for partitions {', '.join(names['NONE'])}")
    if names["ELECTION_NOT_NEEDED"]:
        print(f"Valid replica already elected for partitions {', '.join(names['ELECTION_NOT_NEEDED'])}")
    failed = {key: said for key, said in outcome.items() if said[0] not in ("NONE", "ELECTION_NOT_NEEDED")}
    for (topic, number), (error, message) in failed.items():
        exception = f"org.apache.kafka.common.errors.{_EXCEPTIONS.get(error, error)}: {message or error}"
        print(f"Error completing leader election ({kind}) for partition: {topic}-{number}: {exception}")
    if failed:
        raise JobError(f"{len(failed)} replica(s) could not be elected")


def _read_partitions(path: Path) -> list[tuple[str, int]]:
    try:
        document = json.loads(tool.read_text(path))
        partitions = [(str(entry["topic"]), int(entry["partition"])) for entry in document["partitions"]]
    except (ValueError, KeyError, TypeError):
        raise JobError(
            f'{path} is not of the form {{"partitions": [{{"topic": "foo", "partition": 1}}]}}.'
        ) from None
    if twice := ", ".join(f"{topic}-{number}" for topic, number in tool.repeated(partitions)):
        raise JobError(f"Replica election data contains duplicate partitions: [{twice}]")
    return partitions

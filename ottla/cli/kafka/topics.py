"""`kafka-topics`"""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool

if TYPE_CHECKING:
    from ottla.cli.client import Client
    from ottla.cli.jobs.configs import ConfigEntry
    from ottla.cli.jobs.topics import PartitionDescription, TopicDescription

_ACTIONS = ("list", "describe", "create", "alter", "delete")
_COLLISION = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
    "collide. To avoid issues it is best to use either, but not both."
)
_FILTERS = (
    "under_replicated_partitions",
    "unavailable_partitions",
    "under_min_isr_partitions",
    "at_min_isr_partitions",
)


def main() -> None:
    tool.main(run, prefix="Error while executing topic command : ", stream=lambda: sys.stdout)


def run(argv: list[str]) -> int | None:
    args = _parser().parse_args(argv)
    action = tool.only_one(
        args,
        _ACTIONS,
        "Command must include exactly one action: --list, --describe, --create, --alter or --delete",
    )
    _check(args, action)
    client = tool.connect(args)
    if action == "create":
        _create(client, args)
    elif action == "list":
        for name in _names(client, args):
            print(name)
    elif action == "describe":
        _describe(client, args)
    elif action == "alter":
        _alter(client, args)
    else:
        _delete(client, args)
    return 0


def _parser() -> tool.Parser:
    parser = tool.Parser("kafka-topics", "Create, list, describe, alter and delete topics.")
    parser.add_servers(zookeeper=True)
    parser.add_command_config()
    parser.add_flag("--list", help="list all available topics")
    parser.add_flag("--describe", help="list details of the given topics")
    parser.add_flag("--create", help="create a topic")
    parser.add_flag("--alter", help="raise the number of partitions")
    parser.add_flag("--delete", help="delete topics")
    parser.add_argument("--topic", help="the topic; a regular expression except for --create")
    parser.add_argument("--topic-id", help="the id of the topic to describe")
    parser.add_argument("--partitions", type=int, metavar="N", help="the number of partitions")
    parser.add_argument("--replication-factor", type=int, metavar="N", help="copies of each partition")
    parser.add_argument("--replica-assignment", metavar="1:2,2:3", help="which broker holds which replica")
    parser.add_many("--config", metavar="NAME=VALUE", help="a setting of the topic to create")
    parser.add_many("--delete-config", metavar="NAME", help="no longer here: use kafka-configs")
    parser.add_flag("--if-exists", help="do nothing if the topic is not there (alter, delete, describe)")
    parser.add_flag("--if-not-exists", help="do nothing if the topic is there already (create)")
    parser.add_flag("--exclude-internal", help="leave internal topics out (list, describe)")
    parser.add_flag("--topics-with-overrides", help="only topics that have settings of their own")
    parser.add_flag(
        "--under-replicated-partitions", help="only partitions whose replicas are not all in sync"
    )
    parser.add_flag("--unavailable-partitions", help="only partitions without a leader")
    parser.add_flag("--under-min-isr-partitions", help="only partitions below min.insync.replicas")
    parser.add_flag("--at-min-isr-partitions", help="only partitions exactly at min.insync.replicas")
    parser.add_argument("--partition-size-limit-per-response", type=int, metavar="N", help=argparse.SUPPRESS)
    parser.add_flag("--disable-rack-aware", help=argparse.SUPPRESS)
    parser.add_flag("--force", help=argparse.SUPPRESS)
    return parser


def _check(args: argparse.Namespace, action: str) -> None:
    if args.delete_config or (action == "alter" and args.config):
        option = "delete-config" if args.delete_config else "config"
        raise tool.UsageError(
            f'Option "[{option}]" can\'t be used with option "[bootstrap-server]": '
            "settings are changed with kafka-configs."
        )
    if args.config and action != "create":
        raise tool.UsageError(f'Option "[config]" can\'t be used with option "[{action}]"')
    if action in ("create", "alter", "delete") and not args.topic:
        raise tool.UsageError(f'Missing required argument "[topic]" for --{action}')
    if action == "alter" and args.partitions is None:
        raise tool.UsageError('Missing required argument "[partitions]" for --alter')
    if sum(getattr(args, name) for name in _FILTERS) + args.topics_with_overrides > 1:
        raise tool.UsageError("Only one of the filters for --describe can be used at a time")
    allowed = {
        "partitions": ("create", "alter"),
        "replication_factor": ("create",),
        "replica_assignment": ("create", "alter"),
        "if_not_exists": ("create",),
        "if_exists": ("alter", "delete", "describe"),
        "exclude_internal": ("list", "describe"),
        "topic_id": ("describe",),
        **dict.fromkeys((*_FILTERS, "topics_with_overrides"), ("describe",)),
    }
    for name, actions in allowed.items():
        if getattr(args, name) and action not in actions:
            option = name.replace("_", "-")
            raise tool.UsageError(f'Option "[{action}]" can\'t be used with option "[{option}]"')
    if action == "create" and args.replica_assignment and (args.partitions or args.replication_factor):
        raise tool.UsageError('Option "[replica-assignment]" can\'t be used with option "[partitions]"')


# -- actions -------------------------------------------------------------------------------------------


def _create(client: Client, args: argparse.Namespace) -> None:
    from ottla.cli.jobs.topics import create_topic

    for option, value in (("partitions", args.partitions), ("replication factor", args.replication_factor)):
        if value is not None and value < 1:
            raise JobError(f"The {option} must be greater than 0")
    if "." in args.topic or "_" in args.topic:
        print(_COLLISION)
    assignment = _assignment(args.replica_assignment) if args.replica_assignment else None
    try:
        create_topic(
            client,
            args.topic,
            partitions=args.partitions,
            replication_factor=args.replication_factor,
            configs=tool.key_values(args.config),
            assignment=assignment,
        )
    except JobError as error:
        if error.code == "TOPIC_ALREADY_EXISTS" and args.if_not_exists:
            return
        raise
    print(f"Created topic {args.topic}.")


def _assignment(text: str) -> list[list[int]]:
    """`1:2,2:3`: the replicas of partition 0, then of partition 1, …"""
    try:
        assignment = [[int(broker) for broker in partition.split(":")] for partition in text.split(",")]
    except ValueError:
        raise tool.UsageError(f"'{text}' is not a replica assignment: write 0:1,1:2") from None
    for number, replicas in enumerate(assignment):
        if len(set(replicas)) != len(replicas):
            raise JobError(f"Partition {number} has the same broker twice in its replicas: {replicas}")
        if len(replicas) != len(assignment[0]):
            raise JobError(f"Partition {number} has a different number of replicas than the others")
    return assignment


def _names(client: Client, args: argparse.Namespace) -> list[str]:
    """Topics that match --topic, which is a regular expression."""
    from ottla.cli.jobs.topics import topic_names

    names = topic_names(client, include_internal=not args.exclude_internal)
    if not args.topic:
        return names
    pattern = args.topic.strip("\"'")
    try:
        return [name for name in names if re.fullmatch(pattern.replace(",", "|"), name)]
    except re.error:
        raise JobError(f"{pattern} is an invalid regex.") from None


def _existing(client: Client, args: argparse.Namespace) -> list[str]:
    names = _names(client, args)
    if args.topic and not names and not args.if_exists:
        raise JobError(f"Topic '{args.topic}' does not exist as expected")
    return names


def _alter(client: Client, args: argparse.Namespace) -> None:
    from ottla.cli.jobs.topics import add_partitions

    for name in _existing(client, args):
        add_partitions(client, name, args.partitions)


def _delete(client: Client, args: argparse.Namespace) -> None:
    from ottla.cli.jobs.topics import delete_topics

    names = _existing(client, args)
    if names:
        delete_topics(client, names)


def _describe(client: Client, args: argparse.Namespace) -> None:
    from ottla.cli.jobs.configs import Resource, describe_many
    from ottla.cli.jobs.topics import describe_topics

    if args.topic_id:
        names = [name for name in _names(client, args) if _has_id(client, name, args.topic_id)]
        if not names and not args.if_exists:
            raise JobError(f"TopicId '{args.topic_id}' does not exist as expected")
    else:
        names = _existing(client, args)
    described = describe_topics(client, names, skip_missing=True)
    resources = {topic.name: Resource("topic", topic.name) for topic in described}
    configs = describe_many(client, list(resources.values()), synonyms=False)
    live = set(client.brokers.nodes())
    filtered = any(getattr(args, name) for name in _FILTERS)
    for topic in described:
        entries = configs[resources[topic.name]]
        if args.topics_with_overrides and all(entry.is_default for entry in entries):
            continue
        if not filtered:
            print(_heading(topic, entries))
        if args.topics_with_overrides:
            continue
        least = next((int(e.value or 1) for e in entries if e.name == "min.insync.replicas"), 1)
        for partition in topic.partitions:
            if not filtered or _chosen(args, partition, least, live):
                print(_line(topic.name, partition))


def _has_id(client: Client, name: str, topic_id: str) -> bool:
    from ottla.cli.jobs.topics import describe_topics

    return any(topic.topic_id == topic_id for topic in describe_topics(client, [name], skip_missing=True))


def _chosen(args: argparse.Namespace, partition: PartitionDescription, least: int, live: set[int]) -> bool:
    in_sync = len(partition.isr)
    return bool(
        (args.under_replicated_partitions and in_sync < len(partition.replicas))
        or (args.unavailable_partitions and partition.leader not in live)
        or (args.under_min_isr_partitions and (partition.leader is None or in_sync < least))
        or (args.at_min_isr_partitions and partition.leader is not None and in_sync == least)
    )


def _heading(topic: TopicDescription, entries: list[ConfigEntry]) -> str:
    from ottla.cli.kafka.java_order import hash_map_order

    values = {entry.name: entry for entry in entries}
    shown = [f"{name}={values[name].value}" for name in hash_map_order(values) if not values[name].is_default]
    return (
        f"Topic: {topic.name}\tTopicId: {topic.topic_id}\tPartitionCount: {len(topic.partitions)}\t"
        f"ReplicationFactor: {len(topic.partitions[0].replicas) if topic.partitions else 0}\t"
        f"Configs: {','.join(shown)}"
    )


def _line(topic: str, partition: PartitionDescription) -> str:
    def ids(brokers: list[int] | None) -> str:
        return "N/A" if brokers is None else ",".join(map(str, brokers))

    return (
        f"\tTopic: {topic}\tPartition: {partition.partition}\t"
        f"Leader: {'none' if partition.leader is None else partition.leader}\t"
        f"Replicas: {ids(partition.replicas)}\tIsr: {ids(partition.isr)}\t"
        f"Elr: {ids(partition.eligible_leader_replicas)}\tLastKnownElr: {ids(partition.last_known_elr)}"
    )


if __name__ == "__main__":
    main()

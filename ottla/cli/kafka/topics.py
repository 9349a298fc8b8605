"""`kafka-topics`"""

from __future__ import annotations

import argparse
import re
import sys

from ottla.cli.client import Client
from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.tool import hash_map_order
from ottla.client.admin.configs import ConfigEntry, Resource, alter_configs, describe_many
from ottla.client.admin.topics import (
    PartitionDescription,
    TopicDescription,
    add_partitions,
    create_topic,
    delete_topics,
    describe_topics,
    topic_names,
)
from ottla.protocol.errors import ErrorCode

_ACTIONS = ("list", "describe", "create", "alter", "delete")
_COLLISION = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
    "collide. To avoid issues it is best to use either, but not both."
)
_DELETE_CONFIG = (
    "delete-config option is no longer supported and deprecated since version 4.0. The config will be fully removed "
    "in future releases."
)
# What Kafka's tool said with --zookeeper.
_ALTERING_CONFIGS = (
    "WARNING: Altering topic configuration from this script has been deprecated and may be removed in future "
    "releases.\n"
    "         Going forward, please use kafka-configs.sh for this functionality"
)
_KEYS_MOVE = (
    "WARNING: If partitions are increased for a topic that has a key, the partition logic or ordering of the messages "
    "will be affected"
)
_DELETION_ENABLED = "Note: This will have no impact if delete.topic.enable is not set to true."
_MOST_REPLICAS = 32767
_NO_ID = "A" * 22
_FILTERS = (
    "under_replicated_partitions",
    "unavailable_partitions",
    "under_min_isr_partitions",
    "at_min_isr_partitions",
)


@tool.entry_point(prefix="Error while executing topic command : ", to_stdout=True)
def main(argv: list[str]) -> None:
    args = _parser().options(argv)
    action = tool.only_one(
        args,
        _ACTIONS,
        "Command must include exactly one action: --list, --describe, --create, --alter or --delete",
    )
    _check(args, action)
    client = tool.connect(args)
    actions = {"list": _list, "describe": _describe, "create": _create, "alter": _alter, "delete": _delete}
    actions[action](client, args)


def _parser() -> tool.Parser:
    return tool.Parser(
        "kafka-topics", "Create, list, describe, alter and delete topics.", """
        --bootstrap-server, --broker-list
        --zookeeper
        --command-config
        --list                         list all available topics
        --describe                     list details of the given topics
        --create                       create a topic
        --alter                        add partitions; with --zookeeper change settings as well
        --delete                       delete topics
        --topic TOPIC                  the topic; a regular expression except for --create
        --topic-id TOPIC_ID            the id of the topic to describe
        --partitions N:int             the number of partitions
        --replication-factor N:int     copies of each partition
        --replica-assignment 1:2,2:3   brokers of each partition's replicas
        --config NAME=VALUE*           setting of the new topic; use kafka-configs to change one
        --delete-config NAME*          works only with --zookeeper; use kafka-configs
        --if-exists                    do nothing if the topic does not exist (alter, delete, describe)
        --if-not-exists                do nothing if the topic already exists (create)
        --exclude-internal             omit internal topics (list, describe)
        --topics-with-overrides        show only topics with their own settings
        --under-replicated-partitions  show only partitions with replicas out of sync
        --unavailable-partitions       show only partitions without a leader
        --under-min-isr-partitions     show only partitions below min.insync.replicas
        --at-min-isr-partitions        show only partitions exactly at min.insync.replicas
        --partition-size-limit-per-response N:int  partitions per response of the broker
        --disable-rack-aware           (hidden)
        --force                        (hidden)
        """,
        without_any="Create, delete, describe, or change a topic.",
    )  # fmt: skip


def _check(args: argparse.Namespace, action: str) -> None:
    """Check in Kafka's order, so that the same one of several errors is reported."""
    if not args.bootstrap_server and not args.zookeeper:
        raise tool.UsageError("--bootstrap-server must be specified")
    if action == "describe" and args.if_exists and not args.topic and not args.topic_id:
        raise tool.UsageError("--topic or --topic-id is required to describe a topic")
    if action == "describe" and args.if_exists and args.topic and args.topic_id:
        print(
            "Only topic id will be used when both --topic and --topic-id are specified and topicId is not "
            "Uuid.ZERO_UUID"
        )
    if action in ("create", "alter", "delete"):
        tool.required(args, "topic")
    if action == "alter" and not (_as_of_old(args) and (args.config or args.delete_config)):
        if args.config:
            raise tool.UsageError(
                'Option combination "[[config], [bootstrap-server]]" can\'t be used with option "[alter]" (To alter '
                "topic configurations, the kafka-configs tool can be used.)"
            )
        if args.delete_config:
            print(_DELETE_CONFIG, file=sys.stderr)
        if args.partitions is None:
            raise tool.missing("partitions")
    allowed = {
        "config": ("create", "alter") if _as_of_old(args) else ("create",),
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
            raise tool.together(name, action)
    if action == "create" and args.replica_assignment:
        for name in ("partitions", "replication_factor"):
            if getattr(args, name) is not None:
                raise tool.together("replica_assignment", name)
    for name in _FILTERS:
        if args.topics_with_overrides and getattr(args, name):
            raise tool.together(name, "topics_with_overrides")


def _as_of_old(args: argparse.Namespace) -> bool:
    """With --zookeeper this tool also changed topic settings until Kafka 3.0."""
    return bool(args.zookeeper) and not args.bootstrap_server


# -- actions -------------------------------------------------------------------------------------------


def _create(client: Client, args: argparse.Namespace) -> None:
    if args.partitions is not None and args.partitions < 1:
        raise JobError("The partitions must be greater than 0")
    if args.replication_factor is not None and not 1 <= args.replication_factor <= _MOST_REPLICAS:
        raise JobError(f"The replication factor must be between 1 and {_MOST_REPLICAS} inclusive")
    configs = _configs(args.config)
    assignment = _assignment(args.replica_assignment) if args.replica_assignment else None
    if "." in args.topic or "_" in args.topic:
        print(_COLLISION)
    try:
        create_topic(
            client.cluster,
            args.topic,
            partitions=args.partitions,
            replication_factor=args.replication_factor,
            configs=configs,
            assignment=assignment,
        )
    except JobError as error:
        if error.code == ErrorCode.TOPIC_ALREADY_EXISTS and args.if_not_exists:
            return
        raise
    print(f"Created topic {args.topic}.")


def _configs(pairs: list[str]) -> dict[str, str]:
    configs = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        if not key.strip() or not value.strip():
            raise JobError(
                "requirement failed: Invalid topic config: all configs to be added must be in the format "
                '"key=val".'
            )
        configs[key.strip()] = value.strip()
    return configs


def _assignment(text: str) -> list[list[int]]:
    """`1:2,2:3`: the replicas of partition 0, then of partition 1, …"""
    assignment: list[list[int]] = []
    for part in text.split(","):
        replicas = []
        for broker in part.split(":"):
            try:
                replicas.append(int(broker))
            except ValueError:
                raise JobError(f'For input string: "{broker}"') from None
        if twice := tool.repeated(replicas):
            names = ",".join(map(str, twice))
            raise JobError(f"Partition replica lists may not contain duplicate entries: {names}")
        assignment.append(replicas)
        if len(replicas) != len(assignment[0]):
            raise JobError(f"Partition {len(assignment) - 1} has different replication factor: {replicas}")
    return assignment


def _names(client: Client, args: argparse.Namespace) -> list[str]:
    names = topic_names(client.cluster, include_internal=not args.exclude_internal)
    if not args.topic:
        return names
    pattern = args.topic.strip("\"'")
    try:
        return [name for name in names if re.fullmatch(pattern.replace(",", "|"), name)]
    except re.error:
        raise JobError(f"{pattern} is an invalid regex.") from None


def _list(client: Client, args: argparse.Namespace) -> None:
    for name in _names(client, args):
        print(name)


def _existing(client: Client, args: argparse.Namespace) -> list[str]:
    names = _names(client, args)
    if args.topic and not names and not args.if_exists:
        raise JobError(f"Topic '{args.topic}' does not exist as expected")
    return names


def _alter(client: Client, args: argparse.Namespace) -> None:
    names = _existing(client, args)
    if _as_of_old(args) and (args.config or args.delete_config):
        _alter_configs(client, names, args)
    if args.partitions is None:
        return
    if _as_of_old(args) and names:
        print(_KEYS_MOVE)
    assignment = _assignment(args.replica_assignment) if args.replica_assignment else None
    for topic in describe_topics(client.cluster, names, skip_missing=True):
        # The assignment includes the partitions that exist already.
        added = None if assignment is None else assignment[len(topic.partitions) :]
        add_partitions(client.cluster, topic.name, args.partitions, added)
        if _as_of_old(args):
            print("Adding partitions succeeded!")


def _alter_configs(client: Client, names: list[str], args: argparse.Namespace) -> None:
    configs = _configs(args.config)
    deleted = [name.strip() for name in args.delete_config]
    for name in names:
        print(_ALTERING_CONFIGS)
        alter_configs(client.cluster, Resource("topic", name), set_=configs, delete=deleted)
        print(f"Updated config for topic {name}.")


def _delete(client: Client, args: argparse.Namespace) -> None:
    names = _existing(client, args)
    if names:
        delete_topics(client.cluster, names)
    if _as_of_old(args):
        for name in names:
            print(f"Topic {name} is marked for deletion.\n{_DELETION_ENABLED}")


def _describe(client: Client, args: argparse.Namespace) -> None:
    if args.topic_id is not None and _checked_id(args.topic_id) != _NO_ID:
        described = [
            topic
            for topic in describe_topics(client.cluster, _names(client, args), skip_missing=True)
            if topic.topic_id == args.topic_id
        ]
        if not described and not args.if_exists:
            raise JobError(f"TopicId '{args.topic_id}' does not exist as expected")
    else:
        limit = args.partition_size_limit_per_response
        described = describe_topics(client.cluster, _existing(client, args), skip_missing=True, at_once=limit)
    resources = {topic.name: Resource("topic", topic.name) for topic in described}
    configs = describe_many(client.cluster, list(resources.values()), synonyms=False)
    live = set(client.cluster.nodes())
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
                print(_line(topic.name, partition, with_elr=not _as_of_old(args)))


def _checked_id(topic_id: str) -> str:
    from base64 import urlsafe_b64decode

    if len(topic_id) > 24:
        raise JobError(
            f"Input string with prefix `{topic_id[:24]}` is too long to be decoded as a base64 UUID"
        )
    try:
        size = len(urlsafe_b64decode(topic_id + "=" * (-len(topic_id) % 4)))
    except ValueError:
        raise JobError(f"'{topic_id}' is not the id of a topic") from None
    if size != 16:
        raise JobError(
            f"Input string `{topic_id}` decoded as {size} bytes, which is not equal to the expected 16 bytes of a "
            "base64-encoded UUID"
        )
    return topic_id


def _chosen(args: argparse.Namespace, partition: PartitionDescription, least: int, live: set[int]) -> bool:
    in_sync = len(partition.isr)
    return bool(
        (args.under_replicated_partitions and in_sync < len(partition.replicas))
        or (args.unavailable_partitions and partition.leader not in live)
        or (args.under_min_isr_partitions and (partition.leader is None or in_sync < least))
        or (args.at_min_isr_partitions and partition.leader is not None and in_sync == least)
    )


def _heading(topic: TopicDescription, entries: list[ConfigEntry]) -> str:
    values = {entry.name: entry for entry in entries}
    shown = [f"{name}={values[name].value}" for name in hash_map_order(values) if not values[name].is_default]
    return (
        f"Topic: {topic.name}\tTopicId: {topic.topic_id}\tPartitionCount: {len(topic.partitions)}\t"
        f"ReplicationFactor: {len(topic.partitions[0].replicas) if topic.partitions else 0}\t"
        f"Configs: {','.join(shown)}"
    )


def _line(topic: str, partition: PartitionDescription, *, with_elr: bool) -> str:
    def ids(brokers: list[int] | None) -> str:
        return "N/A" if brokers is None else ",".join(map(str, brokers))

    line = (
        f"\tTopic: {topic}\tPartition: {partition.partition}\t"
        f"Leader: {'none' if partition.leader is None else partition.leader}\t"
        f"Replicas: {ids(partition.replicas)}\tIsr: {ids(partition.isr)}"
    )
    if not with_elr:
        return line
    elr, last_known = ids(partition.eligible_leader_replicas), ids(partition.last_known_elr)
    return f"{line}\tElr: {elr}\tLastKnownElr: {last_known}"

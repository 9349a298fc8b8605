"""`kafka-streams-application-reset`"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Collection
from pathlib import Path

from ottla.cli.client import Client
from ottla.cli.errors import GroupNotFound, JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.groups.reset_offsets import TARGETS, target_of
from ottla.client.admin.groups import describe_group, remove_members
from ottla.client.admin.offsets import Partition
from ottla.client.admin.reset import OffsetChange, Target, plan_offsets, plan_reset
from ottla.client.admin.streams_groups import describe_streams_group
from ottla.client.admin.topics import delete_topics, topic_names
from ottla.client.cluster import CoordinatorType
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.streams_groups import StreamsGroupDescribeRequest

# The topics that Kafka Streams keeps in a cluster for an application.

_INTERNAL = re.compile(
    r".+-(changelog|repartition|subscription-registration-topic|subscription-response-topic"
    r"|KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic)"
)


def internal_topics(application: str, topics: Collection[str]) -> list[str]:
    """Those of `topics` that Kafka Streams made for the application."""
    return [
        name for name in sorted(topics) if name.startswith(f"{application}-") and _INTERNAL.fullmatch(name)
    ]


# `kafka-streams-application-reset`

_TARGETS = ("to_offset", "to_datetime", "by_duration", "to_earliest", "to_latest", "from_file", "shift_by")


@tool.entry_point(prefix="ERROR: ")
def main(argv: list[str]) -> int | None:
    args = _parser().options(argv)
    if args.application_id is None:
        raise tool.UsageError("Missing required option(s) [application-id]")
    chosen = [name for name in _TARGETS if getattr(args, name) not in (None, False)]
    if len(chosen) > 1:
        raise tool.together(*chosen[:2])
    try:
        target = target_of(args)
    except ValueError as error:
        raise tool.UsageError(f"{error}.") from None
    args.bootstrap_server = args.bootstrap_server or "localhost:9092"
    client = tool.connect(args)
    client.cluster.any_connection()  # fail early and clearly
    _end_members(client, args.application_id, args.force)
    topics = topic_names(client.cluster)
    if args.dry_run:
        print("----Dry run displays the actions which will be performed when running Streams Reset Tool----")
    code = _move(client, args, target, topics)
    _delete_internal_topics(client, args, topics)
    return code


def _parser() -> tool.Parser:
    parser = tool.Parser(
        "kafka-streams-application-reset",
        "Reset a Kafka Streams application: move its offsets and delete its internal topics.\n"
        "The local state stays: call KafkaStreams.cleanUp() in the application as well.",
    )
    parser.add_options(
        """
        --bootstrap-server, --broker-list
        --command-config, --config-file
        --application-id ID         application.id of the application
        --input-topics LIST*        topics to read from the beginning, or from another position
        --intermediate-topics LIST*  topics to read from the end
        --internal-topics LIST*     delete only these internal topics
        --force                     remove members that are still in the group
        --dry-run                   show the plan only
        """
    )
    parser.add_options(TARGETS, group="where in --input-topics the application begins")
    return parser


def _listed(values: list[str]) -> list[str]:
    return list(dict.fromkeys(name for value in values for name in value.split(",") if name))


def _shown(names: list[str]) -> str:
    return f"[{', '.join(names)}]"


def _end_members(client: Client, group: str, force: bool) -> None:
    """A running application would commit its old offsets again."""
    try:
        members = [member.consumer_id for member in describe_group(client.cluster, group).members]
    except GroupNotFound:
        _check_streams_group(client, group)
        return
    if members and not force:
        raise JobError(
            f"Consumer group '{group}' is still active and has following members: {_shown(members)}. Make sure to stop "
            "all running application instances before running the reset tool. You can use option '--force' to remove "
            "active members from the group."
        )
    if members:
        print(f"Force deleting all active members in the group: {group}")
        remove_members(client.cluster, group, members)


def _check_streams_group(client: Client, group: str) -> None:
    """Members of a streams group (KIP-1071) cannot be removed: they have to leave."""
    [node] = client.cluster.coordinators(CoordinatorType.GROUP, [group]).values()
    if StreamsGroupDescribeRequest.api_key not in client.cluster.connection(node.address).versions:
        return
    try:
        members = describe_streams_group(client.cluster, group).members
    except JobError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return
    if members:
        raise JobError(
            f"Streams group '{group}' is still active and has following members: "
            f"{_shown([member.member_id for member in members])}. Make sure to stop all running application instances "
            "before running the reset tool."
        )


def _move(client: Client, args: argparse.Namespace, target: Target, topics: list[str]) -> int:
    inputs, between = _listed(args.input_topics), _listed(args.intermediate_topics)
    if between:
        print("WARN: `--intermediate-topics` is deprecated and will be removed in a future release")
    if not inputs and not between:
        print("No input or intermediate topics specified. Skipping seek.")
        return 0
    if inputs:
        print(f"Reset-offsets for input topics {_shown(inputs)}")
    if between:
        print(f"Seek-to-end for intermediate topics {_shown(between)}")
    code = 0
    for what, names in (("input", inputs), ("intermediate", between)):
        missing = [name for name in names if name not in topics]
        if missing:
            print(f"Following {what} topics are not found, skipping them")
            for name in missing:
                print(f"Topic: {name}")
            code = 1
    changes = _plan(
        client,
        args,
        target,
        [name for name in inputs if name in topics],
        [name for name in between if name in topics],
    )
    if changes:
        if not args.dry_run:
            from ottla.client.admin.reset import execute_reset

            execute_reset(client.cluster, changes)
        print("Done.")
    return code


def _plan(
    client: Client, args: argparse.Namespace, target: Target, inputs: list[str], between: list[str]
) -> list[OffsetChange]:
    group = args.application_id
    changes: list[OffsetChange] = []
    if inputs:
        print(f"Following input topics offsets will be reset to (for consumer group {group})")
        if args.from_file is not None:
            wanted = {key: offset for key, offset in _read(Path(args.from_file)).items() if key[0] in inputs}
            changes = plan_offsets(client.cluster, group, wanted)
        else:
            changes = plan_reset(client.cluster, group, target, topics=inputs)
        for change in changes:
            _warn(change)
        for change in changes:
            print(f"Topic: {change.topic} Partition: {change.partition} Offset: {change.new_offset}")
    if between:
        print(f"Following intermediate topics offsets will be reset to end (for consumer group {group})")
        for name in between:
            print(f"Topic: {name}")
        changes += plan_reset(client.cluster, group, Target("latest"), topics=between)
    return changes


def _read(path: Path) -> dict[Partition, int]:
    offsets: dict[Partition, int] = {}
    for number, line in enumerate(tool.read_text(path).splitlines(), 1):
        try:
            topic, partition, offset = line.split(",")
            offsets[topic, int(partition)] = int(offset)
        except ValueError:
            raise JobError(f"line {number} of {path} is not of the form TOPIC,PARTITION,OFFSET.") from None
    return offsets


def _warn(change: OffsetChange) -> None:
    if change.nothing_since:
        print(
            f"Partition {change.partition} from topic {change.topic} is empty, without a committed record. "
            "Falling back to latest known offset."
        )
    wanted = change.clamped_from
    if wanted is not None:
        side = "higher than latest" if wanted > change.new_offset else "lower than earliest"
        print(f"New offset ({wanted}) is {side} offset. Value will be set to {change.new_offset}")


def _delete_internal_topics(client: Client, args: argparse.Namespace, topics: list[str]) -> None:
    own = {*_listed(args.input_topics), *_listed(args.intermediate_topics)}
    inferred = internal_topics(args.application_id, [name for name in topics if name not in own])
    specified = _listed(args.internal_topics)
    if not set(specified) <= set(inferred):
        raise JobError(
            "Invalid topic specified in the --internal-topics option. Ensure that the topics specified are all "
            "internal topics. Do a dry run without the --internal-topics option to see the list of all internal topics "
            "that can be deleted."
        )
    chosen = specified or inferred
    print(f"Deleting {'specified' if specified else 'inferred'} internal topics {_shown(chosen)}")
    sys.stdout.flush()
    if chosen and not args.dry_run:
        delete_topics(client.cluster, chosen)
    print("Done.")

"""`kafka-consumer-groups --reset-offsets` and `kafka-share-groups --reset-offsets`"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterable
from datetime import UTC
from pathlib import Path

from ottla.cli.client import Client
from ottla.cli.errors import GroupNotEmpty, JobError
from ottla.cli.kafka import tool
from ottla.cli.values import parse_duration_ms, parse_timestamp_ms
from ottla.client.admin.offsets import Partition, earliest_offsets, latest_offsets, offsets_by_time
from ottla.client.admin.reset import (
    OffsetChange,
    Target,
    execute_reset,
    plan_offsets,
    plan_reset,
    select_partitions,
)
from ottla.client.admin.share_groups import describe_share_group, move_share_group, share_positions
from ottla.protocol.errors import ErrorCode

# The order in which Kafka's tool looks for two that exclude each other.
_SCENARIOS = (
    "to_offset",
    "to_datetime",
    "by_duration",
    "to_earliest",
    "to_latest",
    "to_current",
    "shift_by",
    "from_file",
)
# How --to-… options are declared.
TARGETS = """
    --to-earliest
    --to-latest
    --to-offset N
    --shift-by N
    --to-datetime YYYY-MM-DDThh:mm:ss.sss
    --by-duration PnDTnHnMnS
    --from-file CSV
"""
_NO_ACTION = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will "
    "require either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if "
    "you are scripting this command and want to keep the current default behavior without prompting."
)


def reset_consumer_groups(client: Client, groups: list[str], args: argparse.Namespace) -> None:
    chosen = [name for name in _SCENARIOS if getattr(args, name) not in (None, False)]
    if not chosen:
        raise tool.UsageError(
            "Option '[reset-offsets]' requires one of the following scenarios: [[from-file], [to-datetime], "
            "[by-duration], [to-latest], [to-current], [to-earliest], [to-offset], [shift-by]]"
        )
    if len(chosen) > 1:
        raise tool.together(*chosen[:2])
    if not args.from_file and not args.topic and not args.all_topics:
        raise tool.UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
    _check_topics(args.topic)
    if not args.execute and not args.dry_run:
        print(_NO_ACTION, file=sys.stderr)
    planned, all_idle = _plan(client, groups, args)
    changes = [change for of_group in planned.values() for change in of_group]
    for change in changes:
        _warn(change)
    if args.execute:
        for of_group in planned.values():
            if of_group:
                execute_reset(client.cluster, of_group)
    if args.export:
        with_group = len(planned) > 1
        for change in changes:
            row = [change.topic, change.partition, change.new_offset]
            print(",".join(map(str, [change.group, *row] if with_group else row)))
        print()
    else:
        _print_new_offsets((each.group, each.topic, each.partition, each.new_offset) for each in changes)
    if not all_idle:
        raise tool.Failed


def reset_share_group(client: Client, group: str, args: argparse.Namespace) -> None:
    try:
        target = target_of(args)
    except ValueError as error:
        raise tool.UsageError(f"{error}.") from None
    try:
        state = describe_share_group(client.cluster, group).state
    except JobError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        state = "Empty"  # the reset makes it
    if state not in ("Empty", "Dead"):
        raise tool.UsageError(f"Share group '{group}' is not empty.")
    offsets = _share_offsets(client, _share_partitions(client, group, args.topic), target)
    if args.execute and offsets:
        move_share_group(client.cluster, group, offsets)
    _print_new_offsets((group, topic, number, offset) for (topic, number), offset in offsets.items())


def _print_new_offsets(rows: Iterable[tuple[str, str, int, int]]) -> None:
    print()
    tool.print_table("GROUP 15+, TOPIC 15+, PARTITION 10, NEW-OFFSET", rows)


def _check_topics(topics: list[str]) -> None:
    for text in topics:
        topic, colon, numbers = text.partition(":")
        if colon and (not topic or not numbers):
            raise tool.UsageError(f"Invalid topic arg '{text}', expected topic name and partitions")
        for number in numbers.split(",") if colon else ():
            if not number.strip().isdecimal():
                raise tool.UsageError(f"Invalid partition '{number}' specified in topic arg '{text}''")


def _plan(
    client: Client, groups: list[str], args: argparse.Namespace
) -> tuple[dict[str, list[OffsetChange]], bool]:
    """Return the changes of each group, and whether all groups are idle. Active groups are reported and get none."""
    all_idle = True
    from_file = _read(args.from_file, groups) if args.from_file else None
    try:
        target = target_of(args) if from_file is None else None
    except ValueError as error:
        raise JobError(f"{error}.") from None
    planned: dict[str, list[OffsetChange]] = {}
    for group in groups if from_file is None else from_file:
        try:
            if from_file is not None:
                planned[group] = plan_offsets(client.cluster, group, from_file[group])
            else:
                assert target is not None
                planned[group] = plan_reset(
                    client.cluster, group, target, topics=args.topic, all_topics=args.all_topics
                )
        except GroupNotEmpty as error:
            planned[group], all_idle = [], False
            print(
                f"\nError: Assignments can only be reset if the group '{error.group}' is inactive, but the current "
                f"state is {error.state}."
            )
    return planned, all_idle


def target_of(args: argparse.Namespace) -> Target:
    """Where the options say that offsets are to be. ValueError if they name no moment."""
    given = vars(args)
    if given["to_latest"]:
        return Target("latest")
    if given.get("to_offset") is not None:
        return Target("offset", given["to_offset"])
    if given.get("shift_by") is not None:
        return Target("shift", given["shift_by"])
    if given.get("by_duration") is not None:
        return Target("timestamp", round(time.time() * 1000) - parse_duration_ms(given["by_duration"]))
    if given["to_datetime"] is not None:
        moment: str = given["to_datetime"]
        if "T" not in moment:
            raise ValueError(
                f"'{moment}' has no 'T' and no time of day: write for example 2026-01-31T14:00:00.000"
            )
        return Target("timestamp", parse_timestamp_ms(moment, UTC))
    return Target("current" if given.get("to_current") else "earliest")


def _read(path: str, groups: list[str]) -> dict[str, dict[Partition, int]]:
    """Read lines TOPIC,PARTITION,OFFSET, or GROUP,TOPIC,PARTITION,OFFSET for several groups."""
    offsets: dict[str, dict[Partition, int]] = {}
    for number, row in enumerate(csv.reader(tool.read_text(Path(path)).splitlines()), 1):
        if not row:
            continue
        if len(row) == 3 and len(groups) == 1:
            row = [groups[0], *row]
        try:
            group, topic, partition, offset = row
            offsets.setdefault(group, {})[topic, int(partition)] = int(offset)
        except ValueError:
            raise JobError(
                f"line {number} of {path} is not of the form [GROUP,]TOPIC,PARTITION,OFFSET."
            ) from None
    return {group: offsets[group] for group in offsets if not groups or group in groups}


def _warn(change: OffsetChange) -> None:
    if change.nothing_since:
        print(
            f"Warn: Partition {change.partition} from topic {change.topic} is empty. "
            "Falling back to latest known offset."
        )
    wanted = change.clamped_from
    if wanted is None:
        return
    side = "higher than latest" if wanted > change.new_offset else "lower than earliest"
    print(
        tool.log_line(
            "WARN",
            f"New offset ({wanted}) is {side} offset for topic partition {change.topic}-{change.partition}. "
            f"Value will be set to {change.new_offset} (org.apache.kafka.tools.OffsetsUtils)",
        ),
        file=sys.stderr,
    )


# -- share groups --------------------------------------------------------------------------------------


def _share_partitions(client: Client, group: str, topics: list[str]) -> list[Partition]:
    if topics:
        return select_partitions(client.cluster, topics)
    try:
        return [(each.topic, each.partition) for each in share_positions(client.cluster, group)]
    except JobError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return []


def _share_offsets(client: Client, partitions: list[Partition], target: Target) -> dict[Partition, int]:
    if target.kind == "earliest":
        return earliest_offsets(client.cluster, partitions)
    ends = latest_offsets(client.cluster, partitions)
    if target.kind == "latest":
        return ends
    found = offsets_by_time(client.cluster, partitions, max(target.value, 0))
    for topic, number in partitions:
        if found[topic, number] < 0:
            print(
                f"\nWarn: Partition {number} from topic {topic} is empty. Falling back to latest known offset."
            )
    return {each: found[each] if found[each] >= 0 else ends[each] for each in partitions}

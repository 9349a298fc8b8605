"""`kafka-consumer-groups --reset-offsets`"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.errors import GroupNotEmpty, JobError
from ottla.cli.kafka import tool

if TYPE_CHECKING:
    from ottla.cli.client import Client
    from ottla.client.admin.offsets import Partition
    from ottla.client.admin.reset import OffsetChange, Target

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
_NO_ACTION = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will "
    "require either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if "
    "you are scripting this command and want to keep the current default behavior without prompting."
)


def reset(client: Client, groups: list[str], args: argparse.Namespace) -> int:
    from ottla.client.admin.reset import execute_reset

    chosen = [name for name in _SCENARIOS if getattr(args, name) not in (None, False)]
    if not chosen:
        raise tool.UsageError(
            "Option '[reset-offsets]' requires one of the following scenarios: [[from-file], [to-datetime], "
            "[by-duration], [to-latest], [to-current], [to-earliest], [to-offset], [shift-by]]"
        )
    if len(chosen) > 1:
        one, other = (name.replace("_", "-") for name in chosen[:2])
        raise tool.UsageError(f'Option "[{one}]" can\'t be used with option "[{other}]"')
    if not args.from_file and not args.topic and not args.all_topics:
        raise tool.UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
    _check_topics(args.topic)
    if not args.execute and not args.dry_run:
        print(_NO_ACTION, file=sys.stderr)
    planned = _plan(client, groups, args)
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
        return 0
    group_width = max([15, *(len(change.group) for change in changes)])
    topic_width = max([15, *(len(change.topic) for change in changes)])
    print(f"\n{'GROUP':<{group_width}} {'TOPIC':<{topic_width}} {'PARTITION':<10} NEW-OFFSET")
    for change in changes:
        print(
            f"{change.group:<{group_width}} {change.topic:<{topic_width}} {change.partition:<10} "
            f"{change.new_offset}"
        )
    return 0


def _check_topics(topics: list[str]) -> None:
    for text in topics:
        topic, colon, numbers = text.partition(":")
        if colon and (not topic or not numbers):
            raise tool.UsageError(f"Invalid topic arg '{text}', expected topic name and partitions")
        for number in numbers.split(",") if colon else ():
            if not number.strip().isdecimal():
                raise tool.UsageError(f"Invalid partition '{number}' specified in topic arg '{text}''")


def _plan(client: Client, groups: list[str], args: argparse.Namespace) -> dict[str, list[OffsetChange]]:
    """What changes for each group; nothing for one at work, which is said."""
    from ottla.client.admin.reset import plan_offsets, plan_reset

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
            planned[group] = []
            print(
                f"\nError: Assignments can only be reset if the group '{error.group}' is inactive, but the current "
                f"state is {error.state}."
            )
    return planned


def target_of(args: argparse.Namespace) -> Target:
    """Where the options say that offsets are to be. ValueError if they name no moment."""
    from ottla.cli.times import parse_duration_ms, parse_timestamp_ms
    from ottla.client.admin.reset import Target

    if args.to_latest:
        return Target("latest")
    if args.to_offset is not None:
        return Target("offset", args.to_offset)
    if args.shift_by is not None:
        return Target("shift", args.shift_by)
    if args.by_duration is not None:
        return Target("timestamp", round(time.time() * 1000) - parse_duration_ms(args.by_duration))
    if args.to_datetime is not None:
        moment: str = args.to_datetime
        zoned = moment.endswith("Z") or "+" in moment or "-" in moment.partition("T")[2]
        return Target("timestamp", parse_timestamp_ms(moment if zoned else f"{moment}Z"))  # Kafka means UTC
    return Target("current" if getattr(args, "to_current", False) else "earliest")


def _read(path: str, groups: list[str]) -> dict[str, dict[Partition, int]]:
    """TOPIC,PARTITION,OFFSET for one group, GROUP,TOPIC,PARTITION,OFFSET for several."""
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
    moment = time.strftime("%Y-%m-%d %H:%M:%S")
    print(
        f"[{moment},000] WARN New offset ({wanted}) is {side} offset for topic partition "
        f"{change.topic}-{change.partition}. Value will be set to {change.new_offset} "
        "(org.apache.kafka.tools.OffsetsUtils)",
        file=sys.stderr,
    )

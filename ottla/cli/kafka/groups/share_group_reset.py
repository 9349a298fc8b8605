"""`kafka-share-groups --reset-offsets`"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.cli.client import Client
    from ottla.client.admin.offsets import Partition


def reset(client: Client, group: str, args: argparse.Namespace) -> int:
    from ottla.client.admin.share_groups import describe_share_group, move_share_group

    moment = None if args.to_datetime is None else _moment(args.to_datetime)
    try:
        state = describe_share_group(client.cluster, group).state
    except JobError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        state = "Empty"  # the reset makes it
    if state not in ("Empty", "Dead"):
        raise tool.UsageError(f"Share group '{group}' is not empty.")
    partitions = _partitions(client, group, args)
    offsets = _new_offsets(client, partitions, args, moment)
    if args.execute and offsets:
        move_share_group(client.cluster, group, offsets)
    rows = [(group, topic, number, offset) for (topic, number), offset in offsets.items()]
    group_width = max([15, *(len(row[0]) for row in rows)])
    topic_width = max([15, *(len(row[1]) for row in rows)])
    print()
    for cells in (("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), *rows):
        print(f"{cells[0]:<{group_width}} {cells[1]:<{topic_width}} {cells[2]:<10} {cells[3]}")
    return 0


def _moment(text: str) -> int:
    from ottla.cli.times import parse_timestamp_ms

    zoned = text.endswith("Z") or "+" in text or "-" in text.partition("T")[2]
    try:
        return parse_timestamp_ms(text if zoned else f"{text}Z")  # Kafka means UTC
    except ValueError as error:
        raise tool.UsageError(f"{error}.") from None


def _partitions(client: Client, group: str, args: argparse.Namespace) -> list[Partition]:
    from ottla.client.admin.reset import select_partitions
    from ottla.client.admin.share_groups import share_positions

    if args.topic:
        return select_partitions(client.cluster, args.topic)
    try:
        return [(each.topic, each.partition) for each in share_positions(client.cluster, group)]
    except JobError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return []


def _new_offsets(
    client: Client, partitions: list[Partition], args: argparse.Namespace, moment: int | None
) -> dict[Partition, int]:
    from ottla.client.admin.offsets import earliest_offsets, latest_offsets, offsets_by_time

    if args.to_earliest:
        return earliest_offsets(client.cluster, partitions)
    ends = latest_offsets(client.cluster, partitions)
    if moment is None:
        return ends
    found = offsets_by_time(client.cluster, partitions, max(moment, 0))
    for topic, number in partitions:
        if found[topic, number] < 0:
            print(
                f"\nWarn: Partition {number} from topic {topic} is empty. Falling back to latest known offset."
            )
    return {each: found[each] if found[each] >= 0 else ends[each] for each in partitions}

"""What `kafka-share-groups --describe` prints: offsets, members or state."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.cli.client import Client
    from ottla.client.admin.share_groups import ShareGroup, ShareMember, SharePosition


def describe(client: Client, groups: list[str], args: argparse.Namespace) -> int:
    from ottla.client.admin.share_groups import describe_share_group, share_positions

    for found in [describe_share_group(client.cluster, group) for group in groups]:
        if args.members:
            _members(found, args.verbose)
        elif args.state is not None:
            _state(found, args.verbose)
        else:
            _offsets(found.group, share_positions(client.cluster, found.group), args.verbose)
    return 0


def _print(headings: Sequence[str], rows: Sequence[Sequence[object]], widths: Sequence[int]) -> None:
    """The last column is not padded."""
    print()
    for row in (headings, *rows):
        texts = ["-" if cell is None else str(cell) for cell in row]
        print(
            " ".join([*(f"{text:<{width}}" for text, width in zip(texts, widths, strict=False)), texts[-1]])
        )


def _width(values: Sequence[str], least: int = 15) -> int:
    return max([least, *map(len, values)])


def _say_empty(group: ShareGroup) -> None:
    if group.state == "Empty":
        print(f"\nShare group '{group.group}' has no active members.", file=sys.stderr, flush=True)


def _offsets(group: str, positions: list[SharePosition], verbose: bool) -> None:
    if not positions:
        print(f"\nShare group '{group}' has no offset information.")
        return
    epoch = ["LEADER-EPOCH"] if verbose else []
    _print(
        ["GROUP", "TOPIC", "PARTITION", *epoch, "START-OFFSET", "LAG"],
        [
            [group, each.topic, each.partition, *([each.leader_epoch] if verbose else []), each.start_offset, each.lag]
            for each in positions
        ],
        [_width([group]), _width([each.topic for each in positions]), 10, *([13] if verbose else []), 13],
    )  # fmt: skip


def _state(group: ShareGroup, verbose: bool) -> None:
    _say_empty(group)
    node = group.coordinator
    coordinator = f"{node.host}:{node.port}  ({node.id})"
    epochs = ["GROUP-EPOCH", "ASSIGNMENT-EPOCH"] if verbose else []
    values = [group.epoch, group.assignment_epoch] if verbose else []
    _print(
        ["GROUP", "COORDINATOR (ID)", "STATE", *epochs, "#MEMBERS"],
        [[group.group, coordinator, group.state, *values, len(group.members)]],
        [_width([group.group]), _width([coordinator], 25), 15, *([12, 17] if verbose else [])],
    )


def _members(group: ShareGroup, verbose: bool) -> None:
    _say_empty(group)
    members = group.members
    if not members:
        return
    _print(
        ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", *(["MEMBER-EPOCH"] if verbose else []),
         "ASSIGNMENT"],
        [
            [group.group, each.consumer_id, each.host, each.client_id, len(each.partitions),
             *([each.epoch] if verbose else []), _assignment(each)]
            for each in members
        ],
        [_width([group.group]), _width([each.consumer_id for each in members]),
         _width([each.host for each in members]), _width([each.client_id for each in members]), 12,
         *([13] if verbose else [])],
    )  # fmt: skip


def _assignment(member: ShareMember) -> str:
    """topic:0,1;other:2"""
    return ";".join(
        f"{topic}:{','.join(str(number) for _, number in partitions)}"
        for topic, partitions in groupby(member.partitions, key=lambda partition: partition[0])
    )

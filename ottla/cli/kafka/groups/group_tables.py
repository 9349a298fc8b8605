"""What `kafka-consumer-groups --describe` prints: offsets, members or state."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ottla.cli.errors import GroupNotFound

if TYPE_CHECKING:
    from ottla.cli.client import Client
    from ottla.client.admin.groups import GroupDescription, Member


def describe(client: Client, groups: list[str], args: argparse.Namespace) -> int:
    from ottla.client.admin.groups import describe_group

    described = []
    for group in groups:
        try:
            described.append(describe_group(client.cluster, group))
        except GroupNotFound:
            print(
                "\nError: Executing consumer group command failed due to "
                f"org.apache.kafka.common.errors.GroupIdNotFoundException: Group {group} not found."
            )
            return 0
    for group_description in described:
        if args.members:
            _members(group_description, args.verbose)
        elif args.state is not None:
            _state(group_description, args.verbose)
        else:
            _offsets(client, group_description, args.verbose)
    return 0


def _say_state(group: GroupDescription) -> None:
    """What Kafka says about a group that is not simply at work, on stderr, before the table."""
    sentences = {
        "Dead": f"Consumer group '{group.group}' does not exist.",
        "Empty": f"Consumer group '{group.group}' has no active members.",
        "PreparingRebalance": f"Warning: Consumer group '{group.group}' is rebalancing.",
        "CompletingRebalance": f"Warning: Consumer group '{group.group}' is rebalancing.",
    }
    if group.state in sentences:
        print(f"\n{sentences[group.state]}", file=sys.stderr, flush=True)


def _row(cells: Sequence[object], widths: Sequence[int]) -> None:
    """The last column is not padded."""
    texts = ["-" if cell is None else str(cell) for cell in cells]
    padded = [text.ljust(width) for text, width in zip(texts, widths, strict=False)]
    print(" ".join([*padded, *texts[len(widths) :]]))


def _width(values: Sequence[str | None], least: int = 15) -> int:
    return max([least, *(len(value or "-") for value in values)])


def _offsets(client: Client, group: GroupDescription, verbose: bool) -> None:
    from ottla.client.admin.groups import group_lag

    lags = group_lag(client.cluster, group)
    idle = [member for member in group.members if not member.partitions]
    _say_state(group)
    if not lags and not idle:
        return
    epochs = ["LEADER-EPOCH"] if verbose else []
    headings: list[object] = ["GROUP", "TOPIC", "PARTITION", *epochs, "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG",
                "CONSUMER-ID", "HOST", "CLIENT-ID"]  # fmt: skip
    rows: list[list[object]] = [
        [row.group, row.topic, row.partition, *([row.leader_epoch] if verbose else []), row.current_offset,
         row.log_end_offset, row.lag, row.consumer_id, row.host, row.client_id]
        for row in lags
    ]  # fmt: skip
    empty = [None] * (len(headings) - 4)
    rows += [[group.group, *empty, member.consumer_id, member.host, member.client_id] for member in idle]
    widths = [
        _width([group.group]),
        _width([row.topic for row in lags]),
        10,
        *([15] if verbose else []),
        15,
        15,
        15,
        _width([member.consumer_id for member in group.members]),
        _width([member.host for member in group.members]),
    ]
    print()
    for cells in (headings, *rows):
        _row(cells, widths)


def _state(group: GroupDescription, verbose: bool) -> None:
    _say_state(group)
    coordinator = f"{group.coordinator_host}:{group.coordinator_port}  ({group.coordinator_id})"
    epochs = ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"] if verbose else []
    widths = [_width([group.group]), _width([coordinator], 25), 20, 20, *([15, 25] if verbose else [])]
    print()
    _row(["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", *epochs, "#MEMBERS"], widths)
    _row(
        [
            group.group,
            coordinator,
            group.assignor or "-",
            group.state,
            *(["-"] * len(epochs)),
            len(group.members),
        ],
        widths,
    )


def _members(group: GroupDescription, verbose: bool) -> None:
    _say_state(group)
    instances = any(member.group_instance_id for member in group.members)
    headings = ["GROUP", "CONSUMER-ID", *(["GROUP-INSTANCE-ID"] if instances else []), "HOST", "CLIENT-ID",
                "#PARTITIONS"]  # fmt: skip
    rows: list[list[str]] = [
        [group.group, member.consumer_id, *([member.group_instance_id or ""] if instances else []),
         member.host, member.client_id, str(len(member.partitions))]
        for member in group.members
    ]  # fmt: skip
    least = [15, 15, *([17] if instances else []), 15, 15, 15]
    if verbose:
        headings += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        least += [15, 20, 15, 20]
        for row, member in zip(rows, group.members, strict=True):
            row += ["-", _assignment(member), "-", "-"]
    widths = [_width([row[column] for row in rows], least[column]) for column in range(len(headings))]
    print()
    for cells in (headings, *rows):
        line = " ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        print(line if verbose else f"{line} ")


def _assignment(member: Member) -> str:
    """topic:0,1;other:2"""
    return (
        ";".join(
            f"{topic}:{','.join(str(number) for _, number in partitions)}"
            for topic, partitions in groupby(member.partitions, key=lambda partition: partition[0])
        )
        or "-"
    )

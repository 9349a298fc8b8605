"""What `kafka-consumer-groups --describe` and `kafka-share-groups --describe` print: offsets, members or state."""

from __future__ import annotations

import argparse
import sys
from itertools import groupby

from ottla.cli.client import Client
from ottla.cli.errors import GroupNotFound, JobError
from ottla.cli.kafka.tool import print_table
from ottla.client.admin.groups import GroupDescription, describe_group, group_lag
from ottla.client.admin.offsets import Partition
from ottla.client.admin.share_groups import ShareGroup, describe_share_group, share_positions

_NOTICES = {
    "Dead": "Consumer group '{}' does not exist.",
    "Empty": "Consumer group '{}' has no active members.",
    "PreparingRebalance": "Warning: Consumer group '{}' is rebalancing.",
    "CompletingRebalance": "Warning: Consumer group '{}' is rebalancing.",
}


def describe_consumer_groups(client: Client, groups: list[str], args: argparse.Namespace) -> None:
    described = []
    for name in groups:
        try:
            described.append(describe_group(client.cluster, name))
        except GroupNotFound:
            raise JobError(
                f"org.apache.kafka.common.errors.GroupIdNotFoundException: Group {name} not found."
            ) from None
    for group in described:
        if args.members:
            _members(group, args.verbose)
        elif args.state is not None:
            _state(group, args.verbose)
        else:
            _offsets(client, group, args.verbose)


def describe_share_groups(client: Client, groups: list[str], args: argparse.Namespace) -> None:
    for group in [describe_share_group(client.cluster, name) for name in groups]:
        if args.members:
            _share_members(group, args.verbose)
        elif args.state is not None:
            _share_state(group, args.verbose)
        else:
            _share_offsets(client, group.group, args.verbose)


def _say(notice: str) -> None:
    """What Kafka says about a group that is not simply at work, on stderr, before the table."""
    print(f"\n{notice}", file=sys.stderr, flush=True)


def _say_state(group: GroupDescription) -> None:
    if group.state in _NOTICES:
        _say(_NOTICES[group.state].format(group.group))


def _say_empty(group: ShareGroup) -> None:
    if group.state == "Empty":
        _say(f"Share group '{group.group}' has no active members.")


def _offsets(client: Client, group: GroupDescription, verbose: bool) -> None:
    lags = group_lag(client.cluster, group)
    idle = [member for member in group.members if not member.partitions]
    _say_state(group)
    if not lags and not idle:
        return
    rows: list[list[object]] = [
        [row.group, row.topic, row.partition, row.leader_epoch, row.current_offset, row.log_end_offset, row.lag,
         row.consumer_id, row.host, row.client_id]
        for row in lags
    ]  # fmt: skip
    rows += [[group.group, *[None] * 6, member.consumer_id, member.host, member.client_id] for member in idle]
    print()
    print_table(
        "GROUP 15+, TOPIC 15+, PARTITION 10, LEADER-EPOCH 15, CURRENT-OFFSET 15, LOG-END-OFFSET 15, LAG 15, "
        "CONSUMER-ID 15+, HOST 15+, CLIENT-ID",
        rows,
        without=() if verbose else ("LEADER-EPOCH",),
    )


def _share_offsets(client: Client, group: str, verbose: bool) -> None:
    positions = share_positions(client.cluster, group)
    if not positions:
        print(f"\nShare group '{group}' has no offset information.")
        return
    print()
    print_table(
        "GROUP 15+, TOPIC 15+, PARTITION 10, LEADER-EPOCH 13, START-OFFSET 13, LAG",
        [(group, at.topic, at.partition, at.leader_epoch, at.start_offset, at.lag) for at in positions],
        without=() if verbose else ("LEADER-EPOCH",),
    )


def _state(group: GroupDescription, verbose: bool) -> None:
    _say_state(group)
    coordinator = f"{group.coordinator_host}:{group.coordinator_port}  ({group.coordinator_id})"
    print()
    print_table(
        "GROUP 15+, COORDINATOR (ID) 25+, ASSIGNMENT-STRATEGY 20, STATE 20, GROUP-EPOCH 15, "
        "TARGET-ASSIGNMENT-EPOCH 25, #MEMBERS",
        [(group.group, coordinator, group.assignor or "-", group.state, None, None, len(group.members))],
        without=() if verbose else ("GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"),
    )


def _share_state(group: ShareGroup, verbose: bool) -> None:
    _say_empty(group)
    node = group.coordinator
    coordinator = f"{node.host}:{node.port}  ({node.id})"
    print()
    print_table(
        "GROUP 15+, COORDINATOR (ID) 25+, STATE 15, GROUP-EPOCH 12, ASSIGNMENT-EPOCH 17, #MEMBERS",
        [(group.group, coordinator, group.state, group.epoch, group.assignment_epoch, len(group.members))],
        without=() if verbose else ("GROUP-EPOCH", "ASSIGNMENT-EPOCH"),
    )


def _members(group: GroupDescription, verbose: bool) -> None:
    _say_state(group)
    members = group.members
    without = [] if any(member.group_instance_id for member in members) else ["GROUP-INSTANCE-ID"]
    if not verbose:
        without += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
    print()
    print_table(
        "GROUP 15+, CONSUMER-ID 15+, GROUP-INSTANCE-ID 17+, HOST 15+, CLIENT-ID 15+, #PARTITIONS 15+, "
        "CURRENT-EPOCH 15+, CURRENT-ASSIGNMENT 20+, TARGET-EPOCH 15+, TARGET-ASSIGNMENT 20+",
        [
            (group.group, each.consumer_id, each.group_instance_id or "", each.host, each.client_id,
             len(each.partitions), None, _assignment(each.partitions) or "-", None, None)
            for each in members
        ],
        without=without,
        end="" if verbose else " ",
    )  # fmt: skip


def _share_members(group: ShareGroup, verbose: bool) -> None:
    _say_empty(group)
    if not group.members:
        return
    print()
    print_table(
        "GROUP 15+, CONSUMER-ID 15+, HOST 15+, CLIENT-ID 15+, #PARTITIONS 12, MEMBER-EPOCH 13, ASSIGNMENT",
        [
            (group.group, each.consumer_id, each.host, each.client_id, len(each.partitions), each.epoch,
             _assignment(each.partitions))
            for each in group.members
        ],
        without=() if verbose else ("MEMBER-EPOCH",),
    )  # fmt: skip


def _assignment(partitions: list[Partition]) -> str:
    """topic:0,1;other:2"""
    return ";".join(
        f"{topic}:{','.join(str(number) for _, number in of_topic)}"
        for topic, of_topic in groupby(partitions, key=lambda partition: partition[0])
    )

"""`kafka-consumer-groups` and `kafka-share-groups`"""

from __future__ import annotations

import argparse
import sys
from itertools import groupby

from ottla.cli.client import Client
from ottla.cli.errors import GroupNotEmpty, GroupNotFound, JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.groups.reset_offsets import TARGETS, reset_consumer_groups, reset_share_group
from ottla.cli.kafka.tool import hash_map_order, print_table
from ottla.client.admin.groups import (
    GroupDescription,
    delete_groups,
    delete_offsets,
    describe_group,
    group_lag,
    list_consumer_groups,
    list_groups,
)
from ottla.client.admin.offsets import Partition
from ottla.client.admin.reset import select_partitions
from ottla.client.admin.share_groups import (
    ShareGroup,
    delete_share_group,
    describe_share_group,
    forget_topics,
    share_positions,
)
from ottla.protocol.errors import ErrorCode

# What `kafka-consumer-groups --describe` and `kafka-share-groups --describe` print: offsets, members or state.

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


# `kafka-consumer-groups` and `kafka-share-groups`
#
# Exit codes are Kafka's: its tools exit with 0 even if the cluster refused, and print the result. Ours exit
# with 1 for wrong usage only, which includes topics and files that are not there and brokers that do not answer.

_ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
_STATES = ("CompletingRebalance", "PreparingRebalance", "Stable", "Reconciling", "Assigning", "Empty", "Dead")
_SHARE_STATES = ("Empty", "Dead", "Stable")
_TYPES = ("Consumer", "Classic")
_SHARE_TARGETS = ("to-datetime", "to-earliest", "to-latest")
_FAILED = "\nError: Executing {} group command failed due to "
ONE_GROUP = "Found multiple arguments for option group, but you asked for only one"
_ONE_TABLE = "Option [describe] takes at most one of these options: [members], [offsets], [state]"
_DRY_OR_NOT = "Option [reset-offsets] only accepts one of [execute] and [dry-run]"
_DELETE_OFFSETS = "Option [delete-offsets] takes the following options: [group], [topic]"


@tool.entry_point(prefix=_FAILED.format("consumer"), to_stdout=True)
def main(argv: list[str]) -> None:
    args = _consumer_parser().options(argv)
    if args.validate_regex is not None:
        from ottla.protocol.regular_expressions import RegexError, matcher

        try:
            matcher(args.validate_regex)
            verdict = "valid"
        except RegexError as error:
            verdict = f"invalid: {error}"
        print(f"The regular expression `{args.validate_regex}` is {verdict}.")
        return
    actions = (*_ACTIONS, "validate-regex")
    every = ", ".join(f"--{action}" for action in actions)
    action = tool.only_one(args, actions, f"Command must include exactly one action: {every}")
    _check_consumer(args, action)
    client = tool.connect(args, timeout=args.timeout / 1000)
    if action == "list":
        _list_consumer_groups(client, args)
    elif action == "delete-offsets":
        _delete_consumer_offsets(client, args)
    else:
        groups = list(dict.fromkeys(args.group))
        if args.all_groups:
            groups = [listing.group for listing in list_consumer_groups(client.cluster)]
        if action == "delete":
            _delete_consumer_groups(client, groups)
        elif action == "describe":
            describe_consumer_groups(client, groups, args)
        else:
            reset_consumer_groups(client, groups, args)


@tool.entry_point(prefix=_FAILED.format("share"), to_stdout=True)
def main_share(argv: list[str]) -> None:
    args = _share_parser().options(argv)
    every = ", ".join(f"--{action}" for action in _ACTIONS)
    action = tool.only_one(args, _ACTIONS, f"Command must include exactly one action: {every}.")
    _check_share(args, action)
    client = tool.connect(args, timeout=args.timeout / 1000)
    if action == "list":
        _list_share_groups(client, args)
    elif action == "delete":
        _delete_share_groups(client, args)
    elif action == "delete-offsets":
        _delete_share_offsets(client, args.group[0], args.topic)
    else:
        try:
            if action == "describe":
                known = _share_states(client) if args.all_groups else args.group
                describe_share_groups(client, sorted(set(known)), args)
            else:
                reset_share_group(client, args.group[0], args)
        except JobError as error:
            if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            name = "org.apache.kafka.common.errors.GroupIdNotFoundException: " if action == "describe" else ""
            raise JobError(f"{name}{error.message}") from None


def _consumer_parser() -> tool.Parser:
    parser = tool.Parser(
        "kafka-consumer-groups", "List, describe, delete consumer groups and move their offsets.", """
        --bootstrap-server, --broker-list
        --zookeeper
        --command-config
        --list                  list all consumer groups
        --describe              describe groups: their offsets and lag
        --delete                delete groups
        --reset-offsets         move the offsets of groups without active members
        --delete-offsets        delete offsets of a group
        --validate-regex REGEX  check whether RE2 accepts this expression
        --group GROUP*          the group; may be repeated
        --all-groups            all groups
        --topic TOPIC[:0,1]*    the topic or some of its partitions
        --all-topics            all topics of the group
        --offsets               describe offsets and lag; this is the default
        --members               describe the members of the group
        --state STATES?         describe the state; with --list, show states or select some
        --type TYPES?           with --list: show types or select some
        --verbose               show more columns
        --timeout MS            time to wait
        --dry-run               show the plan of --reset-offsets only
        --execute               do it
        --export                print the plan as CSV for --from-file
        """,
        without_any="This tool helps to list all consumer groups, describe a consumer group, delete consumer group "
        "info, or reset consumer group offsets.",
    )  # fmt: skip
    parser.add_options(f"{TARGETS}--to-current", group="where --reset-offsets moves to")
    parser.set_defaults(timeout=30_000)
    return parser


def _share_parser() -> tool.Parser:
    parser = tool.Parser(
        "kafka-share-groups", "List, describe, delete share groups and move their start offsets.", """
        --bootstrap-server, --broker-list
        --command-config
        --list                  list all share groups
        --describe              describe groups: start offsets and lag
        --delete                delete groups
        --reset-offsets         move the start offsets of a group without members
        --delete-offsets        delete the start offsets of topics
        --group GROUP*          the group; may be repeated
        --all-groups            all share groups
        --topic TOPIC[:0,1]*    the topic or some of its partitions
        --all-topics            all topics of the group
        --offsets               describe start offsets and lag; this is the default
        --members               describe the members of the group
        --state STATES?         describe the state; with --list, show states or select some
        --verbose               show more columns
        --timeout MS            time to wait
        --dry-run               show the plan of --reset-offsets only
        --execute               do it
        """,
    )  # fmt: skip
    targets = "--to-earliest\n--to-latest\n--to-datetime YYYY-MM-DDThh:mm:ss.sss"
    parser.add_options(targets, group="where --reset-offsets moves to")
    parser.set_defaults(timeout=30_000)
    return parser


def _check_consumer(args: argparse.Namespace, action: str) -> None:
    """Check in Kafka's order, so that the same one of several errors is reported."""
    if not args.bootstrap_server and not args.zookeeper:
        raise tool.UsageError('Missing required argument "[bootstrap-server]"')
    if action not in ("list", "delete-offsets") and not args.group and not args.all_groups:
        either = "[group], [all-groups]" if action == "reset-offsets" else "[all-groups], [group]"
        raise tool.UsageError(f"Option [{action}] takes one of these options: {either}")
    if action == "describe":
        if args.offsets + args.members + (args.state is not None) > 1:
            raise tool.UsageError(_ONE_TABLE)
        if args.state:
            raise tool.UsageError("Option [describe] does not take a value for [state]")
    if action == "delete" and args.topic:
        raise tool.UsageError(
            "The consumer does not support topic-specific offset deletion from a consumer group."
        )
    if action == "delete-offsets" and not (args.topic and args.group):
        raise tool.UsageError(_DELETE_OFFSETS)
    if action == "reset-offsets" and args.execute and args.dry_run:
        raise tool.UsageError(_DRY_OR_NOT)
    unavailable = [
        name
        for name, of_action in (("members", "describe"), ("offsets", "describe"), ("type", "list"))
        if getattr(args, name) not in (None, False) and action != of_action
    ]
    if unavailable:
        raise tool.UsageError(
            f"Option(s) [{', '.join(unavailable)}] are unavailable given other options on the command line"
        )
    if args.group and args.all_groups:
        raise tool.together("group", "all-groups")
    if args.group and action == "list":
        raise tool.together("group", action)
    if args.topic and action in ("list", "describe"):
        raise tool.together("topic", action)


def _check_share(args: argparse.Namespace, action: str) -> None:
    if action == "list":
        wanted_names(args.state, _SHARE_STATES, "state")
    if action == "describe":
        if not args.group and not args.all_groups:
            raise tool.UsageError("Option [describe] takes one of these options: [all-groups], [group]")
        if args.offsets + args.members + (args.state is not None) > 1:
            raise tool.UsageError(_ONE_TABLE)
    if action == "delete":
        if not args.group and not args.all_groups:
            raise tool.UsageError("Option [delete] takes the options [group] or [all-groups]")
        if args.topic:
            raise tool.together("delete", "topic")
    if action == "delete-offsets" and not (args.topic and args.group):
        raise tool.UsageError(_DELETE_OFFSETS)
    if action == "reset-offsets":
        if args.dry_run and args.execute:
            raise tool.UsageError(_DRY_OR_NOT)
        if not args.dry_run and not args.execute:
            raise tool.UsageError("Option [reset-offsets] takes the option: [execute] or [dry-run]")
        if not args.group:
            raise tool.UsageError("Option [reset-offsets] takes the option: [group]")
    if action in ("delete-offsets", "reset-offsets") and len(args.group) > 1:
        raise tool.UsageError(ONE_GROUP)
    if action == "reset-offsets":
        if not args.topic and not args.all_topics:
            raise tool.UsageError("Option [reset-offsets] takes one of these options: [all-topics], [topic]")
        if args.topic and args.all_topics:
            raise tool.together("all-topics", "topic")
        either = ", ".join(f"[{target}]" for target in _SHARE_TARGETS)
        tool.only_one(args, _SHARE_TARGETS, f"Option [reset-offsets] takes one of these options: {either}")


# -- list ----------------------------------------------------------------------------------------------


def _list_consumer_groups(client: Client, args: argparse.Namespace) -> None:
    states = wanted_names(args.state, _STATES, "state")
    types = wanted_names(args.type, _TYPES, "types")
    listings = list_consumer_groups(client.cluster)
    if args.state is None and args.type is None:
        for listing in listings:
            print(listing.group)
        return
    hidden = [name for name, value in (("TYPE", args.type), ("STATE", args.state)) if value is None]
    tool.print_table(
        "GROUP 25+, TYPE 20, STATE 20",
        [
            (listing.group, listing.type, listing.state)
            for listing in listings
            if (not states or listing.state in states) and (not types or listing.type in types)
        ],
        without=hidden,
    )


def _list_share_groups(client: Client, args: argparse.Namespace) -> None:
    found = _share_states(client, wanted_names(args.state, _SHARE_STATES, "state"))
    names = hash_map_order(found)
    if args.state is None:
        for name in names:
            print(name)
    else:
        tool.print_table("GROUP 15+, STATE", [(name, found[name]) for name in names])


def _share_states(client: Client, states: list[str] | None = None) -> dict[str, str]:
    found = list_groups(client.cluster, types=["share"], states=states or ())
    return {each.group: each.state for each in found}


def wanted_names(text: str | None, known: tuple[str, ...], what: str) -> list[str]:
    by_lower = {name.lower(): name for name in known}
    names = [part.strip().lower() for part in (text or "").split(",") if part.strip()]
    if any(name not in by_lower for name in names):
        raise tool.UsageError(
            f"Invalid {what} list '{text}'. Valid {what.removesuffix('s')}s are: {', '.join(known)}"
        )
    return [by_lower[name] for name in names]


# -- delete --------------------------------------------------------------------------------------------


def _delete_consumer_groups(client: Client, groups: list[str]) -> None:
    failed: dict[str, str] = {}
    for group in groups:
        try:
            delete_groups(client.cluster, [group])
        except (GroupNotFound, GroupNotEmpty) as error:
            failed[group] = _error_text(error)
    print_deletion("consumer", [group for group in groups if group not in failed], failed)


def _delete_share_groups(client: Client, args: argparse.Namespace) -> None:
    states = _share_states(client)
    failed: dict[str, str] = {}
    done: list[str] = []
    for group in states if args.all_groups else dict.fromkeys(args.group):
        if group not in states:
            failed[group] = f"java.lang.IllegalArgumentException: Group '{group}' is not a share group."
        elif states[group] != "Empty":
            failed[group] = (
                f"org.apache.kafka.common.errors.GroupNotEmptyException: Share group '{group}' is not EMPTY."
            )
        else:
            try:
                delete_share_group(client.cluster, group)
                done.append(group)
            except JobError as error:
                failed[group] = error.message
    print_deletion("share", done, {group: failed[group] for group in hash_map_order(failed)})


def print_deletion(kind: str, done: list[str], failed: dict[str, str]) -> None:
    names = ", ".join(f"'{group}'" for group in done)
    if not failed:
        print(f"Deletion of requested {kind} groups ({names}) was successful.")
        return
    print(f"\nError: Deletion of some {kind} groups failed:")
    for group, reason in failed.items():
        print(f"* Group '{group}' could not be deleted due to: {reason}")
    if done:
        print(f"\nThese {kind} groups were deleted successfully: {names}")
    raise tool.Failed


def _error_text(error: JobError) -> str:
    """In the words of Kafka's exceptions, which scripts look for."""
    if isinstance(error, GroupNotFound):
        return "org.apache.kafka.common.errors.GroupIdNotFoundException: The group id does not exist."
    if isinstance(error, GroupNotEmpty):
        return "org.apache.kafka.common.errors.GroupNotEmptyException: The group is not empty."
    if error.code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
        return (
            "org.apache.kafka.common.errors.GroupSubscribedToTopicException: Deleting offsets of a topic is "
            "forbidden while the consumer group is actively subscribed to it."
        )
    return error.message


# -- delete-offsets ------------------------------------------------------------------------------------


def _delete_consumer_offsets(client: Client, args: argparse.Namespace) -> None:
    if len(args.group) != 1:
        raise tool.UsageError(ONE_GROUP)
    forget_offsets(client, args.group[0], select_partitions(client.cluster, args.topic))


def forget_offsets(client: Client, group: str, partitions: list[Partition], state: str | None = None) -> None:
    status = "Successful"
    try:
        delete_offsets(client.cluster, group, partitions, state)
        print(f"Request succeeded for deleting offsets from group {group}.")
    except JobError as error:
        text = _error_text(error)
        status = f"Error: {text}"
        if isinstance(error, (GroupNotFound, GroupNotEmpty)):
            print(f"\nError: {text.partition(': ')[2]}")
        else:
            print("\nError: Encountered some partition-level error, see the follow-up details.")
    print()
    tool.print_table(
        "TOPIC 15, PARTITION 10, STATUS 15", [(topic, number, status) for topic, number in partitions]
    )
    if status != "Successful":
        raise tool.Failed


def _delete_share_offsets(client: Client, group: str, topics: list[str]) -> None:
    outcome: dict[str, JobError | None]
    try:
        outcome = forget_topics(client.cluster, group, topics)
    except JobError as error:
        if error.code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP):
            raise
        print(f"\nError: {error.message}")
        outcome = dict.fromkeys(topics, error)
    print()
    tool.print_table(
        "TOPIC 15+, STATUS",
        [
            (topic, "Successful" if failure is None else f"Error: {failure.message}")
            for topic, failure in sorted(outcome.items())
        ],
    )
    if any(outcome.values()):
        raise tool.Failed

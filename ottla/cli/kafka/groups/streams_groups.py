"""`kafka-streams-groups`: the groups of Kafka Streams applications with `group.protocol=streams`

Moving offsets is not supported yet.
"""

from __future__ import annotations

import argparse

from ottla.cli.client import Client
from ottla.cli.errors import GroupNotEmpty, GroupNotFound, JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.groups.consumer_groups import ONE_GROUP, forget_offsets, print_deletion, wanted_names
from ottla.cli.kafka.tool import hash_map_order
from ottla.client.admin.groups import committed_offsets, delete_groups, list_groups
from ottla.client.admin.reset import select_partitions
from ottla.client.admin.streams_groups import (
    StreamsGroup,
    StreamsTasks,
    TaskIds,
    describe_streams_group,
    streams_lag,
)
from ottla.client.admin.topics import delete_topics
from ottla.protocol.errors import ErrorCode

_STATES = ("NotReady", "Empty", "Dead", "Stable", "Assigning", "Reconciling")
_ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
_FAILED = "\nError: Executing streams group command failed due to "


@tool.entry_point(prefix=_FAILED, to_stdout=True)
def main(argv: list[str]) -> None:
    args = _parser().options(argv)
    every = ", ".join(f"--{action}" for action in _ACTIONS[:-1])
    otherwise = f"Command must include exactly one action: {every}, or --{_ACTIONS[-1]}."
    action = tool.only_one(args, _ACTIONS, otherwise)
    _check(args, action)
    client = tool.connect(args, timeout=args.timeout / 1000)
    if action == "list":
        _list(client, args)
    elif action == "delete":
        _delete(client, args)
    elif action == "describe":
        names = hash_map_order(_states(client)) if args.all_groups else list(dict.fromkeys(args.group))
        _describe(client, names, args)
    elif action == "delete-offsets":
        [group] = args.group
        if args.all_input_topics:
            partitions = sorted(committed_offsets(client.cluster, group))
        else:
            partitions = select_partitions(client.cluster, args.input_topic)
        forget_offsets(client, group, partitions, _states(client).get(group, "Dead"))
    else:
        raise JobError(f"kafka-streams-groups --{action} is not part of Ottla yet and comes later.")


def _parser() -> tool.Parser:
    parser = tool.Parser(
        "kafka-streams-groups", "List, describe and delete streams groups.", """
        --bootstrap-server, --broker-list
        --command-config
        --list                  list all streams groups
        --describe              describe groups: the lag of their tasks
        --delete                delete groups without members
        --reset-offsets         not supported yet
        --delete-offsets        delete offsets of a group
        --group GROUP*          the group; may be repeated
        --all-groups            all streams groups
        --input-topic TOPIC[:0,1]*  with --delete-offsets: the topic or some of its partitions
        --all-input-topics      with --delete-offsets: all topics of the group
        --offsets               describe offsets and lag; this is the default
        --members               describe the members and their tasks
        --state STATES?         describe the state; with --list, show states or select some
        --verbose               show more columns
        --delete-all-internal-topics  with --delete: delete changelog and repartition topics as well
        --timeout MS            time to wait
        """,
    )  # fmt: skip
    parser.set_defaults(timeout=30_000)
    return parser


def _check(args: argparse.Namespace, action: str) -> None:
    if action in ("describe", "delete") and not args.group and not args.all_groups:
        words = "one of these options: [all-groups], [group]"
        raise tool.UsageError(
            f"Option [{action}] takes {words if action == 'describe' else 'the option: [group] or [all-groups]'}"
        )
    if action == "describe" and args.offsets + args.members + (args.state is not None) > 1:
        raise tool.UsageError(
            "Option [describe] takes at most one of these options: [members], [offsets], [state]"
        )
    if action == "delete-offsets":
        if not args.group or not (args.input_topic or args.all_input_topics):
            raise tool.UsageError(
                "Option [delete-offsets] takes the [group] and one of these options: [all-input-topics], [input-topic]"
            )
        if len(args.group) > 1:
            raise tool.UsageError(ONE_GROUP)
    if action == "list":
        if args.group:
            raise tool.together("group", "list")
        wanted_names(args.state, _STATES, "state")
    if args.group and args.all_groups:
        raise tool.together("group", "all-groups")


def _states(client: Client, states: list[str] | None = None) -> dict[str, str]:
    found = list_groups(client.cluster, types=["streams"], states=states or ())
    return {each.group: each.state for each in found}


def _list(client: Client, args: argparse.Namespace) -> None:
    found = _states(client, wanted_names(args.state, _STATES, "state"))
    names = hash_map_order(found)
    if args.state is None:
        for name in names:
            print(name)
    else:
        tool.print_table("GROUP 15+, STATE", [(name, found[name]) for name in names])


# -- describe ------------------------------------------------------------------------------------------


def _describe(client: Client, names: list[str], args: argparse.Namespace) -> None:
    try:
        groups = [describe_streams_group(client.cluster, name) for name in names]
    except JobError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        raise JobError(f"org.apache.kafka.common.errors.GroupIdNotFoundException: {error.message}") from None
    for group in groups:
        if args.state is not None:
            _state(group, args.verbose)
        elif not group.members:
            continue
        elif args.members:
            _members(group, args.verbose)
        else:
            _offsets(client, group, args.verbose)


def _offsets(client: Client, group: StreamsGroup, verbose: bool) -> None:
    last = "OFFSET-LAG 15" if verbose else "OFFSET-LAG"
    tool.print_table(
        f"GROUP 15+, TOPIC 15+, PARTITION 10, CURRENT-OFFSET 15, LEADER-EPOCH 15, LOG-END-OFFSET 15, {last}",
        [
            (group.group, row.topic, row.partition, row.offset, row.leader_epoch, row.end, row.lag)
            for row in streams_lag(client.cluster, group)
        ],
        without=() if verbose else ("CURRENT-OFFSET", "LEADER-EPOCH", "LOG-END-OFFSET"),
    )


def _state(group: StreamsGroup, verbose: bool) -> None:
    if not group.members:
        print(f"\nError: Streams group '{group.group}' has no active members.")
    node = group.coordinator
    tool.print_table(
        "GROUP 15+, COORDINATOR (ID) 25+, STATE 25, GROUP-EPOCH 15, TARGET-ASSIGNMENT-EPOCH 25, #MEMBERS",
        [
            (
                group.group,
                f"{node.host}:{node.port} ({node.id})",
                group.state,
                group.epoch,
                group.assignment_epoch,
                len(group.members),
            )
        ],
        without=() if verbose else ("GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"),
    )


def _members(group: StreamsGroup, verbose: bool) -> None:
    tool.print_table(
        "GROUP 15+, TARGET-ASSIGNMENT-EPOCH 25, TOPOLOGY-EPOCH 14, MEMBER 15+, MEMBER-PROTOCOL 15, MEMBER-EPOCH 15, "
        "PROCESS 15+, CLIENT-ID 15+, ASSIGNMENTS",
        [
            (
                group.group,
                group.assignment_epoch,
                member.topology_epoch,
                member.member_id,
                "classic" if member.is_classic else "streams",
                member.epoch,
                member.process_id,
                member.client_id,
                _tasks(member.assignment, "") + (_tasks(member.target, "TARGET-") if verbose else ""),
            )
            for member in group.members
        ],
        without=(
            ()
            if verbose
            else ("TARGET-ASSIGNMENT-EPOCH", "TOPOLOGY-EPOCH", "MEMBER-PROTOCOL", "MEMBER-EPOCH")
        ),
    )


def _tasks(tasks: StreamsTasks, prefix: str) -> str:
    def of(role: str, ids: TaskIds) -> str:
        listed = "".join(f"{subtopology}:{partitions}; " for subtopology, partitions in sorted(ids.items()))
        return f"{prefix}{role}: {listed}" if listed else ""

    return of("ACTIVE", tasks.active) + of("STANDBY", tasks.standby) + of("WARMUP", tasks.warmup)


# -- delete --------------------------------------------------------------------------------------------


def _delete(client: Client, args: argparse.Namespace) -> None:
    states = _states(client)
    failed: dict[str, str] = {}
    done: list[str] = []
    for group in states if args.all_groups else dict.fromkeys(args.group):
        if group not in states:
            failed[group] = (
                f"java.lang.IllegalArgumentException: Group '{group}' does not exist or is not a streams group."
            )
            continue
        try:
            topics = describe_streams_group(client.cluster, group).internal_topics
            if states[group] != "Empty":
                raise GroupNotEmpty(group, states[group])
            delete_groups(client.cluster, [group])
        except GroupNotEmpty:
            failed[group] = (
                f"org.apache.kafka.common.errors.GroupNotEmptyException: Streams group '{group}' is not EMPTY."
            )
        except GroupNotFound as error:
            failed[group] = error.message
        else:
            done.append(group)
            if args.delete_all_internal_topics and topics:
                delete_topics(client.cluster, topics)
    print_deletion("streams", done, {group: failed[group] for group in hash_map_order(failed)})

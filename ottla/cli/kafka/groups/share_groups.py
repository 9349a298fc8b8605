"""`kafka-share-groups`

Exit codes are Kafka's, as with `kafka-consumer-groups`: 0 where the cluster refused and the output says so.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.java_order import hash_map_order
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.cli.client import Client

_ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
_STATES = ("Empty", "Dead", "Stable")
_TARGETS = ("to-datetime", "to-earliest", "to-latest")
_FAILED = "\nError: Executing share group command failed due to "


def main() -> None:
    tool.main(run, prefix=_FAILED, stream=lambda: sys.stdout)


def run(argv: list[str]) -> int | None:
    args = _parser().options(argv)
    action = tool.only_one(
        args,
        _ACTIONS,
        "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, "
        "--delete-offsets.",
    )
    _check(args, action)
    states = _states(args.state) if action == "list" else []
    client = tool.connect(args, timeout=args.timeout / 1000)
    if action == "list":
        return _list(client, args, states)
    if action == "delete":
        return _delete(client, args)
    if action == "delete-offsets":
        return _delete_offsets(client, args.group[0], args.topic)
    try:
        if action == "describe":
            from ottla.cli.kafka.groups.share_group_tables import describe

            return describe(client, _groups(client, args), args)
        from ottla.cli.kafka.groups.share_group_reset import reset

        return reset(client, args.group[0], args)
    except JobError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        name = "org.apache.kafka.common.errors.GroupIdNotFoundException: " if action == "describe" else ""
        print(f"{_FAILED}{name}{error.message}")
        return 0


def _parser() -> tool.Parser:
    parser = tool.Parser(
        "kafka-share-groups", "List, describe, delete share groups and move their start offsets."
    )
    parser.add_servers()
    parser.add_command_config()
    parser.add_flag("--list", help="list all share groups")
    parser.add_flag("--describe", help="describe groups: where they are and their lag")
    parser.add_flag("--delete", help="delete groups")
    parser.add_flag("--reset-offsets", help="move the start offsets of a group without members")
    parser.add_flag("--delete-offsets", help="forget where a group is in topics")
    parser.add_many("--group", metavar="GROUP", help="the group; may be repeated")
    parser.add_flag("--all-groups", help="all share groups")
    parser.add_many("--topic", metavar="TOPIC[:0,1]", help="the topic or some of its partitions")
    parser.add_flag("--all-topics", help="all topics of the group")
    parser.add_flag("--offsets", help="describe start offsets and lag; this is the default")
    parser.add_flag("--members", help="describe the members of the group")
    parser.add_argument(
        "--state", nargs="?", const="", metavar="STATES", help="describe the state; with --list, only these"
    )
    parser.add_flag("--verbose", help="more columns")
    parser.add_argument("--timeout", type=int, default=30000, metavar="MS", help="how long to wait")
    parser.add_flag("--dry-run", help="only show what --reset-offsets would do")
    parser.add_flag("--execute", help="do it")
    targets = parser.add_argument_group("where --reset-offsets moves to")
    targets.add_argument("--to-earliest", action="store_true")
    targets.add_argument("--to-latest", action="store_true")
    targets.add_argument("--to-datetime", metavar="YYYY-MM-DDThh:mm:ss.sss")
    return parser


def _check(args: argparse.Namespace, action: str) -> None:
    if action == "describe":
        if not args.group and not args.all_groups:
            raise tool.UsageError("Option [describe] takes one of these options: [all-groups], [group]")
        if args.offsets + args.members + (args.state is not None) > 1:
            raise tool.UsageError(
                "Option [describe] takes at most one of these options: [members], [offsets], [state]"
            )
    if action == "delete":
        if not args.group and not args.all_groups:
            raise tool.UsageError("Option [delete] takes the options [group] or [all-groups]")
        if args.topic:
            raise tool.UsageError('Option "[delete]" can\'t be used with option "[topic]"')
    if action == "delete-offsets":
        if not args.group or not args.topic:
            raise tool.UsageError("Option [delete-offsets] takes the following options: [group], [topic]")
        if len(args.group) > 1:
            raise tool.UsageError("Found multiple arguments for option group, but you asked for only one")
    if action == "reset-offsets":
        _check_reset(args)


def _check_reset(args: argparse.Namespace) -> None:
    if args.dry_run and args.execute:
        raise tool.UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not args.dry_run and not args.execute:
        raise tool.UsageError("Option [reset-offsets] takes the option: [execute] or [dry-run]")
    if not args.group:
        raise tool.UsageError("Option [reset-offsets] takes the option: [group]")
    if len(args.group) > 1:
        raise tool.UsageError("Found multiple arguments for option group, but you asked for only one")
    if not args.topic and not args.all_topics:
        raise tool.UsageError("Option [reset-offsets] takes one of these options: [all-topics], [topic]")
    if args.topic and args.all_topics:
        raise tool.UsageError('Option "[all-topics]" can\'t be used with option "[topic]"')
    tool.only_one(
        args,
        _TARGETS,
        "Option [reset-offsets] takes one of these options: "
        + ", ".join(f"[{target}]" for target in _TARGETS),
    )


def _states(text: str | None) -> list[str]:
    by_lower = {name.lower(): name for name in _STATES}
    names = [part.strip().lower() for part in (text or "").split(",") if part.strip()]
    if any(name not in by_lower for name in names):
        raise tool.UsageError(f"Invalid state list '{text}'. Valid states are: {', '.join(_STATES)}")
    return [by_lower[name] for name in names]


def _groups(client: Client, args: argparse.Namespace) -> list[str]:
    from ottla.client.admin.groups import list_groups

    if not args.all_groups:
        return sorted(set(args.group))
    return sorted(each.group for each in list_groups(client.cluster, types=["share"]))


def _list(client: Client, args: argparse.Namespace, states: list[str]) -> int:
    from ottla.client.admin.groups import list_groups

    found = {each.group: each.state for each in list_groups(client.cluster, types=["share"], states=states)}
    if args.state is None:
        for name in hash_map_order(found):
            print(name)
        return 0
    width = max([15, *map(len, found)])
    for name, state in (("GROUP", "STATE"), *((name, found[name]) for name in hash_map_order(found))):
        print(f"{name:<{width}} {state}")
    return 0


def _delete(client: Client, args: argparse.Namespace) -> int:
    from ottla.client.admin.groups import list_groups
    from ottla.client.admin.share_groups import delete_share_group

    states = {each.group: each.state for each in list_groups(client.cluster, types=["share"])}
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
    names = ", ".join(f"'{group}'" for group in done)
    if not failed:
        print(f"Deletion of requested share groups ({names}) was successful.")
        return 0
    print("\nError: Deletion of some share groups failed:")
    for group in hash_map_order(failed):
        print(f"* Group '{group}' could not be deleted due to: {failed[group]}")
    if done:
        print(f"\nThese share groups were deleted successfully: {names}")
    return 0


def _delete_offsets(client: Client, group: str, topics: list[str]) -> int:
    from ottla.client.admin.share_groups import forget_topics

    said: dict[str, JobError | None]
    try:
        said = forget_topics(client.cluster, group, topics)
    except JobError as error:
        if error.code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP):
            raise
        print(f"\nError: {error.message}")
        said = dict.fromkeys(topics, error)
    width = max([15, *map(len, said)])
    print(f"\n{'TOPIC':<{width}} STATUS")
    for topic, failure in sorted(said.items()):
        status = "Successful" if failure is None else f"Error: {failure.message}"
        print(f"{topic:<{width}} {status}")
    return 0


if __name__ == "__main__":
    main()

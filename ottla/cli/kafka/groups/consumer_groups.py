"""`kafka-consumer-groups`

Exit codes are Kafka's, whose tool ends with 0 where the cluster refused: what came of it is in the output. Ours ends
with 1 for wrong usage only, which includes topics and files that are not there and brokers that do not answer.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ottla.cli.errors import GroupNotEmpty, GroupNotFound, JobError
from ottla.cli.kafka import tool

if TYPE_CHECKING:
    from ottla.cli.client import Client

_ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
_STATES = ("CompletingRebalance", "PreparingRebalance", "Stable", "Reconciling", "Assigning", "Empty", "Dead")
_TYPES = ("Consumer", "Classic")
_DELETE_OFFSETS = "Option [delete-offsets] takes the following options: [group], [topic]"


def main() -> None:
    tool.main(
        run,
        prefix="\nError: Executing consumer group command failed due to ",
        stream=lambda: sys.stdout,
    )


def run(argv: list[str]) -> int | None:
    if not argv:
        raise tool.UsageError(
            "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, or "
            "reset consumer group offsets."
        )
    args = _parser().options(argv)
    if args.validate_regex is not None:
        from ottla.protocol.regular_expressions import RegexError, matcher

        try:
            matcher(args.validate_regex)
            verdict = "valid"
        except RegexError as error:
            verdict = f"invalid: {error}"
        print(f"The regular expression `{args.validate_regex}` is {verdict}.")
        return 0
    action = tool.only_one(
        args,
        _ACTIONS,
        f"Command must include exactly one action: {', '.join(f'--{action}' for action in _ACTIONS)}",
    )
    _check(args, action)
    client = tool.connect(args, timeout=args.timeout / 1000)
    if action == "list":
        return _list(client, args)
    if action == "delete":
        return _delete(client, _groups(client, args))
    if action == "delete-offsets":
        return _delete_offsets(client, args)
    if action == "describe":
        from ottla.cli.kafka.groups.group_tables import describe

        return describe(client, _groups(client, args), args)
    from ottla.cli.kafka.groups.reset_offsets import reset

    return reset(client, _groups(client, args), args)


def _parser() -> tool.Parser:
    parser = tool.Parser(
        "kafka-consumer-groups", "List, describe, delete consumer groups and move their offsets."
    )
    parser.add_servers(zookeeper=True)
    parser.add_command_config()
    parser.add_flag("--list", help="list all consumer groups")
    parser.add_flag("--describe", help="describe groups: their offsets and lag")
    parser.add_flag("--delete", help="delete groups")
    parser.add_flag("--reset-offsets", help="move the offsets of groups without active members")
    parser.add_flag("--delete-offsets", help="forget the offsets of a group")
    parser.add_argument("--validate-regex", metavar="REGEX", help="say whether it is one that RE2 reads")
    parser.add_many("--group", metavar="GROUP", help="the group; may be repeated")
    parser.add_flag("--all-groups", help="all groups")
    parser.add_many("--topic", metavar="TOPIC[:0,1]", help="the topic or some of its partitions")
    parser.add_flag("--all-topics", help="all topics of the group")
    parser.add_flag("--offsets", help="describe offsets and lag; this is the default")
    parser.add_flag("--members", help="describe the members of the group")
    parser.add_argument(
        "--state", nargs="?", const="", metavar="STATES", help="describe the state; with --list, only these"
    )
    parser.add_argument(
        "--type", nargs="?", const="", metavar="TYPES", help="with --list: show, or only these"
    )
    parser.add_flag("--verbose", help="more columns")
    parser.add_argument("--timeout", type=int, default=30000, metavar="MS", help="how long to wait")
    parser.add_flag("--dry-run", help="only show what --reset-offsets would do")
    parser.add_flag("--execute", help="do it")
    parser.add_flag("--export", help="print CSV that --from-file reads")
    targets = parser.add_argument_group("where --reset-offsets moves to")
    targets.add_argument("--to-earliest", action="store_true")
    targets.add_argument("--to-latest", action="store_true")
    targets.add_argument("--to-current", action="store_true")
    targets.add_argument("--to-offset", type=int, metavar="N")
    targets.add_argument("--shift-by", type=int, metavar="N")
    targets.add_argument("--to-datetime", metavar="YYYY-MM-DDThh:mm:ss.sss")
    targets.add_argument("--by-duration", metavar="PnDTnHnMnS")
    targets.add_argument("--from-file", metavar="CSV")
    return parser


def _check(args: argparse.Namespace, action: str) -> None:
    """In Kafka's order, so that of several mistakes the same is told."""
    if not args.bootstrap_server and not args.zookeeper:
        raise tool.UsageError('Missing required argument "[bootstrap-server]"')
    if action not in ("list", "delete-offsets") and not args.group and not args.all_groups:
        either = "[group], [all-groups]" if action == "reset-offsets" else "[all-groups], [group]"
        raise tool.UsageError(f"Option [{action}] takes one of these options: {either}")
    if action == "describe":
        if args.offsets + args.members + (args.state is not None) > 1:
            raise tool.UsageError(
                "Option [describe] takes at most one of these options: [members], [offsets], [state]"
            )
        if args.state:
            raise tool.UsageError("Option [describe] does not take a value for [state]")
    if action == "delete" and args.topic:
        raise tool.UsageError(
            "The consumer does not support topic-specific offset deletion from a consumer group."
        )
    if action == "delete-offsets" and not (args.topic and args.group):
        raise tool.UsageError(_DELETE_OFFSETS)
    if action == "reset-offsets" and args.execute and args.dry_run:
        raise tool.UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    unavailable = [
        name
        for name, actions in (("members", ("describe",)), ("offsets", ("describe",)), ("type", ("list",)))
        if getattr(args, name) not in (None, False) and action not in actions
    ]
    if unavailable:
        raise tool.UsageError(
            f"Option(s) [{', '.join(unavailable)}] are unavailable given other options on the command line"
        )
    if args.group and args.all_groups:
        raise _together("group", "all-groups")
    if args.group and action == "list":
        raise _together("group", action)
    if args.topic and action in ("list", "describe"):
        raise _together("topic", action)


def _together(one: str, other: str) -> tool.UsageError:
    return tool.UsageError(f'Option "[{one}]" can\'t be used with option "[{other}]"')


def _groups(client: Client, args: argparse.Namespace) -> list[str]:
    from ottla.cli.jobs.groups import list_groups

    if args.all_groups:
        return [listing.group for listing in list_groups(client)]
    return list(dict.fromkeys(args.group))


def _list(client: Client, args: argparse.Namespace) -> int:
    from ottla.cli.jobs.groups import list_groups

    listings = list_groups(client)
    states = _wanted(args.state, _STATES, "state")
    types = _wanted(args.type, _TYPES, "types")
    if args.state is None and args.type is None:
        for listing in listings:
            print(listing.group)
        return 0
    headings = ["GROUP"]
    if args.type is not None:
        headings.append("TYPE")
    if args.state is not None:
        headings.append("STATE")
    rows = [
        [
            listing.group,
            *([listing.type] if args.type is not None else []),
            *([listing.state] if args.state is not None else []),
        ]
        for listing in listings
        if (not states or listing.state in states) and (not types or listing.type in types)
    ]
    width = max([25, *(len(row[0]) for row in rows)])
    for row in (headings, *rows):
        print(" ".join([row[0].ljust(width), *(cell.ljust(20) for cell in row[1:])]))
    return 0


def _wanted(text: str | None, known: tuple[str, ...], what: str) -> set[str]:
    by_lower = {name.lower(): name for name in known}
    names = [part.strip() for part in (text or "").split(",") if part.strip()]
    if any(name.lower() not in by_lower for name in names):
        raise tool.UsageError(
            f"Invalid {what} list '{text}'. Valid {what.removesuffix('s')}s are: {', '.join(known)}"
        )
    return {by_lower[name.lower()] for name in names}


def _delete(client: Client, groups: list[str]) -> int:
    from ottla.cli.jobs.groups import delete_groups

    failed: dict[str, str] = {}
    for group in groups:
        try:
            delete_groups(client, [group])
        except (GroupNotFound, GroupNotEmpty) as error:
            failed[group] = error_text(error)
    done = [group for group in groups if group not in failed]
    if not failed:
        names = ", ".join(f"'{group}'" for group in done)
        print(f"Deletion of requested consumer groups ({names}) was successful.")
        return 0
    print("\nError: Deletion of some consumer groups failed:")
    for group, reason in failed.items():
        print(f"* Group '{group}' could not be deleted due to: {reason}")
    if done:
        names = ", ".join(f"'{group}'" for group in done)
        print(f"\nThese consumer groups were deleted successfully: {names}")
    return 0


def error_text(error: JobError) -> str:
    """In the words of Kafka's exceptions, which scripts look for."""
    if isinstance(error, GroupNotFound):
        return "org.apache.kafka.common.errors.GroupIdNotFoundException: The group id does not exist."
    if isinstance(error, GroupNotEmpty):
        return "org.apache.kafka.common.errors.GroupNotEmptyException: The group is not empty."
    if error.code == "GROUP_SUBSCRIBED_TO_TOPIC":
        return (
            "org.apache.kafka.common.errors.GroupSubscribedToTopicException: Deleting offsets of a topic is "
            "forbidden while the consumer group is actively subscribed to it."
        )
    return error.message


def _delete_offsets(client: Client, args: argparse.Namespace) -> int:
    from ottla.cli.jobs.groups import delete_offsets
    from ottla.cli.jobs.reset import select_partitions

    if len(args.group) != 1:
        raise tool.UsageError("Found multiple arguments for option group, but you asked for only one")
    [group] = args.group
    partitions = select_partitions(client, args.topic)
    status = "Successful"
    try:
        delete_offsets(client, group, partitions)
        print(f"Request succeeded for deleting offsets from group {group}.")
    except JobError as error:
        text = error_text(error)
        status = f"Error: {text}"
        if isinstance(error, (GroupNotFound, GroupNotEmpty)):
            print(f"\nError: {text.partition(': ')[2]}")
        else:
            print("\nError: Encountered some partition-level error, see the follow-up details.")
    print(f"\n{'TOPIC':<15} {'PARTITION':<10} {'STATUS':<15}")
    for topic, partition in partitions:
        print(f"{topic:<15} {partition:<10} {status:<15}")
    return 0


if __name__ == "__main__":
    main()

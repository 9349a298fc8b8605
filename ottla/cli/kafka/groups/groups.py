"""`kafka-groups`"""

from __future__ import annotations

import argparse

from ottla.cli.kafka import tool
from ottla.cli.kafka.tool import hash_map_order
from ottla.client.admin.groups import GroupListing, list_groups

_TYPES = ("classic", "consumer", "share", "streams")


@tool.entry_point()
def main(argv: list[str]) -> None:
    parser = tool.Parser(
        "kafka-groups", "List groups of all types.", f"""
        --bootstrap-server, --broker-list
        --command-config
        --list               list the groups
        --group-type TYPE    list only groups of this type: {', '.join(_TYPES)}
        --protocol PROTOCOL  list only groups of this protocol type
        --consumer           list only consumer groups: new, classic and simple
        --share              only share groups
        --streams            only streams groups
        """,
    )  # fmt: skip
    args = parser.options(argv)
    _check(args)
    client = tool.connect(args)
    groups = {each.group: each for each in list_groups(client.cluster) if _wanted(each, args)}
    rows = [
        (each.group, each.type, each.protocol) for name in hash_map_order(groups) for each in (groups[name],)
    ]
    width = max([20, *(len(cell) for row in rows for cell in row)])
    print(" ".join(heading.ljust(width) for heading in ("GROUP", "TYPE", "PROTOCOL")))
    for row in rows:
        print("".join(f"{cell:<{width}} " for cell in row))


def _check(args: argparse.Namespace) -> None:
    if not args.list:
        raise tool.UsageError("Command must include exactly one action: --list.")
    if args.group_type is not None and args.group_type.lower() not in _TYPES:
        raise tool.UsageError("--group-type must be a valid group type.")
    filters = ("consumer", "share", "streams")
    for chosen in filters:
        for other in ("consumer", "group_type", "protocol", "share", "streams"):
            if other != chosen and getattr(args, chosen) and getattr(args, other):
                raise tool.together(chosen, other)


def _wanted(group: GroupListing, args: argparse.Namespace) -> bool:
    if args.consumer:
        return group.type == "Consumer" or group.protocol in ("consumer", "")
    if args.share or args.streams:
        return group.type == ("Share" if args.share else "Streams")
    if args.group_type is not None and group.type.lower() != args.group_type.lower():
        return False
    return args.protocol is None or group.protocol == args.protocol

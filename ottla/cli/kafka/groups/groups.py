"""`kafka-groups`"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ottla.cli.kafka import tool
from ottla.cli.kafka.java_order import hash_map_order

if TYPE_CHECKING:
    from ottla.client.admin.groups import GroupListing

_TYPES = ("classic", "consumer", "share", "streams")


def main() -> None:
    tool.main(run)


def run(argv: list[str]) -> int | None:
    parser = tool.Parser("kafka-groups", "List groups of all types.")
    parser.add_servers()
    parser.add_command_config()
    parser.add_flag("--list", help="list the groups")
    parser.add_argument("--group-type", metavar="TYPE", help=f"only those of one type: {', '.join(_TYPES)}")
    parser.add_argument("--protocol", help="only those of one protocol type")
    parser.add_flag("--consumer", help="only consumer groups of any kind: new, classic and simple ones")
    parser.add_flag("--share", help="only share groups")
    parser.add_flag("--streams", help="only streams groups")
    args = parser.options(argv)
    _check(args)
    client = tool.connect(args)
    from ottla.client.admin.groups import list_groups

    groups = {each.group: each for each in list_groups(client.cluster) if _wanted(each, args)}
    rows = [
        (each.group, each.type, each.protocol) for name in hash_map_order(groups) for each in (groups[name],)
    ]
    width = max([20, *(len(cell) for row in rows for cell in row)])
    print(" ".join(heading.ljust(width) for heading in ("GROUP", "TYPE", "PROTOCOL")))
    for row in rows:
        print("".join(f"{cell:<{width}} " for cell in row))
    return 0


def _check(args: argparse.Namespace) -> None:
    if not args.list:
        raise tool.UsageError("Command must include exactly one action: --list.")
    if args.group_type is not None and args.group_type.lower() not in _TYPES:
        raise tool.UsageError("--group-type must be a valid group type.")
    filters = ("consumer", "share", "streams")
    for chosen in filters:
        for other in ("consumer", "group_type", "protocol", "share", "streams"):
            if other != chosen and getattr(args, chosen) and getattr(args, other):
                name = other.replace("_", "-")
                raise tool.UsageError(f'Option "[{chosen}]" can\'t be used with option "[{name}]"')


def _wanted(group: GroupListing, args: argparse.Namespace) -> bool:
    if args.consumer:
        return group.type == "Consumer" or group.protocol in ("consumer", "")
    if args.share or args.streams:
        return group.type == ("Share" if args.share else "Streams")
    if args.group_type is not None and group.type.lower() != args.group_type.lower():
        return False
    return args.protocol is None or group.protocol == args.protocol


if __name__ == "__main__":
    main()

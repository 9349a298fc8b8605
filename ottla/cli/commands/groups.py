"""`ottla groups …`"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.commands.completion import complete_groups, complete_topics
from ottla.cli.errors import JobError
from ottla.cli.options import (
    MOST_OFFSETS,
    Command,
    client_options,
    confirm_or_exit,
    count_option,
    json_option,
    watch_option,
    yes_option,
)

if TYPE_CHECKING:
    from ottla.client.admin.reset import Target


def topic_selections_option(**settings: Any) -> Callable[[Command], Command]:
    return click.option(
        "--topic",
        "-t",
        "topic_selections",
        multiple=True,
        metavar="TOPIC[:P,P]",
        shell_complete=complete_topics,
        help="Topic, or some of its partitions. May be repeated.",
        **settings,
    )


@click.group(short_help="Show consumer groups and their lag, and change their offsets.")
def groups() -> None:
    """List and describe consumer groups, and move or delete their offsets.

    \b
    Examples:
      ottla groups list
      ottla groups describe billing
      ottla groups reset-offsets billing --topic orders --to-earliest --execute
    """


@groups.command("list")
@click.option("--state", "states", multiple=True, help="List only groups in this state. May be repeated.")
@json_option()
@client_options
def list_(client: Client, states: tuple[str, ...], as_json: bool) -> None:
    """List consumer groups with their states."""
    from ottla.client.admin.groups import list_consumer_groups

    wanted = {state.lower() for state in states}
    listings = [
        group for group in list_consumer_groups(client.cluster) if not wanted or group.state.lower() in wanted
    ]
    if as_json:
        names = ("group", "state", "type", "simple")
        output.print_json([{name: getattr(group, name) for name in names} for group in listings])
    elif listings:
        rows = [(group.group, group.state, group.type) for group in listings]
        output.print_table(("GROUP", "STATE", "TYPE"), rows, ("cyan", None, None))
    else:
        output.note("There are no consumer groups" + (" in that state." if wanted else "."))


@groups.command()
@watch_option
@click.argument("names", nargs=-1, metavar="[GROUP]...", shell_complete=complete_groups)
@click.option("--members", is_flag=True, help="Show the members and their assignments.")
@click.option("--state", is_flag=True, help="Show coordinator, assignor, state and number of members.")
@json_option()
@client_options
def describe(client: Client, names: tuple[str, ...], members: bool, state: bool, as_json: bool) -> None:
    """Show offsets and lag of groups; without a name, of all groups.

    \b
    Examples:
      ottla groups describe billing
      ottla groups describe billing --members
      ottla groups describe billing --watch
      ottla groups describe --json
    """
    from ottla.client.admin.groups import PartitionLag, describe_group, group_lag, list_consumer_groups

    if members and state:
        raise click.UsageError("Choose one of --members and --state.")
    wanted = list(names) or [group.group for group in list_consumer_groups(client.cluster)]
    described = [describe_group(client.cluster, name) for name in dict.fromkeys(wanted)]
    if as_json:
        output.print_json(
            [
                {**dataclasses.asdict(group), "offsets": group_lag(client.cluster, group)}
                for group in described
            ]
        )
        return
    if not described:
        output.note("There are no consumer groups.")
    elif state:
        rows = [
            (
                group.group,
                f"{group.coordinator_host}:{group.coordinator_port} ({group.coordinator_id})",
                group.assignor or None,
                group.state,
                len(group.members),
            )
            for group in described
        ]
        output.print_table(("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"), rows)
    elif members:
        output.print_table(
            ("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"),
            [
                (
                    group.group,
                    member.consumer_id,
                    member.host,
                    member.client_id,
                    len(member.partitions),
                    _assignment(member.partitions),
                )
                for group in described
                for member in group.members
            ],
        )
    else:
        # All but the leader epoch.
        columns = [each.name.replace("_", "-").upper() for each in dataclasses.fields(PartitionLag)][:-1]
        for i, group in enumerate(described):
            if i:
                click.echo()
            if not group.members:
                output.note(f"Consumer group '{group.group}' has no active members.")
            elif group.state != "Stable":
                output.note(f"Consumer group '{group.group}' is rebalancing (state {group.state}).")
            output.print_table(
                columns,
                [dataclasses.astuple(row)[:-1] for row in group_lag(client.cluster, group)],
                ("cyan", None, None, None, None, "bold", "dim", "dim", "dim"),
            )


def _assignment(partitions: list[tuple[str, int]]) -> str | None:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    listed = (f"{topic}({','.join(map(str, numbers))})" for topic, numbers in by_topic.items())
    return ", ".join(listed) or None


@groups.command()
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_groups)
@yes_option
@client_options
def delete(client: Client, names: tuple[str, ...], yes: bool) -> None:
    """Delete groups and their offsets. The groups must have no active members."""
    from ottla.client.admin.groups import delete_groups

    listed = ", ".join(dict.fromkeys(names))
    confirm_or_exit(f"Delete {listed} with all committed offsets?", yes)
    delete_groups(client.cluster, list(dict.fromkeys(names)))
    output.done(f"Deleted {'group' if len(names) == 1 else 'groups'} {listed}.")


@groups.command("reset-offsets")
@click.argument("group", metavar="GROUP", shell_complete=complete_groups)
@topic_selections_option()
@click.option("--all-topics", is_flag=True, help="Reset every partition with a committed offset.")
@click.option("--to-earliest", is_flag=True, help="Move to the beginning of each partition.")
@click.option("--to-latest", is_flag=True, help="Move to the end of each partition.")
@click.option("--to-current", is_flag=True, help="Keep the committed offsets.")
@count_option("--to-offset", at_least=0, at_most=MOST_OFFSETS, help="Move to this offset.")
@click.option(
    "--shift-by", type=int, metavar="N", help="Move forward by N messages, or back if N is negative."
)
@click.option(
    "--to-datetime",
    metavar="TIME",
    help="Move to the first message at or after this time, such as 2026-01-31T14:00:00.",
)
@click.option(
    "--by-duration", metavar="DURATION", help="Move to the first message of the last 10m, 2h, P1DT2H, …"
)
@click.option("--execute", is_flag=True, help="Carry out the plan.")
@click.option("--dry-run", is_flag=True, help="Show the plan only (the default).")
@json_option()
@client_options
def reset_offsets(
    client: Client,
    group: str,
    topic_selections: tuple[str, ...],
    all_topics: bool,
    execute: bool,
    dry_run: bool,
    as_json: bool,
    **target_options: object,
) -> None:
    """Move the offsets of a group without active members.

    Shows the plan; --execute carries it out. Offsets beyond the ends of a partition become its first or last offset.

    \b
    Examples:
      ottla groups reset-offsets billing --topic orders --to-earliest
      ottla groups reset-offsets billing --topic orders:0,1 --shift-by -10 --execute
      ottla groups reset-offsets billing --all-topics --by-duration 1h --execute
    """
    from ottla.client.admin.reset import execute_reset, plan_reset

    if execute and dry_run:
        raise click.UsageError("Choose one of --execute and --dry-run.")
    if bool(topic_selections) == all_topics:
        raise click.UsageError(
            "The offsets are missing. Pass --topic TOPIC (may be repeated) or --all-topics."
        )
    target = _target(target_options)
    changes = plan_reset(client.cluster, group, target, topics=topic_selections, all_topics=all_topics)
    if execute:
        execute_reset(client.cluster, changes)
    for change in changes:
        if change.clamped_from is not None:
            end = (
                "lower than its first" if change.clamped_from < change.new_offset else "higher than its last"
            )
            output.warn(
                f"offset {change.clamped_from} of {change.topic}-{change.partition} is {end} offset; "
                f"taking {change.new_offset}."
            )
    if as_json:
        output.print_json(changes)
        return
    output.print_table(
        ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET"),
        [(c.group, c.topic, c.partition, c.current_offset, c.new_offset) for c in changes],
        ("cyan", None, None, "dim", "bold"),
    )
    if not execute:
        output.note("Nothing was changed: add --execute to do this.")


def _target(options: dict[str, object]) -> Target:
    import time

    from ottla.cli.values import parse_duration_ms, parse_timestamp_ms
    from ottla.client.admin.reset import Target

    given = {name: value for name, value in options.items() if value is not None and value is not False}
    if len(given) != 1:
        raise click.UsageError(
            "The target is missing or ambiguous. Pass one of --to-earliest, --to-latest, --to-current, --to-offset, "
            "--shift-by, --to-datetime and --by-duration."
        )
    [(name, value)] = given.items()
    try:
        if name == "to_datetime":
            return Target("timestamp", parse_timestamp_ms(str(value)))
        if name == "by_duration":
            return Target("timestamp", round(time.time() * 1000) - parse_duration_ms(str(value)))
    except ValueError as error:
        raise click.UsageError(f"{error}.") from None
    if isinstance(value, bool):
        kinds = {
            "to_earliest": Target("earliest"),
            "to_latest": Target("latest"),
            "to_current": Target("current"),
        }
        return kinds[name]
    assert isinstance(value, int)
    return Target("offset" if name == "to_offset" else "shift", value)


@groups.command("delete-offsets")
@click.argument("group", metavar="GROUP", shell_complete=complete_groups)
@topic_selections_option(required=True)
@yes_option
@client_options
def delete_offsets(client: Client, group: str, topic_selections: tuple[str, ...], yes: bool) -> None:
    """Delete a group's offsets for topics that it no longer reads.

    \b
    Examples:
      ottla groups delete-offsets billing --topic orders
      ottla groups delete-offsets billing --topic orders:0,1 --yes
    """
    from ottla.client.admin import groups as admin
    from ottla.client.admin.reset import select_partitions

    admin.describe_group(client.cluster, group)
    committed = admin.committed_offsets(client.cluster, group)
    chosen = [key for key in select_partitions(client.cluster, topic_selections) if key in committed]
    if not chosen:
        raise JobError(f"Consumer group '{group}' has no committed offsets there.")
    confirm_or_exit(f"Delete {len(chosen)} committed offsets of {group}?", yes)
    admin.delete_offsets(client.cluster, group, chosen)
    listed = ", ".join(f"{topic}-{partition}" for topic, partition in chosen)
    output.done(f"Deleted the offsets of group {group} for {listed}.")

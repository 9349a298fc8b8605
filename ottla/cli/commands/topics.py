"""`ottla topics …`"""

from __future__ import annotations

import click

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.commands.completion import complete_topics
from ottla.cli.errors import JobError
from ottla.cli.options import (
    MOST_OFFSETS,
    client_options,
    confirm_or_exit,
    count_option,
    json_option,
    pairs_option,
    watch_option,
    yes_option,
)
from ottla.protocol.errors import ErrorCode


@click.group(short_help="List, describe, create, alter and delete topics.")
def topics() -> None:
    """List, describe, create, alter and delete topics.

    \b
    Examples:
      ottla topics create orders --partitions 3 --config retention.ms=86400000
      ottla topics describe orders
      ottla topics list --json
    """


@topics.command("list")
@click.option(
    "--internal",
    is_flag=True,
    help="Include internal topics of brokers and pipelines.",
)
@json_option()
@client_options
def list_(client: Client, internal: bool, as_json: bool) -> None:
    """List topics with their partition counts."""
    from ottla.client.admin.topics import list_topics

    listings = list_topics(client.cluster, include_internal=internal)
    if as_json:
        output.print_json(listings)
    elif listings:
        rows = [(topic.name, topic.partitions, topic.replication_factor) for topic in listings]
        output.print_table(("TOPIC", "PARTITIONS", "REPLICATION-FACTOR"), rows, ("cyan", None, None))
    else:
        output.note("There are no topics yet. Create one with `ottla topics create NAME`.")


@topics.command()
@watch_option
@click.argument("names", nargs=-1, metavar="[TOPIC]...", shell_complete=complete_topics)
@click.option("--internal", is_flag=True, help="Include internal topics, if no topic is named.")
@json_option()
@client_options
def describe(client: Client, names: tuple[str, ...], internal: bool, as_json: bool) -> None:
    """Show partitions, replicas, offsets and settings of topics; without a name, of all topics.

    \b
    Examples:
      ottla topics describe orders --watch
      ottla topics describe --json orders payments
    """
    from ottla.client.admin.topics import describe_topics, topic_names

    wanted = list(names) or topic_names(client.cluster, include_internal=internal)
    described = describe_topics(
        client.cluster, wanted, with_offsets=True, with_sizes=True, with_configs=True, skip_missing=not names
    )
    if as_json:
        output.print_json(described)
        return
    for i, topic in enumerate(described):
        if i:
            click.echo()
        settings = ", ".join(f"{name}={value}" for name, value in topic.configs.items())
        click.echo(click.style("Topic: ", dim=True) + click.style(topic.name, fg="cyan", bold=True))
        click.echo(
            click.style("Id: ", dim=True)
            + topic.topic_id
            + click.style("  Partitions: ", dim=True)
            + str(len(topic.partitions))
            + click.style("  Replication factor: ", dim=True)
            + str(topic.replication_factor)
        )
        click.echo(click.style("Settings: ", dim=True) + (settings or "all at their defaults"))
        with_size = any(partition.size is not None for partition in topic.partitions)
        with_offline = any(partition.offline_replicas for partition in topic.partitions)
        columns = ["PARTITION", "LEADER", "REPLICAS", "ISR"]
        columns += ["OFFLINE"] if with_offline else []
        columns += ["START-OFFSET", "END-OFFSET", "MESSAGES"]
        columns += ["SIZE"] if with_size else []
        rows: list[list[object]] = []
        for partition in topic.partitions:
            row: list[object] = [
                partition.partition,
                "none" if partition.leader is None else partition.leader,
                ",".join(map(str, partition.replicas)),
                ",".join(map(str, partition.isr)),
            ]
            if with_offline:
                row.append(",".join(map(str, partition.offline_replicas)) or None)
            row += [partition.start_offset, partition.end_offset, partition.messages]
            if with_size:
                row.append(None if partition.size is None else output.human_bytes(partition.size))
            rows.append(row)
        output.print_table(columns, rows)


@topics.command()
@click.argument("name", metavar="TOPIC")
@count_option("--partitions", "-p", help="Number of partitions. [default: the broker's num.partitions]")
@count_option(
    "--replication-factor",
    "-r",
    help="Number of replicas. [default: the broker's default.replication.factor]",
)
@pairs_option(
    "--config",
    "-c",
    "settings",
    help="Topic setting, such as cleanup.policy=compact. May be repeated.",
)
@click.option("--if-not-exists", is_flag=True, help="Do nothing if the topic already exists.")
@client_options
def create(
    client: Client,
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    settings: dict[str, str],
    if_not_exists: bool,
) -> None:
    """Create a topic.

    \b
    Examples:
      ottla topics create orders
      ottla topics create orders --partitions 6 --config retention.ms=3600000
      ottla topics create users --config cleanup.policy=compact --if-not-exists
    """
    from ottla.client.admin.topics import create_topic

    try:
        create_topic(
            client.cluster,
            name,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=settings,
        )
    except JobError as error:
        if not (if_not_exists and error.code == ErrorCode.TOPIC_ALREADY_EXISTS):
            raise
        output.note(f"Topic '{name}' exists already: nothing to do.")
        return
    output.done(f"Created topic {name}.")
    if "." in name or "_" in name:
        output.warn(
            "metrics of topics whose names differ only in '.' and '_' collide; it is best to use one of them."
        )


@topics.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics)
@click.option("--if-exists", is_flag=True, help="Ignore missing topics.")
@yes_option
@client_options
def delete(client: Client, names: tuple[str, ...], if_exists: bool, yes: bool) -> None:
    """Delete topics with all their messages.

    \b
    Examples:
      ottla topics delete orders
      ottla topics delete --yes orders payments
    """
    from ottla.client.admin.topics import delete_topics, describe_topics, topic_names

    wanted = list(dict.fromkeys(names))
    if if_exists:
        there = set(topic_names(client.cluster, include_internal=True))
        wanted = [name for name in wanted if name in there]
        if not wanted:
            output.note("Nothing to delete.")
            return
    else:
        describe_topics(client.cluster, wanted)  # all exist, or nothing is deleted
    listed = ", ".join(wanted)
    confirm_or_exit(f"Delete {listed} with all messages?", yes)
    delete_topics(client.cluster, wanted)
    output.done(f"Deleted {'topic' if len(wanted) == 1 else 'topics'} {listed}.")


@topics.command()
@click.argument("name", metavar="TOPIC", shell_complete=complete_topics)
@count_option("--partitions", "-p", help="New number of partitions.")
@pairs_option("--config", "-c", "settings", help="Setting to change. May be repeated.")
@click.option(
    "--delete-config",
    multiple=True,
    metavar="KEY",
    help="Setting to reset to its default. May be repeated.",
)
@client_options
def alter(
    client: Client,
    name: str,
    partitions: int | None,
    settings: dict[str, str],
    delete_config: tuple[str, ...],
) -> None:
    """Add partitions to a topic, or change its settings.

    \b
    Examples:
      ottla topics alter orders --partitions 12
      ottla topics alter orders --config retention.ms=60000 --delete-config segment.ms
    """
    from ottla.client.admin.configs import Resource, alter_configs
    from ottla.client.admin.topics import add_partitions, describe_topics

    if partitions is None and not settings and not delete_config:
        raise click.UsageError("The change is missing. Pass --partitions, --config or --delete-config.")
    described = describe_topics(client.cluster, [name])[0]
    if settings or delete_config:
        alter_configs(client.cluster, Resource("topic", name), set_=settings, delete=delete_config)
        output.done(f"Changed the settings of topic {name}.")
    if partitions is not None:
        add_partitions(client.cluster, name, partitions)
        output.done(f"Topic {name} now has {partitions} partitions (it had {len(described.partitions)}).")
        output.note("Messages with a key may go to another partition from now on.")


@topics.command()
@click.argument("name", metavar="TOPIC", shell_complete=complete_topics)
@count_option("--partition", "-p", at_least=0, help="Trim only this partition.")
@count_option("--before-offset", at_least=0, at_most=MOST_OFFSETS, help="First offset to keep.")
@yes_option
@json_option()
@client_options
def trim(
    client: Client, name: str, partition: int | None, before_offset: int | None, yes: bool, as_json: bool
) -> None:
    """Delete all messages of a topic, or the messages before an offset.

    \b
    Examples:
      ottla topics trim orders
      ottla topics trim orders --partition 0 --before-offset 1000
    """
    from ottla.client.admin.offsets import delete_records
    from ottla.client.admin.topics import partitions_of

    chosen = [
        key for key in partitions_of(client.cluster, [name]) if partition is None or key[1] == partition
    ]
    if not chosen:
        raise JobError(f"Topic '{name}' has no partition {partition}.")
    what = "all messages" if before_offset is None else f"the messages before offset {before_offset}"
    where = f"topic {name}" if partition is None else f"partition {partition} of topic {name}"
    confirm_or_exit(f"Delete {what} of {where}?", yes)
    starts = delete_records(client.cluster, dict.fromkeys(chosen, before_offset))
    if as_json:
        output.print_json(
            [
                {"topic": topic, "partition": number, "start_offset": start}
                for (topic, number), start in starts.items()
            ]
        )
    else:
        rows = [(topic, number, start) for (topic, number), start in starts.items()]
        output.print_table(("TOPIC", "PARTITION", "START-OFFSET"), rows)

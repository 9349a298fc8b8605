"""`ottla deadletter …`"""

from __future__ import annotations

import re

import click

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.commands.completion import complete_topics
from ottla.cli.options import client_options, json_option


def _pattern(_context: click.Context, parameter: click.Parameter, text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise click.BadParameter(f"'{text}' is not a regular expression: {error}", param=parameter) from None


reason_option = click.option(
    "--reason", callback=_pattern, metavar="REGEX", help="Only those whose reason has a match of this."
)


@click.group(short_help="Records that a pipeline could not read: list, replay.")
def deadletter() -> None:
    """See which records a pipeline could not read, and send them back when it can.

    Dead letters of Kafka Connect are understood as well, if errors.deadletterqueue.context.headers.enable was true.

    \b
    Examples:
      ottla deadletter list tweets-dead
      ottla deadletter replay tweets-dead --reason 'likes is' --dry-run
      ottla deadletter replay tweets-dead
    """


@deadletter.command("list")
@click.argument("topic", metavar="TOPIC", shell_complete=complete_topics)
@reason_option
@json_option()
@client_options
def list_(client: Client, topic: str, reason: re.Pattern[str] | None, as_json: bool) -> None:
    """Show every dead letter of a topic: where it came from, and why it could not be read."""
    from ottla.cli.jobs.dead_letters import list_dead_letters

    letters = list_dead_letters(client, topic, reason)
    if as_json:
        output.print_json(letters)
        return
    if not letters:
        output.note(f"There are no dead letters in '{topic}'.")
        return
    output.print_table(
        ("PARTITION", "OFFSET", "FROM", "ERROR", "REASON", "REPLAYED"),
        [
            (
                letter.partition,
                letter.offset,
                _origin(letter.from_topic, letter.from_partition, letter.from_offset),
                letter.error,
                letter.reason,
                "yes" if letter.replayed else "no",
            )
            for letter in letters
        ],
        (None, None, "cyan", None, "bold", "dim"),
    )


def _origin(topic: str | None, partition: str | None, offset: str | None) -> str | None:
    return None if topic is None else f"{topic}-{partition}@{offset}"


@deadletter.command()
@click.argument("topic", metavar="TOPIC", shell_complete=complete_topics)
@click.option(
    "--to",
    metavar="TOPIC",
    shell_complete=complete_topics,
    help="Send all to this topic instead of their own.",
)
@reason_option
@click.option("--dry-run", is_flag=True, help="Only say what would be sent.")
@client_options
def replay(client: Client, topic: str, to: str | None, reason: re.Pattern[str] | None, dry_run: bool) -> None:
    """Send dead letters back to the topics they came from, each once.

    Key, value, timestamp and headers are those of the original record. What has been sent is remembered as the
    offsets of the group ottla-deadletter-TOPIC: the next run sends what is new. `ottla groups delete` on that
    group makes it forget.
    """
    from ottla.cli.jobs.dead_letters import replay as replay_all

    summary = replay_all(client, topic, to, reason, dry_run=dry_run)
    if summary.unknown:
        output.warn(
            f"{summary.unknown} {_records(summary.unknown)} of '{topic}' without the headers of a dead letter "
            "left alone: with --to they can be sent too."
        )
    left = f", {summary.filtered} with other reasons left" if summary.filtered else ""
    verb = "Would send back" if dry_run else "Sent back"
    output.done(f"{verb} {summary.replayed} {_records(summary.replayed)}{left}.")


def _records(count: int) -> str:
    return "record" if count == 1 else "records"

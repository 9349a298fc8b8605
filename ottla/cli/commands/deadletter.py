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
    "--reason", callback=_pattern, metavar="REGEX", help="Select only records whose reason matches."
)


@click.group(short_help="List and replay records that a pipeline or a share group could not process.")
def deadletter() -> None:
    """List records that a pipeline could not read, and send them back once it can.

    Dead letters of share groups work as well. So do those of Kafka Connect, if
    errors.deadletterqueue.context.headers.enable was true.

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
    """Show the dead letters in a topic, with the origin of each and the reason."""
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
    help="Send all records to this topic instead of their original topics.",
)
@reason_option
@click.option("--dry-run", is_flag=True, help="Show the records without sending them.")
@client_options
def replay(client: Client, topic: str, to: str | None, reason: re.Pattern[str] | None, dry_run: bool) -> None:
    """Send dead letters back to the topics they came from, each once.

    Keeps key, value, timestamp and headers of the original record. The letters of share groups only say where the
    record is: it is fetched from there, and if it has been deleted, the letter's copy is sent.

    The offsets of the group ottla-deadletter-TOPIC record the progress, so the next run sends only new dead letters.
    Delete that group with `ottla groups delete` to start over.
    """
    from ottla.cli.jobs.dead_letters import replay as replay_all

    summary = replay_all(client, topic, to, reason, dry_run=dry_run)
    if summary.unknown:
        output.warn(
            f"{summary.unknown} {_records(summary.unknown)} of '{topic}' without the headers of a dead letter "
            "left alone: with --to they can be sent too."
        )
    if summary.gone:
        output.warn(
            f"{summary.gone} {_records(summary.gone)} cannot be sent back: they have been deleted from their topics, "
            "and the dead letters have no copy (errors.deadletterqueue.copy.record.enable)."
        )
    left = f", {summary.filtered} with other reasons left" if summary.filtered else ""
    verb = "Would send back" if dry_run else "Sent back"
    output.done(f"{verb} {summary.replayed} {_records(summary.replayed)}{left}.")


def _records(count: int) -> str:
    return "record" if count == 1 else "records"


deadletter.add_command(replay, "redrive")

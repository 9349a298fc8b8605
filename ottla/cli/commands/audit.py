"""`ottla audit`"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.errors import JobError
from ottla.cli.jobs.audit import AuditTerms
from ottla.cli.options import (
    Command,
    client_options,
    file_option,
    json_option,
    make_client,
    pairs_option,
    seconds_option,
)

if TYPE_CHECKING:
    from ottla.monitoring.audit.books import Finding

_COLUMNS = ("TOPIC", "BUCKET", "TIER", "COMPARED WITH", "WHAT", "MISSING", "OF")
_books_option = click.option(
    "--audit-topic", default="__ottla_audit", show_default=True, help="Where the books are kept."
)


@click.group(short_help="Prove that nothing was lost on the way.")
def audit() -> None:
    """Count what passes each tier (a cluster, its mirror, the topic that a pipeline copies to), and compare the books.

    Each tier counts records, their bytes and a checksum, by topic and by the time that records carry. Loss,
    duplication and records that were exchanged are found with their topic, time and tier.
    """


@audit.command(short_help="Count topics as one tier.")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…")
@click.option(
    "--tier", required=True, help="What this place is called in the books, such as source or mirror."
)
@click.option(
    "--as", "known_as", metavar="TOPIC", help="What the books call the topic, if it has another name here."
)
@click.option("--books", metavar="HOST:PORT", help="The cluster that has the books. [default: the same]")
@file_option("--books-config", help="Client properties for it.")
@_books_option
@seconds_option("--bucket", default=600.0, help="The time that is counted together. The same in all tiers.")
@seconds_option("--interval", help="Count again and again, so often. [default: once]")
@client_options
def count(
    client: Client,
    topics: tuple[str, ...],
    tier: str,
    known_as: str | None,
    books: str | None,
    books_config: Path | None,
    audit_topic: str,
    bucket: float,
    interval: float | None,
) -> None:
    """Count what is new in topics since this tier counted last, and write it to the books.

    Only committed records count. Compacted topics cannot be balanced and are refused. Let one process count a tier.

    \b
    Examples:
      ottla audit count orders --tier source
      ottla audit count orders --tier mirror -b kafka2:9092 --books kafka1:9092 --interval 60
      ottla audit count east.orders --as orders --tier mirror -b kafka2:9092 --books kafka1:9092
    """
    from ottla.client.errors import ClientError
    from ottla.monitoring.audit.audit_topic import ensure_audit_topic, read_books, write_entries
    from ottla.monitoring.audit.counting import Tier, count_topic

    if known_as is not None and len(topics) > 1:
        raise click.UsageError("--as names one topic: count the others in another run.")
    keeper = client if books is None else make_client(books, books_config, client.timeout)
    counting = Tier(tier, int(bucket * 1000), known_as)
    try:
        ensure_audit_topic(keeper.cluster, audit_topic)
        known = read_books(keeper.cluster, audit_topic)
        counting = replace(counting, counter=known.next_counter(time.time_ns() // 1_000_000))
        while True:
            began = time.monotonic()
            for topic in topics:
                records = 0
                for page in count_topic(client.cluster, topic, counting, known):
                    write_entries(keeper.cluster, [page], audit_topic)
                    known.add(page)
                    records += page.records
                click.echo(f"{topic}: {records:,} records counted as {tier}")
            sys.stdout.flush()
            if interval is None:
                break
            time.sleep(max(0.0, interval - (time.monotonic() - began)))
    except ClientError as error:
        raise JobError(error.message) from None
    except KeyboardInterrupt:
        pass
    finally:
        if keeper is not client:
            keeper.close()


def _terms(command: Command) -> Command:
    """Which books are compared, and how."""
    for option in (
        click.option(
            "--counts-only",
            is_flag=True,
            help="Do not compare checksums: a tier changes what is in records.",
        ),
        seconds_option("--grace", default=600.0, help="How long after its end a bucket is left alone."),
        pairs_option(
            "--as",
            "known_as",
            help="TOPIC=NAME: call a topic by the name that it has in other tiers. May be repeated.",
        ),
        click.option(
            "--tiers",
            metavar="A,B,…",
            help="In the order in which records pass them. [default: as they began]",
        ),
        click.option(
            "--books",
            multiple=True,
            metavar="HOST:PORT",
            help="Clusters that have books of other tiers. May be repeated.",
        ),
        file_option("--books-config", help="Client properties for them."),
        _books_option,
        click.option("--master", metavar="URL", help="The Spark cluster. [default: this machine]"),
    ):
        command = option(command)
    return command


@audit.command(short_help="Compare what tiers have counted.")
@click.argument("topics", nargs=-1, metavar="[TOPIC…]")
@_terms
@click.option(
    "--until-now",
    is_flag=True,
    help="Do not wait for tiers that are silent: what they have not counted is missing.",
)
@click.option("--spark", "on_spark", is_flag=True, help="Let Spark do it: for books that are large.")
@json_option()
@client_options
def balance(
    client: Client,
    topics: tuple[str, ...],
    on_spark: bool,
    as_json: bool,
    **terms: Any,
) -> None:
    """Compare each tier with the one before it. The exit code is 1 if the books do not balance.

    A bucket is compared when every tier has counted since its end and the grace. Fewer records than before are a loss,
    more a duplication; as many with another checksum means that records were exchanged, or that a loss and a
    duplicate cancel each other.

    \b
    Examples:
      ottla audit balance
      ottla audit balance orders --tiers broker,mirror --grace 60
      ottla audit balance --books kafka2:9092 --as east.orders=orders --tiers east,east->west,west
      ottla audit balance --spark
    """
    from ottla.client.errors import ClientError

    wanted = AuditTerms(client, **terms)
    try:
        wanted.check()
        found = wanted.on_spark() if on_spark else wanted.here()
    except ClientError as error:
        raise JobError(error.message) from None
    finally:
        wanted.close()
    found = [each for each in found if not topics or each.topic in topics]
    if as_json:
        output.print_json([finding._asdict() for finding in found])
    elif found:
        output.print_table(_COLUMNS, map(_row, found))
    else:
        output.done("The books balance.")
    if found:
        sys.exit(1)


@audit.command(short_help="Balance the books whenever they change.")
@_terms
@seconds_option("--interval", default=60.0, help="How often, at most.")
@client_options
def watch(client: Client, interval: float, **terms: Any) -> None:
    """Let Spark balance the books whenever something was counted, until Ctrl-C.

    What is found is printed, and kept in the topic __ottla_audit_findings of the first cluster: a record for each
    bucket that is wrong, and a tombstone when late pages have put it right.

    \b
    Examples:
      ottla audit watch
      ottla audit watch --books kafka2:9092 --interval 300
    """
    from ottla.client.errors import ClientError

    wanted = AuditTerms(client, until_now=False, **terms)
    try:
        wanted.check()
        wanted.watch(interval, _show)
    except ClientError as error:
        raise JobError(error.message) from None
    finally:
        wanted.close()


def _show(changed: list[Finding], settled: list[Finding]) -> None:
    for finding in changed:
        _, at, tier, before, kind, missing, expected = _row(finding)
        records = f"{abs(finding.missing)} of {expected} records" if missing else f"of {expected} records"
        click.echo(f"{kind} in {finding.topic}, bucket {at}, tier {tier}: {records} of {before}")
    for finding in settled:
        click.echo(
            f"{finding.kind} in {finding.topic}, bucket {_row(finding)[1]}, tier {finding.tier}: settled"
        )
    sys.stdout.flush()


def _row(finding: Finding) -> tuple[object, ...]:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(finding.bucket_ms / 1000))
    return (
        finding.topic, at, finding.tier, finding.before, finding.kind, finding.missing, finding.expected,
    )  # fmt: skip

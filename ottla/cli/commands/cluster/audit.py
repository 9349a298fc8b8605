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
    from ottla.monitoring.audit.tier_counts import Finding

_COLUMNS = ("TOPIC", "BUCKET", "TIER", "COMPARED WITH", "WHAT", "MISSING", "OF")
_counts_option = click.option(
    "--audit-topic", default="__ottla_audit", show_default=True, help="Cluster that stores the counts."
)


@click.group(short_help="Prove that no record was lost on the way.")
def audit() -> None:
    """Count the records in each tier (a cluster, its mirror, the output topic of a pipeline) and compare the counts.

    Each tier counts records, bytes and a checksum, by topic and record time. The comparison finds lost, duplicated
    and exchanged records, with their topic, time and tier.
    """


@audit.command(short_help="Count the records of topics, as one tier.")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC…")
@click.option("--tier", required=True, help="Name of this tier, such as source or mirror.")
@click.option(
    "--as", "known_as", metavar="TOPIC", help="Name of the topic in the other tiers, if it differs."
)
@click.option(
    "--counts-at", "--books", metavar="HOST:PORT", help="Cluster that stores the counts. [default: the same]"
)
@file_option("--counts-config", "--books-config", help="Client properties for that cluster.")
@_counts_option
@seconds_option("--bucket", default=600.0, help="Length of a bucket. Use the same length in all tiers.")
@seconds_option("--interval", help="Count repeatedly, at this interval. [default: once]")
@client_options
def count(
    client: Client,
    topics: tuple[str, ...],
    tier: str,
    known_as: str | None,
    counts_at: str | None,
    counts_config: Path | None,
    audit_topic: str,
    bucket: float,
    interval: float | None,
) -> None:
    """Count the new records in topics since the last count of this tier, and store the counts.

    Counts only committed records. Refuses compacted topics, because their counts cannot balance. Run one process per
    tier.

    \b
    Examples:
      ottla audit count orders --tier source
      ottla audit count orders --tier mirror -b kafka2:9092 --counts-at kafka1:9092 --interval 60
      ottla audit count east.orders --as orders --tier mirror -b kafka2:9092 --counts-at kafka1:9092
    """
    from ottla.client.errors import ClientError
    from ottla.monitoring.audit.audit_topic import ensure_audit_topic, read_tier_counts, write_entries
    from ottla.monitoring.audit.counting import Tier, count_topic

    if known_as is not None and len(topics) > 1:
        raise click.UsageError("--as names one topic: count the others in another run.")
    keeper = client if counts_at is None else make_client(counts_at, counts_config, client.timeout)
    counting = Tier(tier, int(bucket * 1000), known_as)
    try:
        ensure_audit_topic(keeper.cluster, audit_topic)
        known = read_tier_counts(keeper.cluster, audit_topic)
        counting = replace(counting, counter=known.next_counter(time.time_ns() // 1_000_000))
        while True:
            began = time.monotonic()
            for topic in topics:
                records = 0
                for report in count_topic(client.cluster, topic, counting, known):
                    write_entries(keeper.cluster, [report], audit_topic)
                    known.add(report)
                    records += report.records
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
    for option in (
        click.option(
            "--counts-only",
            is_flag=True,
            help="Do not compare checksums. Use it if a tier changes records.",
        ),
        seconds_option(
            "--grace", default=600.0, help="Time to wait after the end of a bucket before comparing it."
        ),
        pairs_option(
            "--as",
            "known_as",
            help="TOPIC=NAME: the topic has this name in the other tiers. May be repeated.",
        ),
        click.option(
            "--tiers",
            metavar="A,B,…",
            help="Tiers, in the order in which records pass them. [default: by their first count]",
        ),
        click.option(
            "--counts-at",
            "--books",
            multiple=True,
            metavar="HOST:PORT",
            help="Cluster that stores counts of other tiers. May be repeated.",
        ),
        file_option("--counts-config", "--books-config", help="Client properties for those clusters."),
        _counts_option,
        click.option("--master", metavar="URL", help="Spark master. [default: this machine]"),
    ):
        command = option(command)
    return command


@audit.command(short_help="Compare the counts of all tiers.")
@click.argument("topics", nargs=-1, metavar="[TOPIC…]")
@_terms
@click.option(
    "--until-now",
    is_flag=True,
    help="Do not wait for silent tiers; treat uncounted records as missing.",
)
@click.option("--spark", "on_spark", is_flag=True, help="Compare on Spark, for large numbers of counts.")
@json_option()
@client_options
def balance(
    client: Client,
    topics: tuple[str, ...],
    on_spark: bool,
    as_json: bool,
    **terms: Any,
) -> None:
    """Compare each tier with the previous one. The exit code is 1 if the counts do not balance.

    A bucket is ready when every tier has counted after its end plus the grace time. Fewer records than in the
    previous tier are a loss, more are a duplication. The same number with another checksum means that records were
    exchanged, or that a loss and a duplicate cancel each other out.

    \b
    Examples:
      ottla audit balance
      ottla audit balance orders --tiers broker,mirror --grace 60
      ottla audit balance --counts-at kafka2:9092 --as east.orders=orders --tiers 'east,east->west,west'
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
        output.done("The counts balance.")
    if found:
        sys.exit(1)


@audit.command(short_help="Compare the counts whenever they change.")
@_terms
@seconds_option("--interval", default=60.0, help="Shortest time between two comparisons.")
@client_options
def watch(client: Client, interval: float, **terms: Any) -> None:
    """Compare the counts on Spark whenever they change, until Ctrl-C.

    Prints the findings and stores them in the topic __ottla_audit_findings of the first cluster: a record for each
    unbalanced bucket, and a tombstone when late counts have balanced it.

    \b
    Examples:
      ottla audit watch
      ottla audit watch --counts-at kafka2:9092 --interval 300
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

"""`ottla pipeline clean`"""

from __future__ import annotations

import click

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.options import client_options, confirm_or_exit, json_option, yes_option


@click.command()
@click.option("--dry-run", is_flag=True, help="Show the commit logs that would be removed and kept.")
@json_option("With --dry-run: print JSON instead of a table.")
@yes_option
@client_options
def clean(client: Client, dry_run: bool, as_json: bool, yes: bool) -> None:
    """Remove the commit logs of deleted queries from the cluster.

    A query that writes exactly once keeps a commit log, the internal topic __ottla_spark_commits_ID. The command
    removes it if the query's checkpoint was on this machine and no longer exists, because such a query can never
    continue. All other logs stay.

    \b
    Examples:
      ottla pipeline clean --dry-run
      ottla pipeline clean --yes
    """
    from ottla.spark.sink.exactly_once.commit_topic_removal import examine, remove_commit_topics

    findings = examine(client.cluster)
    if as_json and dry_run:
        output.print_json(findings)
        return
    if findings:
        rows = [("yes" if each.removable else "no", each.topic, each.reason) for each in findings]
        output.print_table(("REMOVE", "TOPIC", "REASON"), rows)
    removable = [each.query for each in findings if each.removable]
    if not removable:
        output.note("Nothing to remove.")
        return
    if dry_run:
        return
    count = "1 commit log" if len(removable) == 1 else f"{len(removable)} commit logs"
    confirm_or_exit(f"Remove {count}?", yes)
    remove_commit_topics(client.cluster, removable)
    output.done(f"Removed {count}.")

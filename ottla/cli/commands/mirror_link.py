"""`ottla mirror link`: mirror topics that keep the offsets of their source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from ottla.cli.commands.servers.http_servers import file_properties
from ottla.cli.options import spark_settings_option

F = TypeVar("F", bound=Callable[..., None])


@click.group(short_help="Mirror topics with the same offsets as their source.")
def link() -> None:
    """Copy topics byte for byte, with the same offsets, and fail over when a cluster is lost.

    \b
    Example of a file:
      link.name = dr
      clusters = here, there
      here.bootstrap.servers = localhost:9092
      there.bootstrap.servers = localhost:9192
      here->there.enabled = true
      topics = orders.*
    """


def _properties(command: F) -> F:
    kind = click.Path(exists=True, dir_okay=False, path_type=Path)
    command = click.argument("properties", metavar="LINK.PROPERTIES", type=kind)(command)
    return click.option("--reverse", is_flag=True, help="Use the opposite direction.")(command)


def _topics(command: F) -> F:
    return click.argument("topics", metavar="TOPIC…", nargs=-1, required=True)(command)


_yes = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")


@link.command(short_help="Copy topics until Ctrl-C.")
@_properties
@click.option("--master", metavar="URL", help="Spark master. [default: local[*]]")
@spark_settings_option
def start(properties: Path, reverse: bool, master: str | None, conf: dict[str, str]) -> None:
    """Create the mirror topics, and copy records and group offsets until Ctrl-C."""
    from ottla.cli.jobs.mirror import run_link

    run_link(file_properties(properties), master, conf, reverse=reverse)


@link.command(short_help="Show the mirror topics and their lag.")
@_properties
def status(properties: Path, reverse: bool) -> None:
    """Show the partitions of the mirror topics and the number of missing records in each."""
    from ottla.cli.jobs.mirror import show_status

    show_status(file_properties(properties), reverse=reverse)


@link.command(short_help="Turn complete mirror topics into ordinary topics.")
@_properties
@_topics
def promote(properties: Path, reverse: bool, topics: tuple[str, ...]) -> None:
    """Turn mirror topics into ordinary topics for producers. Refused while records of the source are missing."""
    from ottla.cli.jobs.mirror import promote_topics

    promote_topics(file_properties(properties), topics, reverse=reverse)


@link.command(short_help="Turn mirror topics into ordinary topics, even if records are missing.")
@_properties
@_topics
@_yes
def failover(properties: Path, reverse: bool, topics: tuple[str, ...], yes: bool) -> None:
    """Promote mirror topics after the loss of the source. Shows first which records will be missing."""
    from ottla.cli.jobs.mirror import fail_over

    fail_over(file_properties(properties), topics, reverse=reverse, yes=yes)


@link.command(short_help="After a failover: make the old cluster a mirror of the new one.")
@_properties
@_topics
@_yes
def failback(properties: Path, reverse: bool, topics: tuple[str, ...], yes: bool) -> None:
    """Delete the topics in the old cluster and create them there as mirrors of the new cluster's.

    Shows first which records only the old cluster has. Then copy with 'ottla mirror link start --reverse'.
    """
    from ottla.cli.jobs.mirror import fail_back

    fail_back(file_properties(properties), topics, reverse=reverse, yes=yes)

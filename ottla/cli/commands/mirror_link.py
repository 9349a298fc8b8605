"""`ottla mirror link`: mirror topics that keep the offsets of their source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from ottla.cli.commands.servers.http_servers import file_properties

F = TypeVar("F", bound=Callable[..., None])


@click.group(short_help="Mirror topics with the same offsets as their source.")
def link() -> None:
    """Copy topics byte for byte, with the same offsets, and hand them over when a cluster is lost.

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
    return click.option("--reverse", is_flag=True, help="The other way round: from there to here.")(command)


def _topics(command: F) -> F:
    return click.argument("topics", metavar="TOPIC…", nargs=-1, required=True)(command)


_yes = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


@link.command(short_help="Copy topics until Ctrl-C.")
@_properties
@click.option("--master", metavar="URL", help="Spark's master. [default: local[*]]")
def start(properties: Path, reverse: bool, master: str | None) -> None:
    """Create the mirror topics and keep them the same as their sources, with the offsets of groups."""
    from ottla.cli.jobs.mirror_link import run_link

    run_link(file_properties(properties), master, reverse=reverse)


@link.command(short_help="Show the mirror topics and how far they are behind.")
@_properties
def status(properties: Path, reverse: bool) -> None:
    """Show each partition of the mirror topics, and how many records it lacks."""
    from ottla.cli.jobs.mirror_link import show_status

    show_status(file_properties(properties), reverse=reverse)


@link.command(short_help="Make mirror topics ordinary ones, if they lack nothing.")
@_properties
@_topics
def promote(properties: Path, reverse: bool, topics: tuple[str, ...]) -> None:
    """Make mirror topics ordinary ones that producers write to. Refused while they lack records of the source."""
    from ottla.cli.jobs.mirror_link import promote_topics

    promote_topics(file_properties(properties), topics, reverse=reverse)


@link.command(short_help="Make mirror topics ordinary ones now, whatever is missing.")
@_properties
@_topics
@_yes
def failover(properties: Path, reverse: bool, topics: tuple[str, ...], yes: bool) -> None:
    """As promote, when the source is lost: says first which records will be missing."""
    from ottla.cli.jobs.mirror_link import fail_over

    fail_over(file_properties(properties), topics, reverse=reverse, yes=yes)


@link.command(short_help="After a fail-over: make the old side a mirror of the new one.")
@_properties
@_topics
@_yes
def failback(properties: Path, reverse: bool, topics: tuple[str, ...], yes: bool) -> None:
    """Delete the topics of the old side and create them there as mirrors of the new side's.

    Says first which records only the old side has. Then 'ottla mirror link start --reverse' copies.
    """
    from ottla.cli.jobs.mirror_link import fail_back

    fail_back(file_properties(properties), topics, reverse=reverse, yes=yes)

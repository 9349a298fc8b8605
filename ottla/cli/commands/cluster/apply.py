"""`ottla apply` and `ottla export`"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.errors import JobError
from ottla.cli.options import (
    DEFAULT_REGISTRY_URL,
    client_options,
    confirm_or_exit,
    directory_option,
    yes_option,
)

if TYPE_CHECKING:
    from ottla.cli.jobs.apply import Servers

Command = TypeVar("Command", bound=Callable[..., Any])

_SERVERS = (
    ("--schema-registry", "OTTLA_SCHEMA_REGISTRY", "URL of the schema registry."),
    ("--connect", "OTTLA_CONNECT", "URL of a Connect worker."),
    ("--sql", "OTTLA_SQL", "URL of the SQL server."),
)
_COLOURS = {"+": "green", "~": "yellow", "-": "red"}


def _server_options(command: Command) -> Command:
    """Add the options for servers beside the cluster. The command gets a function that makes `Servers` from them."""

    @functools.wraps(command)
    def with_servers(*args: Any, client: Client, mirrors: Path | None, **kwargs: Any) -> Any:
        given = {
            name: (kwargs.pop(name), kwargs.pop(f"{name}_user"))
            for name in ("schema_registry", "connect", "sql")
        }
        return command(
            *args, client=client, servers=functools.partial(_servers, client, mirrors, given), **kwargs
        )

    decorated: Any = with_servers
    for option, environment, help_text in reversed(_SERVERS):
        for each in (
            click.option(
                f"{option}-user",
                metavar="NAME:PASSWORD",
                envvar=f"{environment}_USER",
                help="Its user and password.",
            ),
            click.option(
                option, metavar="URL", envvar=f"{environment}_URL", show_envvar=True, help=help_text
            ),
        ):
            decorated = each(decorated)
    mirrors_option = directory_option(
        "--mirrors", help="Directory with the mm2.properties file of each mirror."
    )
    return mirrors_option(decorated)  # type: ignore[no-any-return]


def _servers(
    client: Client,
    mirrors: Path | None,
    given: dict[str, tuple[str | None, str | None]],
    defaults: bool = False,
) -> Servers:
    from ottla.cli.jobs.apply import Servers
    from ottla.client.json_server import JsonServer

    registry, registry_user = given["schema_registry"]
    properties = {"schema.registry.url": registry or DEFAULT_REGISTRY_URL}
    if registry_user:
        properties["schema.registry.basic.auth.user.info"] = registry_user

    def server(name: str, what: str, default: str) -> JsonServer | None:
        url, user = given[name]
        return JsonServer(url or default, what, user=user, timeout=90.0) if url or defaults else None

    return Servers(
        client.cluster,
        properties if registry or defaults else None,
        server("connect", "a Connect worker", "http://localhost:8083"),
        server("sql", "a SQL server", "http://localhost:8088"),
        mirrors,
    )


@click.command(short_help="Make a cluster match a file.")
@click.option(
    "--file", "-f", "file", metavar="FILE", required=True, help="Cluster file (YAML); - reads standard input."
)
@click.option("--dry-run", is_flag=True, help="Print the plan and change nothing.")
@click.option("--prune", is_flag=True, help="Delete whatever the sections of the file do not mention.")
@yes_option
@client_options
@_server_options
def apply(
    client: Client, servers: Callable[..., Servers], file: str, dry_run: bool, prune: bool, yes: bool
) -> None:
    """Create and alter topics, settings, users, ACLs, quotas, schemas, connectors, mirrors and queries.

    Checks the whole file first, prints the plan, and then makes the changes. Works with Ottla and with Apache Kafka.

    \b
    Examples:
      ottla apply -f cluster.yaml --dry-run
      ottla apply -f cluster.yaml
      ottla apply -f cluster.yaml --prune --yes
    """
    from ottla.cli.jobs.apply import Plan
    from ottla.cli.jobs.cluster_file import read_cluster_file
    from ottla.client.errors import ClientError

    text = sys.stdin.read() if file == "-" else None
    wanted = read_cluster_file(None if file == "-" else Path(file), text)
    made = servers(defaults=True)
    try:
        plan = Plan(wanted, made, prune)
        for change in plan.changes:
            click.echo(click.style(f"{change.sign} {change.text}", fg=_COLOURS[change.sign]))
        if not plan.changes:
            output.done("Nothing to change.")
            return
        count = f"{len(plan.changes)} {'change' if len(plan.changes) == 1 else 'changes'}"
        if dry_run:
            output.note(f"{count} planned. Nothing was changed.")
            return
        if plan.deletes:
            confirm_or_exit("Make these changes, deletions included?", yes)
        for done, change in enumerate(plan.changes):
            try:
                change.run()
            except ClientError as error:
                raise JobError(
                    f"{error.message} This was change {done + 1} of {len(plan.changes)} ({change.text}); the earlier "
                    "ones are made. Fix the cause and apply the file again.",
                    error.code,
                ) from None
        output.done(f"Made {count}.")
    finally:
        made.close()


@click.command("export", short_help="Write the file of a live cluster for `ottla apply`.")
@click.option("--output", "-o", "target", metavar="FILE", help="File to write. [default: standard output]")
@client_options
@_server_options
def export_(client: Client, servers: Callable[..., Servers], target: str | None) -> None:
    """Write topics, settings, users, ACLs and quotas of a live cluster as a file for `ottla apply`.

    Schemas, connectors, mirrors and queries are included for the servers that options name. Brokers do not reveal
    passwords: the file names an environment variable for each user. Settings of connectors may contain secrets.

    \b
    Examples:
      ottla export -o cluster.yaml
      ottla export --schema-registry http://localhost:8081 --connect http://localhost:8083
    """
    from ottla.cli.jobs.apply import export
    from ottla.cli.jobs.cluster_file import dump_cluster_file

    made = servers()
    try:
        text = dump_cluster_file(export(made))
    finally:
        made.close()
    if target is None:
        click.echo(text, nl=False)
        return
    try:
        # Settings of connectors may contain passwords.
        with open(
            os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
        ) as file:
            file.write(text)
    except OSError as error:
        raise JobError(f"{target} cannot be written: {error.strerror}.") from None
    output.done(f"Wrote {target}.")

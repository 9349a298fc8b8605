"""`ottla mcp`"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.commands.servers.console import cluster_options, console_sentences, console_settings
from ottla.cli.errors import JobError, require
from ottla.cli.options import file_option

if TYPE_CHECKING:
    from ottla.console.access.roles import User
    from ottla.console.settings import ConsoleSettings


@click.command(short_help="Let AI assistants look at a cluster (MCP).")
@cluster_options
@file_option("--config", "-c", "config_file", help="console.toml with roles, masks and clusters.")
@click.option("--role", metavar="NAME", default="viewer", show_default=True, help="Role of the assistant.")
@click.option(
    "--name", metavar="NAME", default="assistant", show_default=True, help="Its name in the audit log."
)
@click.option(
    "--allow-writes", is_flag=True, help="Offer tools that change the cluster, as far as the role may."
)
@click.option(
    "--audit-log", type=click.Path(path_type=Path, dir_okay=False), help="File for the log of all calls."
)
def mcp(
    bootstrap_server: str,
    command_config: Path | None,
    registry: str | None,
    connect: str | None,
    sql: str | None,
    config_file: Path | None,
    role: str,
    name: str,
    allow_writes: bool,
    audit_log: Path | None,
) -> None:
    """Serve the Model Context Protocol on standard input and output, for assistants that start this command.

    \b
    Examples:
      ottla mcp
      ottla mcp --bootstrap-server kafka1:9092 --registry http://kafka1:8081
      ottla mcp --config console.toml --role orders-team --audit-log mcp.jsonl

    The tools read only, unless you pass --allow-writes. Rights and masks are those of the role.
    """
    require("mcp")
    with console_sentences("stdio"):
        settings = console_settings(
            None, bootstrap_server, command_config, registry, connect, sql, config_file
        )
        settings = replace(
            settings,
            host="127.0.0.1",
            read_only=settings.read_only or not allow_writes,
            audit_file=audit_log or settings.audit_file,
        )
        settings.check()
    import asyncio

    asyncio.run(_serve(settings, _user(settings, role, name), allow_writes))


def _user(settings: ConsoleSettings, role: str, name: str) -> User:
    from ottla.console.access.roles import User

    if role not in settings.roles:
        raise JobError(f"There is no role '{role}': use one of {', '.join(settings.roles)}.")
    return User(name, (settings.roles[role],))


async def _serve(settings: ConsoleSettings, user: User, writes: bool) -> None:
    from ottla.console.mcp.server import build
    from ottla.console.server import Console

    console = Console(settings)
    console.start_background()
    try:
        await build(console, user, writes=writes).run_stdio_async()
    finally:
        await console.stop_background()

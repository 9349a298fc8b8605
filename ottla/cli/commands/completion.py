"""`ottla completion …`, and the completion of names that only the cluster knows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.client import DEFAULT_BOOTSTRAP_SERVER

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster

# A shell waits for this: better no names than a pause.
_TIMEOUT = 1.0

_INSTRUCTIONS = {
    "bash": 'eval "$(ottla completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(ottla completion zsh)"   # in ~/.zshrc, after compinit',
    "fish": "ottla completion fish > ~/.config/fish/completions/ottla.fish",
}


@click.command(short_help="Print a shell completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands, options, topics and groups in your shell.

    \b
    Turn it on with one line:
      bash   eval "$(ottla completion bash)"     in ~/.bashrc
      zsh    eval "$(ottla completion zsh)"      in ~/.zshrc, after compinit
      fish   ottla completion fish > ~/.config/fish/completions/ottla.fish
    """
    from click.shell_completion import get_completion_class

    from ottla.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None  # the choices are click's own shells
    script = kind(cli, {}, "ottla", "_OTTLA_COMPLETE")
    click.echo(f"# Completion of ottla for {shell}. To turn it on:\n#   {_INSTRUCTIONS[shell]}")
    # Not source(): for bash that would look at the version of the bash on this machine first.
    click.echo(script.source_template % script.source_vars())


def complete_topics(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    from ottla.client.admin.topics import topic_names

    return _matching(context, topic_names, incomplete)


def complete_groups(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    from ottla.client.admin.groups import list_consumer_groups

    def names(cluster: Cluster) -> list[str]:
        return [listing.group for listing in list_consumer_groups(cluster)]

    return _matching(context, names, incomplete)


def complete_configured(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    kind = str(context.params.get("kind", "topic"))
    if kind.startswith("topic"):
        return complete_topics(context, parameter, incomplete)
    if kind.startswith("group"):
        return complete_groups(context, parameter, incomplete)
    return _matching(context, lambda cluster: [*map(str, cluster.nodes()), "default"], incomplete)


def _matching(context: click.Context, names: Callable[[Cluster], list[str]], incomplete: str) -> list[str]:
    """Complete nothing if the cluster does not answer: an error message would not help after Tab."""
    from ottla.cli.errors import JobError
    from ottla.cli.options import make_client

    path = context.params.get("command_config")
    server = context.params.get("bootstrap_server") or DEFAULT_BOOTSTRAP_SERVER
    try:
        cluster = make_client(server, Path(path) if path else None, _TIMEOUT).cluster
        return [name for name in names(cluster) if name.startswith(incomplete)]
    except JobError:
        return []

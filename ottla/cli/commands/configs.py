"""`ottla configs …`"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.commands.completion import complete_configured
from ottla.cli.options import client_options, json_option, key_value_pairs

if TYPE_CHECKING:
    from ottla.client.admin.configs import Resource

ResourceKind = Literal["topic", "broker", "group"]

_KINDS: tuple[ResourceKind, ...] = ("topic", "broker", "group")

# Kafka's words for where a value comes from → ours.
_SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": "topic",
    "DYNAMIC_BROKER_CONFIG": "broker, dynamic",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "all brokers, dynamic",
    "STATIC_BROKER_CONFIG": "broker, server.properties",
    "DEFAULT_CONFIG": "default",
    "DYNAMIC_GROUP_CONFIG": "group",
}


class Kind(click.ParamType[ResourceKind]):
    name = "kind"

    def convert(
        self, value: str, parameter: click.Parameter | None, context: click.Context | None
    ) -> ResourceKind:
        for kind in _KINDS:
            if value.lower() in (kind, f"{kind}s"):
                return kind
        self.fail(f"'{value}' is none of {', '.join(_KINDS)}", parameter, context)

    def shell_complete(
        self, context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(kind) for kind in _KINDS if kind.startswith(incomplete)]


kind_argument = click.argument("kind", type=Kind(), metavar="{topic|broker|group}")
name_argument = click.argument("name", metavar="NAME", shell_complete=complete_configured)


def _resource(kind: ResourceKind, name: str) -> Resource:
    from ottla.client.admin.configs import Resource

    if kind == "broker":
        if name == "default":
            return Resource("broker", "")
        if not name.isdecimal():
            raise click.UsageError(
                f"'{name}' is not a broker id: give a number, or 'default' for all brokers."
            )
    return Resource(kind, name)


@click.group(short_help="Show and change settings of topics, brokers and groups.")
def configs() -> None:
    """Show and change settings of topics, brokers and groups while the cluster runs.

    \b
    Examples:
      ottla configs describe topic orders
      ottla configs set topic orders retention.ms=86400000
      ottla configs delete topic orders retention.ms
      ottla configs describe broker 0 --all
    """


@configs.command()
@kind_argument
@name_argument
@click.option("--all", "show_all", is_flag=True, help="Include settings with default values.")
@json_option()
@client_options
def describe(client: Client, kind: ResourceKind, name: str, show_all: bool, as_json: bool) -> None:
    """Show settings with the source and the default of each.

    For brokers, NAME is the broker's id, or `default` for the cluster-wide settings.
    """
    from ottla.client.admin.configs import describe_configs

    entries = describe_configs(client.cluster, _resource(kind, name))
    shown = [entry for entry in entries if show_all or not entry.is_default]
    if as_json:
        output.print_json(shown)
        return
    if shown:
        rows = [
            (
                entry.name,
                "(hidden)" if entry.sensitive else entry.value,
                _SOURCES.get(entry.source, entry.source),
                entry.default,
                "yes" if entry.read_only else "",
            )
            for entry in shown
        ]
        output.print_table(
            ("NAME", "VALUE", "SOURCE", "DEFAULT", "READ-ONLY"), rows, ("cyan", "bold", None, "dim", "dim")
        )
    hidden = len(entries) - len(shown)
    if hidden:
        output.note(f"{hidden} settings are at their defaults: --all shows them.")


@configs.command("set")
@kind_argument
@name_argument
@click.argument("settings", nargs=-1, required=True, callback=key_value_pairs, metavar="KEY=VALUE...")
@client_options
def set_(client: Client, kind: ResourceKind, name: str, settings: dict[str, str]) -> None:
    """Change settings; others keep their values."""
    from ottla.client.admin.configs import alter_configs

    resource = _resource(kind, name)
    alter_configs(client.cluster, resource, set_=settings)
    listed = ", ".join(f"{key}={value}" for key, value in settings.items())
    output.done(f"{resource}: set {listed}.")


@configs.command()
@kind_argument
@name_argument
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@client_options
def delete(client: Client, kind: ResourceKind, name: str, keys: tuple[str, ...]) -> None:
    """Reset settings to their defaults."""
    from ottla.client.admin.configs import alter_configs

    resource = _resource(kind, name)
    alter_configs(client.cluster, resource, delete=keys)
    output.done(f"{resource}: back to the default for {', '.join(keys)}.")

"""`ottla mirror`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.commands.mirror_link import link
from ottla.cli.commands.servers.http_servers import file_properties
from ottla.cli.options import pairs_option, spark_settings_option

if TYPE_CHECKING:
    from ottla.mirror.settings import FlowSettings


@click.group(short_help="Copy topics between clusters.")
def mirror() -> None:
    """Copy topics from one cluster to another, as MirrorMaker does, exactly once and with exact offsets."""


@mirror.command(short_help="Copy topics until Ctrl-C.")
@click.argument(
    "properties", metavar="MM2.PROPERTIES", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--clusters",
    metavar="ALIAS,…",
    default="",
    help="Run only the flows into this cluster. May be repeated.",
)
@pairs_option("--set", "-s", "settings", help="Setting of mm2.properties. May be repeated.")
@click.option("--master", metavar="URL", help="Spark master. [default: local[*]]")
@spark_settings_option
@click.option("--quiet", "-q", is_flag=True, help="Print nothing but warnings and errors.")
def start(
    properties: Path,
    clusters: str,
    settings: dict[str, str],
    master: str | None,
    conf: dict[str, str],
    quiet: bool,
) -> None:
    """Run the flows of a mm2.properties.

    \b
    Example of a file:
      clusters = here, there
      here.bootstrap.servers = localhost:9092
      there.bootstrap.servers = kafka.example.org:9092
      here->there.enabled = true
      here->there.topics = orders, payments.*
    """
    from ottla.cli.jobs.mirror import run_flows

    given = file_properties(properties) | settings
    targets = [each.strip() for each in clusters.split(",") if each.strip()]

    def read() -> list[FlowSettings]:
        from ottla.mirror.settings import parse_flows

        return parse_flows(given, targets)

    run_flows(read, master, conf, quiet=quiet)


mirror.add_command(link)

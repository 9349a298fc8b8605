"""`connect-plugin-path`"""

from __future__ import annotations

from pathlib import Path

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool

_COLUMNS = (
    "pluginName",
    "firstAlias",
    "secondAlias",
    "pluginVersion",
    "pluginType",
    "isLoadable",
    "hasManifest",
    "pluginLocation",
)
_WHERE = """
    --plugin-location PATH*  jar or directory of one plugin
    --plugin-path PATHS*     directories of plugins, separated by commas
    --worker-config FILE*    worker settings with plugin.path
"""


@tool.entry_point()
def main(argv: list[str]) -> None:
    parser = tool.Parser("connect-plugin-path", "Show the connectors in the jars of a plugin.path.")
    parser.add_command("list", "list plugins", _WHERE)
    parser.add_command("sync-manifests", "not needed: Ottla finds connectors without manifests", _WHERE)
    args = parser.command(argv)
    path = [each for paths in args.plugin_path or () for each in paths.split(",") if each]
    for file in args.worker_config or ():
        path += _path_of(Path(file))
    locations = list(args.plugin_location or ())
    if not path and not locations:
        raise tool.UsageError(
            "Must specify at least one --plugin-location, --plugin-path, or --worker-config"
        )
    for each in (*path, *locations):
        if not Path(each).exists():
            raise JobError(f"There is no {each}: name a directory with plugins, or a jar.")
    if args.command == "sync-manifests":
        raise JobError(
            "sync-manifests is not part of Ottla, whose workers find a connector without a manifest by the full name "
            "of its class. For Apache Kafka's workers, use theirs."
        )
    _list(path, locations)


def _path_of(file: Path) -> list[str]:
    from ottla.cli.commands.servers.http_servers import file_properties

    given = file_properties(file).get("plugin.path", "")
    return [each.strip() for each in given.split(",") if each.strip()]


def _list(path: list[str], locations: list[str]) -> None:
    from ottla.connect.java import jars

    # A single plugin is what its parent directory holds under its name.
    found = jars.plugins(path)
    for each in map(Path, locations):
        inside = jars.plugins([str(each) if each.suffix == ".jar" else str(each.parent)])
        found += [plugin for plugin in inside if any(Path(jar).is_relative_to(each) for jar in plugin.jars)]
    print("\t".join(_COLUMNS))
    for plugin in sorted(found, key=lambda each: (each.jars, each.class_name)):
        simple = plugin.class_name.rpartition(".")[2]
        short = simple.removesuffix("Connector")
        location = str(Path(plugin.jars[0]).parent)
        print(
            "\t".join(
                (
                    plugin.class_name,
                    simple,
                    short if short != simple else "N/A",
                    plugin.version or "undefined",
                    plugin.type,
                    "true",
                    "true",
                    location,
                )
            )
        )
    print(f"\nTotal plugins:      \t{len(found)}")
    print(f"Loadable plugins:   \t{len(found)}")
    print(f"Compatible plugins: \t{len(found)}")

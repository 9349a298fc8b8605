"""`connect-distributed`, `connect-standalone` and `connect-plugin-path`"""

from __future__ import annotations

from pathlib import Path

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool

# `connect-distributed` and `connect-standalone`


@tool.entry_point()
def distributed(argv: list[str]) -> int | None:
    parser = tool.Parser(
        "connect-distributed",
        "Run a Connect worker that shares connectors with others of its group.",
        without_any="USAGE: connect-distributed [-daemon] connect-distributed.properties",
    )
    parser.add_argument("-daemon", action="store_true", help="run in the background")
    parser.add_argument(
        "properties", type=Path, metavar="connect-distributed.properties", help="settings of the worker"
    )
    args = parser.parse_args(argv)
    properties = _read(args.properties)
    if args.daemon:
        return _in_background(argv, "connectDistributed.out")
    from ottla.cli.commands.connect_worker import serve

    serve(properties)
    return 0


@tool.entry_point()
def standalone(argv: list[str]) -> int | None:
    parser = tool.Parser(
        "connect-standalone",
        "Run a Connect worker on its own, with connectors from files.",
        without_any="USAGE: connect-standalone [-daemon] connect-standalone.properties [connector1.properties "
        "connector2.json ...]",
    )
    parser.add_argument("-daemon", action="store_true", help="run in the background")
    parser.add_argument(
        "properties", type=Path, metavar="connect-standalone.properties", help="settings of the worker"
    )
    parser.add_argument(
        "connectors", type=Path, nargs="*", metavar="connector", help="connector config: properties or JSON"
    )
    args = parser.parse_args(argv)
    properties = _read(args.properties)
    from ottla.cli.commands.connect import read_connector_file

    connectors = [read_connector_file(each) for each in args.connectors]
    for file, given in zip(args.connectors, connectors, strict=True):
        if not given.config.get("name", "").strip():
            raise JobError(f"{file} does not say the name of the connector: add name=….")
        if not properties.get("plugin.path", "").strip():  # otherwise only the worker knows its connectors
            _check_class(file, given.config.get("connector.class", ""))
    if args.daemon:
        return _in_background(argv, "connectStandalone.out")
    from ottla.cli.commands.connect_worker import serve

    serve(properties, distributed=False, connectors=connectors)
    return 0


def _check_class(file: Path, name: str) -> None:
    """Raise JobError for an unknown connector now, and not after the start of Spark."""
    if not name.strip():
        raise JobError(f"{file} does not say which connector to run: add connector.class=….")
    from ottla.cli.errors import require

    require("connect")
    from difflib import get_close_matches

    from ottla.connect.plugins import PluginKind, PluginNotFound, available, find

    try:
        find(name)
    except PluginNotFound:
        short = {plugin.class_name.rpartition(".")[2]: plugin for plugin in available([PluginKind.CONNECTOR])}
        near = get_close_matches(name.rpartition(".")[2], short, 3, 0.5)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise JobError(
            f"{file}: there is no connector '{name}'.{hint} The worker lists its connectors at /connector-plugins; "
            "those in other directories need plugin.path."
        ) from None


def _read(file: Path) -> dict[str, str]:
    if not file.is_file():
        raise JobError(f"There is no file {file}: name the settings of the worker.")
    from ottla.cli.commands.servers.http_servers import file_properties

    return file_properties(file)


def _in_background(argv: list[str], output: str) -> int:
    from ottla.cli.kafka.servers.start_stop import run_in_background

    return run_in_background(argv, output, "is ready.", seconds=120.0)


# `connect-plugin-path`

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

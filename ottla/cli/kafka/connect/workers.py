"""`connect-distributed` and `connect-standalone`"""

from __future__ import annotations

from pathlib import Path

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool


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
    from ottla.cli.commands.connect.worker import serve

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
    from ottla.cli.commands.connect.connector_files import read_connector_file

    connectors = [read_connector_file(each) for each in args.connectors]
    for file, given in zip(args.connectors, connectors, strict=True):
        if not given.config.get("name", "").strip():
            raise JobError(f"{file} does not say the name of the connector: add name=….")
        if not properties.get("plugin.path", "").strip():  # otherwise only the worker knows its connectors
            _check_class(file, given.config.get("connector.class", ""))
    if args.daemon:
        return _in_background(argv, "connectStandalone.out")
    from ottla.cli.commands.connect.worker import serve

    serve(properties, distributed=False, connectors=connectors)
    return 0


def _check_class(file: Path, name: str) -> None:
    """Raise JobError for an unknown connector now, and not after the start of Spark."""
    if not name.strip():
        raise JobError(f"{file} does not say which connector to run: add connector.class=….")
    from ottla.cli.extras import require

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

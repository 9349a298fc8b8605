"""`zookeeper-server-start`: a real ZooKeeper, from the jars that come with PySpark."""

from __future__ import annotations

import os
from pathlib import Path

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.servers.daemon import run_in_background
from ottla.jvm.java import NoJava
from ottla.jvm.zookeeper import NoZooKeeper, command

_STARTED = "binding to port"


def main() -> None:
    tool.main(run)


def run(argv: list[str]) -> int | None:
    parser = tool.Parser("zookeeper-server-start", "Run a ZooKeeper server from a zookeeper.properties.")
    parser.add_argument("-daemon", action="store_true", help="run it in the background")
    parser.add_argument(
        "properties",
        type=Path,
        metavar="zookeeper.properties",
        help="the settings: dataDir, clientPort, tickTime, server.1, …",
    )
    args = parser.parse_args(argv)
    if not args.properties.is_file():
        raise JobError(f"There is no file {args.properties}: name the zookeeper.properties of the server.")
    _check(args.properties)
    if args.daemon:
        foreground = [argument for argument in argv if argument != "-daemon"]
        module = "ottla.cli.kafka.servers.zookeeper_server_start"
        return run_in_background(module, foreground, "zookeeper.out", _STARTED)
    try:
        words = command(args.properties, log_level="info")
    except (NoJava, NoZooKeeper) as error:
        raise JobError(str(error)) from None
    # Nothing is left to do here: signals and the exit code are the server's own.
    os.execv(words[0], words)


def _check(path: Path) -> None:
    """What the server cannot do without, said in a sentence before it says it in a stack trace."""
    from ottla.cli.properties import parse_properties

    settings = parse_properties(tool.read_text(path))
    elsewhere = any(key.startswith(("server.", "secureClientPort")) for key in settings)
    for name, example in (("dataDir", "/tmp/zookeeper"), ("clientPort", "2181")):
        if not settings.get(name) and not (name == "clientPort" and elsewhere):
            raise JobError(f"{path} has no {name}: add a line such as {name}={example}.")
    port = settings.get("clientPort", "2181")
    if not port.isdecimal() or int(port) > 65535:
        raise JobError(f"{path}: clientPort cannot be '{port}'; give the number of a port.")


if __name__ == "__main__":
    main()

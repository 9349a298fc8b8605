"""`zookeeper-server-start`: a real ZooKeeper, from the jars that come with PySpark."""

from __future__ import annotations

import os
from pathlib import Path

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.daemon import run_in_background
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
    if args.daemon:
        foreground = [argument for argument in argv if argument != "-daemon"]
        module = "ottla.cli.kafka.zookeeper_server_start"
        return run_in_background(module, foreground, "zookeeper.out", _STARTED)
    try:
        words = command(args.properties, log_level="info")
    except (NoJava, NoZooKeeper) as error:
        raise JobError(str(error)) from None
    # Nothing is left to do here: signals and the exit code are the server's own.
    os.execv(words[0], words)


if __name__ == "__main__":
    main()

"""`zookeeper-server-stop`: ends the ZooKeeper servers of this user on this machine."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.daemon import processes
from ottla.jvm.zookeeper import MAIN


def main() -> None:
    tool.main(run)


def run(argv: list[str]) -> int | None:
    parser = tool.Parser("zookeeper-server-stop", "Stop the ZooKeeper servers that were started here.")
    parser.add_argument(
        "properties",
        nargs="?",
        type=Path,
        metavar="zookeeper.properties",
        help="only the server of this file",
    )
    args = parser.parse_args(argv)
    only = None if args.properties is None else args.properties.resolve()
    found = [process for process, properties in servers() if only is None or properties == only]
    if not found:
        raise JobError("No zookeeper server to stop")
    for process in found:
        os.kill(process, signal.SIGTERM)
    return 0


def servers() -> list[tuple[int, Path]]:
    """Process and zookeeper.properties of each server, as the process table tells."""
    found = []
    for process, words, directory in processes():
        if MAIN in words[:-1]:
            found.append((process, (directory / words[words.index(MAIN) + 1]).resolve()))
    return found


if __name__ == "__main__":
    main()

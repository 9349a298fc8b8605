"""`zookeeper-server-stop`: ends the ZooKeeper servers of this user on this machine."""

from __future__ import annotations

from pathlib import Path

from ottla.cli.kafka import tool
from ottla.cli.kafka.servers.daemon import processes, stop
from ottla.jvm.zookeeper import MAIN


def main() -> None:
    tool.main(run)


def run(argv: list[str]) -> int | None:
    parser = tool.Parser("zookeeper-server-stop", "Stop the ZooKeeper servers that were started here.")
    return stop(parser, argv, "zookeeper.properties", servers())


def servers() -> list[tuple[int, Path]]:
    """Process and zookeeper.properties of each server, as the process table tells."""
    found = []
    for process, words, directory in processes():
        if MAIN in words[:-1]:
            found.append((process, (directory / words[words.index(MAIN) + 1]).resolve()))
    return found


if __name__ == "__main__":
    main()

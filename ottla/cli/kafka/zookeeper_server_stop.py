"""`zookeeper-server-stop`: ends the ZooKeeper servers of this user on this machine."""

from __future__ import annotations

import os
import signal

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.daemon import processes
from ottla.jvm.zookeeper import MAIN


def main() -> None:
    tool.main(run)


def run(argv: list[str]) -> int | None:
    parser = tool.Parser("zookeeper-server-stop", "Stop the ZooKeeper servers that were started here.")
    parser.parse_args(argv)
    found = [process for process, words, _ in processes() if MAIN in words]
    if not found:
        raise JobError("No zookeeper server to stop")
    for process in found:
        os.kill(process, signal.SIGTERM)
    return 0


if __name__ == "__main__":
    main()

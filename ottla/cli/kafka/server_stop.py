"""`kafka-server-stop`: ends the brokers of this user that `kafka-server-start` runs on this machine."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.daemon import processes

_STARTERS = ("kafka-server-start", "kafka-server-start.sh", "ottla.cli.kafka.server_start")


def main() -> None:
    tool.main(run)


def run(argv: list[str]) -> int | None:
    parser = tool.Parser("kafka-server-stop", "Stop the brokers that were started here, cleanly.")
    parser.add_argument(
        "properties", nargs="?", type=Path, metavar="server.properties", help="only the broker of this file"
    )
    args = parser.parse_args(argv)
    only = None if args.properties is None else args.properties.resolve()
    found = [process for process, properties in brokers() if only is None or properties == only]
    if not found:
        raise JobError("No kafka server to stop")
    for process in found:
        os.kill(process, signal.SIGTERM)
    return 0


def brokers() -> list[tuple[int, Path]]:
    """Process and server.properties of each broker, as the process table tells."""
    found = []
    for process, argv, directory in processes():
        position = next((i for i, part in enumerate(argv[:4]) if part.rpartition("/")[2] in _STARTERS), None)
        if position is None:
            continue
        arguments = argv[position + 1 :]
        names = [
            argument
            for before, argument in zip(["", *arguments], arguments, strict=False)
            if argument and not argument.startswith("-") and before not in ("--override", "-name")
        ]
        if names and "-daemon" not in arguments:
            found.append((process, (directory / names[0]).resolve()))
    return found


if __name__ == "__main__":
    main()

"""`kafka-server-stop`: ends the brokers of this user that `kafka-server-start` runs on this machine."""

from __future__ import annotations

from pathlib import Path

from ottla.cli.kafka import tool
from ottla.cli.kafka.servers.daemon import processes, stop

_STARTERS = ("kafka-server-start", "kafka-server-start.sh", "ottla.cli.kafka.servers.server_start")


def main() -> None:
    tool.main(run)


def run(argv: list[str]) -> int | None:
    parser = tool.Parser("kafka-server-stop", "Stop the brokers that were started here, cleanly.")
    return stop(parser, argv, "server.properties", brokers())


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

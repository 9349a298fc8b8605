"""`kafka-storage`

A broker of Ottla prepares its log directories when it first starts. What Kafka's scripts run before that says so and
succeeds, so that they go on to start the broker.
"""

from __future__ import annotations

import base64
import re
import uuid
from pathlib import Path

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.settings import release_features
from ottla.cli.properties import parse_properties

_CREDENTIAL = re.compile(r"(?P<mechanism>SCRAM-SHA-(?:256|512))=\[name=(?P<name>[^,\]]+),(?P<rest>.+)\]")


@tool.entry_point()
def main(argv: list[str]) -> int | None:
    parser = tool.Parser(
        "kafka-storage", "Show log directories, which need no formatting, and make random ids."
    )
    parser.add_command("info", "show the log directories", "--config, -c FILE!  server.properties")
    parser.add_command("format", "no effect: the broker formats its directories", """
        --config, -c FILE!    server.properties
        --cluster-id, -t ID!  without effect, as the rest
        --add-scram, -S CREDENTIAL*  a user to put into ZooKeeper: SCRAM-SHA-512=[name=NAME,password=PASSWORD]
        --ignore-formatted, -g
        --release-version, -r RELEASE
        --feature, -f FEATURE=LEVEL*
        --standalone, -s
        --no-initial-controllers, -N
        --initial-controllers, -I LIST
        """)  # fmt: skip
    parser.add_command("random-uuid", "print a random id")
    release_features.add_commands(parser)
    args = parser.command(argv)
    if args.command == "random-uuid":
        print(random_id())
        return 0
    if args.command in ("version-mapping", "feature-dependencies"):
        return release_features.run(args)
    directories = _log_directories(args.config)
    if args.command == "format":
        _add_users(args.config, args.add_scram)
        for directory in directories:
            print(f"{directory} needs no formatting: the broker prepares it when it starts.")
        return 0
    print("Found log directory:" if len(directories) == 1 else "Found log directories:")
    for directory in directories:
        there = (directory / "meta.properties").is_file()
        print(f"  {directory}{'' if there else ' (the broker prepares it when it starts)'}")
    return 0


def random_id() -> str:
    """128 bits in the 22 letters that Kafka writes ids with; none begins like an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _add_users(file: Path, wanted: list[str]) -> None:
    """Brokers log in to each other, so ZooKeeper must know these users before the first broker starts."""
    if not wanted:
        return
    connect = parse_properties(tool.read_text(file)).get("zookeeper.connect", "").strip()
    if not connect:
        raise JobError(
            f"{file} has no zookeeper.connect, and a broker on its own keeps its users itself: start it with "
            "`ottla start --secure`, or add users with kafka-configs once it runs."
        )
    from ottla.cli.kafka.settings import zookeeper_credentials

    for text in wanted:
        found = _CREDENTIAL.fullmatch(text.strip())
        if found is None:
            raise JobError(
                "--add-scram needs SCRAM-SHA-256=[name=NAME,password=PASSWORD], or the same with 512."
            )
        # The file has the settings zookeeper.ssl.… as well.
        zookeeper_credentials.alter(connect, file, found["name"], {found["mechanism"]: found["rest"]}, [])


def _log_directories(file: Path) -> list[Path]:
    settings = parse_properties(tool.read_text(file))
    named = settings.get("log.dirs") or settings.get("log.dir") or "/tmp/kafka-logs"
    return [Path(name.strip()) for name in named.split(",") if name.strip()]

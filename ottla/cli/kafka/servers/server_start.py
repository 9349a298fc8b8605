"""`kafka-server-start`"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.servers.daemon import run_in_background

if TYPE_CHECKING:
    from ottla.broker.lifecycle.server import Server

_STARTED = "started (kafka.server.KafkaServer)"


def main() -> None:
    tool.main(run)


def run(argv: list[str]) -> int | None:
    parser = tool.Parser("kafka-server-start", "Run a broker from a server.properties.")
    parser.add_argument("-daemon", action="store_true", help="run it in the background")
    parser.add_argument("-name", help="only for compatibility")
    parser.add_argument("-loggc", action="store_true", help="only for compatibility")
    parser.add_argument(
        "properties", type=Path, metavar="server.properties", help="the settings of the broker"
    )
    parser.add_many("--override", metavar="KEY=VALUE", help="a setting that wins over the file")
    args = parser.parse_args(argv)
    overrides = tool.key_values(args.override)
    if not args.properties.is_file():
        raise JobError(f"There is no file {args.properties}: name the server.properties of the broker.")
    if args.daemon:
        foreground = [argument for argument in argv if argument != "-daemon"]
        return run_in_background(
            "ottla.cli.kafka.servers.server_start", foreground, "kafkaServer.out", _STARTED
        )
    from ottla.cli.commands.servers.start import serve

    serve(args.properties, overrides, announce=_announce)
    return 0


def _announce(server: Server) -> None:
    moment = time.strftime("%Y-%m-%d %H:%M:%S")
    where = ", ".join(server.listen_addresses)
    print(f"[{moment},000] INFO Listening on {where} (kafka.server.KafkaServer)")
    print(
        f"[{moment},000] INFO [KafkaServer id={server.config.broker_id}] {_STARTED}",
        flush=True,
    )


if __name__ == "__main__":
    main()

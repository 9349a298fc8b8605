"""`kafka-server-start`"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool

if TYPE_CHECKING:
    from ottla.broker.server import Server

# How long to wait for a broker in the background; recovery after a crash may take longer, and goes on.
_START_SECONDS = 20.0
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
        return _daemon([argument for argument in argv if argument != "-daemon"])
    from ottla.cli.start import serve

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


def _daemon(argv: list[str]) -> int:
    """As Kafka's script: output goes to kafkaServer.out in LOG_DIR, which is ./logs unless it is set."""
    directory = Path(os.environ.get("LOG_DIR") or "logs")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        output = open(directory / "kafkaServer.out", "ab")  # noqa: SIM115
    except OSError as error:
        raise JobError(f"{directory} cannot be used for the broker's output: {error.strerror}.") from None
    began = output.tell()
    with output:
        process = subprocess.Popen(
            [sys.executable, "-m", "ottla.cli.kafka.server_start", *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + _START_SECONDS
    while True:
        ended = process.poll() is not None
        said = (directory / "kafkaServer.out").read_bytes()[began:].decode(errors="replace").strip()
        if ended:
            raise JobError(said or f"The broker ended with {process.returncode}.")
        if _STARTED in said or time.monotonic() > deadline:
            return 0
        time.sleep(0.05)


if __name__ == "__main__":
    main()

"""`zkServer.sh`: ZooKeeper's own way to start, stop and ask a server."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

from ottla.cli.commands.config import shipped_folder
from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.servers.start_stop import (
    ZOOKEEPER_STARTED,
    become_zookeeper,
    check_zookeeper_settings,
    run_in_background,
    zookeepers,
)

_COMMANDS = ("start", "start-foreground", "stop", "restart", "status")
_USAGE = f"Usage: zkServer [--config <conf-dir>] {{{'|'.join(_COMMANDS)}}} [zoo.cfg]"
_STOP_SECONDS = 30.0


@tool.entry_point()
def main(argv: list[str]) -> int | None:
    parser = tool.Parser("zkServer", "Start, stop or ask a ZooKeeper server.", without_any=_USAGE)
    parser.add_options(
        "--config DIR  where zoo.cfg is, instead of ZOOCFGDIR, conf, config or zookeeper-*/conf"
    )
    parser.add_argument("command", metavar="|".join(_COMMANDS))
    parser.add_argument(
        "file", nargs="?", metavar="zoo.cfg", help="settings: dataDir, clientPort, tickTime, …"
    )
    args = parser.parse_args(argv)
    if args.command not in _COMMANDS:
        raise tool.UsageError(_USAGE)
    file = _settings_file(args)
    print(f"Using config: {file}", file=sys.stderr)
    settings = check_zookeeper_settings(file)
    if args.command == "start-foreground":
        become_zookeeper(file, "JVMFLAGS", "SERVER_JVMFLAGS")
    if args.command == "status":
        return _status(settings)
    if args.command in ("stop", "restart"):
        _stop(file)
    if args.command in ("start", "restart"):
        _start(file)
    return 0


def _settings_file(args: argparse.Namespace) -> Path:
    """The file that was named, by itself or in the directory of the settings; zoo.cfg unless one was."""
    named = args.config or os.environ.get("ZOOCFGDIR")
    name = args.file or os.environ.get("ZOOCFG") or "zoo.cfg"
    places = [Path(named)] if named else [Path("conf"), Path("config")]
    candidates = [*([Path(name)] if args.file else []), *(place / name for place in places)]
    if not named and not args.file:
        # ZooKeeper's script finds the file beside itself: in the unpacked archive, seen from there, above or in bin.
        home = os.environ.get("ZOOKEEPER_HOME")
        archives = [*([Path(home)] if home else []), Path(".."), *sorted(Path().glob("*zookeeper*"))]
        candidates += [each / "conf" / name for each in archives]
        candidates += [place / "zookeeper.properties" for place in (Path("config"), shipped_folder("config"))]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise JobError(
        f"There is no file {candidates[0]}: name the zoo.cfg of the server, or its directory with --config."
    )


def _running(file: Path) -> list[int]:
    return [process for process, its_file in zookeepers() if its_file == file.resolve()]


def _start(file: Path) -> None:
    print("Starting zookeeper ... ", end="", flush=True)
    if running := _running(file):
        raise JobError(f"already running as process {running[0]}.")
    try:
        run_in_background(["start-foreground", str(file)], "zookeeper.out", ZOOKEEPER_STARTED)
    except JobError as error:
        raise JobError(f"FAILED TO START\n{error.message}") from None
    print("STARTED")


def _stop(file: Path) -> None:
    print("Stopping zookeeper ... ", end="", flush=True)
    running = _running(file)
    if not running:
        print(f"no zookeeper to stop (none runs with {file})")
        return
    for process in running:
        os.kill(process, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while _running(file):
        if time.monotonic() > deadline:
            raise JobError(f"process {running[0]} has not ended after {_STOP_SECONDS:.0f} seconds.")
        time.sleep(0.05)
    print("STOPPED")


def _status(settings: dict[str, str]) -> int:
    from ottla.jvm.zookeeper import ServerSecurity, four_letter_word

    is_secure = not settings.get("clientPort") and bool(settings.get("secureClientPort"))
    name = "secureClientPort" if is_secure else "clientPort"
    port = settings.get(name, "2181")
    address = settings.get(f"{name}Address", "localhost")
    print(f"Client port found: {port}. Client address: {address}. Client SSL: {str(is_secure).lower()}.")
    tls = None
    if is_secure:
        keys = Path(settings.get("ssl.keyStore.location", ""))
        tls = ServerSecurity(keys, client_auth=settings.get("ssl.clientAuth", "need")).probe()
    answer = four_letter_word(address, int(port), "srvr", tls=tls) or ""
    mode = next((line for line in answer.splitlines() if line.startswith("Mode: ")), None)
    if mode is None:
        print("Error contacting service. It is probably not running.")
        return 1
    print(mode)
    return 0

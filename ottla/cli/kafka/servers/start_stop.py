"""`kafka-server-start`, `kafka-server-stop`, `zookeeper-server-start` and `zookeeper-server-stop`

Servers are found in the process table: those of this user, on this machine.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

from ottla.cli.commands.config import shipped_folder
from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.properties import parse_properties
from ottla.python_process import python_command, python_environment

# How long to wait for a server in the background. Recovery after a crash may take longer: it continues.
_START_SECONDS = 20.0
_BROKER_STARTED = "] started"  # in both formats of the log
ZOOKEEPER_STARTED = "binding to port"
_PORTS = ("clientPort", "secureClientPort")
_STARTERS = ("kafka-server-start", "kafka-server-start.sh")


@tool.entry_point()
def start_broker(argv: list[str]) -> int | None:
    parser = tool.Parser(
        "kafka-server-start",
        "Run a broker from a server.properties.",
        without_any="USAGE: kafka-server-start [-daemon] server.properties [--override property=value]*",
    )
    parser.add_argument("-daemon", action="store_true", help="run in the background")
    parser.add_argument("-name", help="no effect; accepted for compatibility")
    parser.add_argument("-loggc", action="store_true", help="no effect; accepted for compatibility")
    parser.add_argument("properties", type=Path, metavar="server.properties", help="settings of the broker")
    parser.add_options("--override KEY=VALUE*  setting that overrides the file")
    args = _parse(parser, argv, "server.properties of the broker")
    if args.daemon:
        return run_in_background(argv, "kafkaServer.out", _BROKER_STARTED)
    from ottla.cli.commands.servers.start import LOG_FORMAT_VARIABLE, LOG_FORMATS, serve

    log_format = os.environ.get(LOG_FORMAT_VARIABLE, "text").lower()
    if log_format not in LOG_FORMATS:
        raise JobError(f"{LOG_FORMAT_VARIABLE} cannot be '{log_format}'; give {' or '.join(LOG_FORMATS)}.")
    serve(
        args.properties,
        tool.key_values(args.override),
        announce=None,
        log_level="info",
        log_format=log_format,
        log_to=sys.stdout,
        listen_elsewhere=f"with --override listeners=PLAINTEXT://HOST:PORT, or set listeners in {args.properties}",
    )
    return 0


@tool.entry_point()
def start_zookeeper(argv: list[str]) -> int | None:
    parser = tool.Parser(
        "zookeeper-server-start",
        "Run a ZooKeeper server from a zookeeper.properties.",
        without_any="USAGE: zookeeper-server-start [-daemon] zookeeper.properties",
    )
    parser.add_argument("-daemon", action="store_true", help="run in the background")
    parser.add_argument(
        "properties",
        type=Path,
        metavar="zookeeper.properties",
        help="settings: dataDir, clientPort, tickTime, server.1, …",
    )
    args = _parse(parser, argv, "zookeeper.properties of the server")
    if args.daemon:
        check_zookeeper_settings(args.properties)
        return run_in_background(argv, "zookeeper.out", ZOOKEEPER_STARTED)
    become_zookeeper(args.properties)


def become_zookeeper(properties: Path, *variables: str) -> NoReturn:
    """Options of Java come from KAFKA_OPTS, as with Kafka's script, or from the variables that are named."""
    from ottla.jvm.java import NoJava
    from ottla.jvm.zookeeper import NoZooKeeper, command

    _check_place(properties, check_zookeeper_settings(properties))
    try:
        words = command(properties, log_level="info", options=java_words(*(variables or ("KAFKA_OPTS",))))
    except (NoJava, NoZooKeeper) as error:
        raise JobError(str(error)) from None
    # Nothing is left to do here: signals and the exit code are the server's own.
    os.execv(words[0], words)


def java_words(*variables: str) -> list[str]:
    """Options of Java in variables of the environment: the JAAS file of a server is named there."""
    words = []
    for variable in variables:
        try:
            words += shlex.split(os.environ.get(variable, ""))
        except ValueError as error:
            raise JobError(f"{variable} cannot be read: {error}.") from None
    return words


@tool.entry_point()
def stop_brokers(argv: list[str]) -> None:
    parser = tool.Parser("kafka-server-stop", "Stop the brokers on this machine cleanly.")
    _stop(parser, argv, "server.properties", _brokers())


@tool.entry_point()
def stop_zookeepers(argv: list[str]) -> None:
    parser = tool.Parser("zookeeper-server-stop", "Stop the ZooKeeper servers that were started here.")
    _stop(parser, argv, "zookeeper.properties", zookeepers())


# -- start ---------------------------------------------------------------------------------------------


def _parse(parser: tool.Parser, argv: list[str], what: str) -> argparse.Namespace:
    args = parser.parse_args(argv)
    if not args.properties.is_file():
        hint = ""
        if (
            args.properties.parent.name == "config"
            and (shipped_folder("config") / args.properties.name).is_file()
        ):
            hint = ", or write Kafka's classic files into ./config with `ottla config init`"
        raise JobError(f"There is no file {args.properties}: name the {what}{hint}.")
    return args


def run_in_background(
    argv: list[str], output_name: str, started: str, seconds: float = _START_SECONDS
) -> int:
    """Run this command again, without -daemon and without a terminal, until it says `started`.

    As with Kafka's scripts its output goes to a file in LOG_DIR, which is ./logs unless it is set.
    """
    directory = Path(os.environ.get("LOG_DIR") or "logs")
    path = directory / output_name
    try:
        directory.mkdir(parents=True, exist_ok=True)
        output = open(path, "ab")  # noqa: SIM115
    except OSError as error:
        raise JobError(f"{directory} cannot be used for the server's output: {error.strerror}.") from None
    began = output.tell()
    with output:
        process = subprocess.Popen(
            python_command(sys.argv[0], *(word for word in argv if word != "-daemon")),
            env=python_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + seconds
    while True:
        ended = process.poll() is not None
        said = path.read_bytes()[began:].decode(errors="replace").strip()
        if ended:
            reason = [line for line in said.splitlines() if not line.startswith(("[", "{"))]  # not its log
            raise JobError("\n".join(reason) or said or f"The server ended with {process.returncode}.")
        if started in said or time.monotonic() > deadline:
            return 0
        time.sleep(0.05)


def check_zookeeper_settings(path: Path) -> dict[str, str]:
    """Return the settings. Report missing ones in a sentence before the server prints a stack trace."""
    settings = parse_properties(tool.read_text(path))
    elsewhere = any(key.startswith(("server.", "secureClientPort")) for key in settings)
    for name, example in (("dataDir", "/tmp/zookeeper"), ("clientPort", "2181")):
        if not settings.get(name) and not (name == "clientPort" and elsewhere):
            raise JobError(f"{path} has no {name}: add a line such as {name}={example}.")
    for name in _PORTS:
        port = settings.get(name, "2181")
        if not port.isdecimal() or int(port) > 65535:
            raise JobError(f"{path}: {name} cannot be '{port}'; give the number of a port.")
    return settings


def _check_place(properties: Path, settings: dict[str, str]) -> None:
    from ottla.cli.commands.servers.zookeeper import ensure_free

    directory = Path(settings["dataDir"])
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JobError(f"{directory} cannot be used as dataDir: {error.strerror}.") from None
    for name in _PORTS:
        if name in settings:
            host, port = settings.get(f"{name}Address", ""), int(settings[name])
            ensure_free(host, port, f"with another {name} in {properties}")


# -- stop ----------------------------------------------------------------------------------------------


def _stop(parser: tool.Parser, argv: list[str], properties: str, servers: Iterable[tuple[int, Path]]) -> None:
    """End all these servers, given by process and properties file, or only that of the file that is named."""
    parser.add_argument(
        "properties",
        nargs="?",
        type=Path,
        metavar=properties,
        help="stop only the server with this settings file",
    )
    args = parser.parse_args(argv)
    only = None if args.properties is None else args.properties.resolve()
    found = [process for process, file in servers if only is None or file == only]
    if not found:
        raise JobError(f"No {parser.prog.removesuffix('-stop').replace('-server', ' server')} to stop")
    for process in found:
        os.kill(process, signal.SIGTERM)


def _brokers() -> Iterator[tuple[int, Path]]:
    """Process and server.properties of each broker that `kafka-server-start` runs."""
    for process, argv, directory in processes():
        position = next((i for i, part in enumerate(argv[:4]) if part.rpartition("/")[2] in _STARTERS), None)
        if position is None:
            continue
        arguments = argv[position + 1 :]
        names = [
            argument
            for before, argument in zip(["", *arguments], arguments, strict=False)
            if argument
            and not argument.startswith("-")
            and before not in ("--override", "-override", "-name")
        ]
        if names and "-daemon" not in arguments:
            yield process, (directory / names[0]).resolve()


def zookeepers() -> Iterator[tuple[int, Path]]:
    from ottla.jvm.zookeeper import MAIN

    for process, words, directory in processes():
        if MAIN in words[:-1]:
            yield process, (directory / words[words.index(MAIN) + 1]).resolve()


def processes() -> Iterator[tuple[int, list[str], Path]]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            if entry.stat().st_uid != os.getuid():
                continue
            argv = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            directory = (entry / "cwd").readlink()
        except OSError:
            continue  # it has ended meanwhile
        yield int(entry.name), argv, directory

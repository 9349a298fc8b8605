"""`zookeeper-shell` and `zkCli.sh`: look into ZooKeeper and change it, with the commands of ZooKeeper's own shell."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import sys
from pathlib import Path

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.servers.zookeeper import zookeeper_client
from ottla.cli.kafka.servers.zookeeper_commands import GREETING, Shell

_DEFAULT_SERVER = "localhost:2181"
# Settings zookeeper.ssl.…; the second name is that of ZooKeeper's own shell.
_TLS_OPTIONS = ("-zk-tls-config-file", "-client-configuration")
_DESCRIPTION = "Look into a ZooKeeper, by one command or one after another."


@tool.entry_point()
def main(argv: list[str]) -> int | None:
    parser = tool.Parser(
        "zookeeper-shell",
        _DESCRIPTION,
        without_any="USAGE: zookeeper-shell zookeeper_host:port[/path] [-zk-tls-config-file file] [args...]",
    )
    parser.add_argument("server", metavar="HOST:PORT[,…][/CHROOT]", help="the ensemble")
    return _run(parser, argv)


@tool.entry_point()
def main_zk_cli(argv: list[str]) -> int | None:
    parser = tool.Parser("zkCli", _DESCRIPTION)
    parser.add_argument(
        "-server",
        default=_DEFAULT_SERVER,
        metavar="HOST:PORT[,…][/CHROOT]",
        help=f"instead of {_DEFAULT_SERVER}",
    )
    parser.add_argument("-timeout", type=int, metavar="MS", help="of the session")
    for name in ("-r", "-waitforconnection"):
        parser.add_argument(name, action="store_true", help="no effect; accepted for compatibility")
    return _run(parser, argv)


def _run(parser: tool.Parser, argv: list[str]) -> int:
    parser.add_argument(_TLS_OPTIONS[0], metavar="FILE", help="file with zookeeper.ssl.… settings for TLS")
    argv, tls_config = _without_tls_config(argv)
    parser.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        help="command to run; without one, commands are read from stdin",
    )
    args = parser.parse_args(argv)
    print(f"Connecting to {args.server}", flush=True)
    milliseconds: int | None = getattr(args, "timeout", None)
    seconds = {} if milliseconds is None else {"seconds": milliseconds / 1000}
    with zookeeper_client(args.server, **seconds, tls_config=tls_config) as client:
        shell = Shell(client)
        if args.command:
            print(GREETING, flush=True)
            return 0 if shell.run(args.command) else 1
        print("Welcome to ZooKeeper!")
        print(GREETING, flush=True)
        return _read_commands(shell, args.server)


def _without_tls_config(argv: list[str]) -> tuple[list[str], Path | None]:
    """The option may be anywhere, also behind the first word of a command, as in Kafka's tool."""
    place = next((index for index, word in enumerate(argv) if word in _TLS_OPTIONS), None)
    if place is None:
        return argv, None
    if place == len(argv) - 1:
        raise JobError(f"Error: no filename provided with option {argv[place]}")
    return [*argv[:place], *argv[place + 2 :]], Path(argv[place + 1])


def _read_commands(shell: Shell, server: str) -> int:
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # history and editing for input()
    number = 0
    while True:
        try:
            line = input(f"[zk: {server}(CONNECTED) {number}] " if sys.stdin.isatty() else "")
        except EOFError:
            return 0
        try:
            words = shlex.split(line)
        except ValueError as error:
            print(f"The line cannot be understood: {error}.", file=sys.stderr)
            continue
        if words[:1] in (["quit"], ["close"]):
            return 0
        if words:
            shell.run(words)
            number += 1

"""`zookeeper-shell`: looks into ZooKeeper and changes it, with the commands of ZooKeeper's own shell."""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from ottla.cli.kafka import tool
from ottla.cli.kafka.servers.zookeeper import zookeeper_client

if TYPE_CHECKING:
    from kazoo.client import KazooClient

_GREETING = "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null"


class _Refused(Exception):
    """A command that cannot be carried out, in the words of ZooKeeper's shell."""


class _Words(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Refused(f"{self.format_usage().removeprefix('usage: ').strip()}\n{message}")


@tool.entry_point()
def main(argv: list[str]) -> int | None:
    parser = tool.Parser("zookeeper-shell", "Look into a ZooKeeper, by one command or one after another.")
    parser.add_argument("server", metavar="HOST:PORT[,…][/CHROOT]", help="the ensemble")
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, help="one command; without it they are read from stdin"
    )
    args = parser.parse_args(argv)
    print(f"Connecting to {args.server}", flush=True)
    with zookeeper_client(args.server) as client:
        shell = Shell(client)
        if args.command:
            print(_GREETING)
            return 0 if shell.run(args.command) else 1
        print("Welcome to ZooKeeper!")
        print(_GREETING, flush=True)
        return _read_commands(shell)


def _read_commands(shell: Shell) -> int:
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  # history and editing for input()
    while True:
        try:
            line = input("> " if sys.stdin.isatty() else "")
        except EOFError:
            return 0
        try:
            words = shlex.split(line)
        except ValueError as error:
            print(f"The line cannot be understood: {error}.")
            continue
        if words[:1] in (["quit"], ["close"]):
            return 0
        if words:
            shell.run(words)
        sys.stdout.flush()


class Shell:
    def __init__(self, client: KazooClient) -> None:
        self._client = client
        self._commands: dict[str, Callable[[argparse.Namespace], None]] = {
            "create [-s] [-e] path [data]": self._create,
            "delete [-v version] path": lambda args: client.delete(args.path, _version(args)),
            "deleteall path": lambda args: client.delete(args.path, recursive=True),
            "get [-s] path": self._get,
            "getEphemerals [path]": self._get_ephemerals,
            "ls [-s] [-R] path": self._ls,
            "set [-s] [-v version] path data": self._set,
            "stat path": lambda args: _print_stat(client.get(args.path)[1]),
        }

    def run(self, words: list[str]) -> bool:
        """Carry out one command; whether it could be."""
        from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError

        name, *arguments = words
        path = next((word for word in arguments if word.startswith("/")), "")
        try:
            self._carry_out({"rmr": "deleteall"}.get(name, name), arguments)
        except _Refused as error:
            print(error)
        except NoNodeError:
            print(f"Node does not exist: {path}")
        except NodeExistsError:
            print(f"Node already exists: {path}")
        except NotEmptyError:
            print(f"Node not empty: {path}")
        except BadVersionError:
            print(f"version No is not valid : {path}")
        except ValueError as error:
            print(f"Path must start with / character: {error}")
        else:
            return True
        return False

    def _carry_out(self, name: str, arguments: list[str]) -> None:
        for usage, command in self._commands.items():
            if usage.split()[0] == name:
                command(_parse(usage, arguments))
                return
        print("zookeeper-shell HOST:PORT COMMAND")
        for usage in sorted((*self._commands, "quit")):
            print(f"\t{usage}")
        if name != "help":
            raise _Refused(f"Command not found: Command not found {name}")

    def _ls(self, args: argparse.Namespace) -> None:
        if args.R:
            self._list_all(args.path)
            return
        children, stat = self._client.get_children(args.path, include_data=True)
        print(f"[{', '.join(sorted(children))}]")
        if args.s:
            _print_stat(stat)

    def _list_all(self, path: str) -> None:
        print(path)
        for child in sorted(self._client.get_children(path)):
            self._list_all(f"{path.rstrip('/')}/{child}")

    def _get(self, args: argparse.Namespace) -> None:
        data, stat = self._client.get(args.path)
        print("null" if data is None else data.decode(errors="replace"))
        if args.s:
            _print_stat(stat)

    def _create(self, args: argparse.Namespace) -> None:
        data = (args.data or "").encode()
        print(f"Created {self._client.create(args.path, data, ephemeral=args.e, sequence=args.s)}")

    def _set(self, args: argparse.Namespace) -> None:
        stat = self._client.set(args.path, args.data.encode(), _version(args))
        if args.s:
            _print_stat(stat)

    def _get_ephemerals(self, args: argparse.Namespace) -> None:
        found: list[str] = []
        self._collect_ephemerals(args.path or "/", found)
        print(f"[{', '.join(found)}]")

    def _collect_ephemerals(self, path: str, found: list[str]) -> None:
        if self._client.get(path)[1].ephemeralOwner:
            found.append(path)
        for child in sorted(self._client.get_children(path)):
            self._collect_ephemerals(f"{path.rstrip('/')}/{child}", found)


def _parse(usage: str, arguments: list[str]) -> argparse.Namespace:
    """The arguments of a command as its usage names them: `set [-s] [-v version] path data`."""
    words = _Words(usage.split()[0], add_help=False)
    for optional, required in re.findall(r"\[(.+?)\]|(\w+)", usage.partition(" ")[2]):
        name, _, value = optional.partition(" ")
        if value:
            words.add_argument(name, type=int, metavar=value)
        elif name.startswith("-"):
            words.add_argument(name, action="store_true")
        elif name:
            words.add_argument(name, nargs="?")
        else:
            words.add_argument(required)
    return words.parse_args(arguments)


def _version(args: argparse.Namespace) -> int:
    """Of the node to change; -1 is any."""
    return -1 if args.v is None else int(args.v)


def _print_stat(stat: Any) -> None:
    print(
        f"cZxid = {stat.czxid:#x}",
        f"ctime = {_moment(stat.ctime)}",
        f"mZxid = {stat.mzxid:#x}",
        f"mtime = {_moment(stat.mtime)}",
        f"pZxid = {stat.pzxid:#x}",
        f"cversion = {stat.cversion}",
        f"dataVersion = {stat.version}",
        f"aclVersion = {stat.aversion}",
        f"ephemeralOwner = {stat.ephemeralOwner:#x}",
        f"dataLength = {stat.dataLength}",
        f"numChildren = {stat.numChildren}",
        sep="\n",
    )


def _moment(milliseconds: int) -> str:
    return time.strftime("%a %b %d %H:%M:%S %Z %Y", time.localtime(milliseconds / 1000))

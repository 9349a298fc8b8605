"""`zookeeper-shell`: looks into ZooKeeper and changes it, with the commands of ZooKeeper's own shell."""

from __future__ import annotations

import argparse
import contextlib
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
        self._commands: dict[str, Callable[[list[str]], None]] = {
            "ls": self._ls,
            "get": self._get,
            "stat": self._stat,
            "create": self._create,
            "set": self._set,
            "delete": self._delete,
            "deleteall": self._delete_all,
            "rmr": self._delete_all,
            "getEphemerals": self._ephemerals,
            "help": self._help,
        }

    def run(self, words: list[str]) -> bool:
        """Carry out one command; whether it could be."""
        from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError

        name, *arguments = words
        command = self._commands.get(name)
        path = next((word for word in arguments if word.startswith("/")), "")
        try:
            if command is None:
                self._help([])
                raise _Refused(f"Command not found: Command not found {name}")
            command(arguments)
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

    # Commands

    def _ls(self, arguments: list[str]) -> None:
        words = _Words("ls", add_help=False)
        words.add_argument("-s", action="store_true")
        words.add_argument("-R", action="store_true")
        words.add_argument("path")
        args = words.parse_args(arguments)
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

    def _get(self, arguments: list[str]) -> None:
        words = _Words("get", add_help=False)
        words.add_argument("-s", action="store_true")
        words.add_argument("path")
        args = words.parse_args(arguments)
        data, stat = self._client.get(args.path)
        print("null" if data is None else data.decode(errors="replace"))
        if args.s:
            _print_stat(stat)

    def _stat(self, arguments: list[str]) -> None:
        words = _Words("stat", add_help=False)
        words.add_argument("path")
        args = words.parse_args(arguments)
        _print_stat(self._client.get(args.path)[1])

    def _create(self, arguments: list[str]) -> None:
        words = _Words("create", add_help=False)
        words.add_argument("-s", action="store_true")
        words.add_argument("-e", action="store_true")
        words.add_argument("path")
        words.add_argument("data", nargs="?", default="")
        args = words.parse_args(arguments)
        path = self._client.create(args.path, args.data.encode(), ephemeral=args.e, sequence=args.s)
        print(f"Created {path}")

    def _set(self, arguments: list[str]) -> None:
        words = _Words("set", add_help=False)
        words.add_argument("-s", action="store_true")
        words.add_argument("-v", type=int, default=-1)
        words.add_argument("path")
        words.add_argument("data")
        args = words.parse_args(arguments)
        stat = self._client.set(args.path, args.data.encode(), args.v)
        if args.s:
            _print_stat(stat)

    def _delete(self, arguments: list[str]) -> None:
        words = _Words("delete", add_help=False)
        words.add_argument("-v", type=int, default=-1)
        words.add_argument("path")
        args = words.parse_args(arguments)
        self._client.delete(args.path, args.v)

    def _delete_all(self, arguments: list[str]) -> None:
        words = _Words("deleteall", add_help=False)
        words.add_argument("path")
        self._client.delete(words.parse_args(arguments).path, recursive=True)

    def _ephemerals(self, arguments: list[str]) -> None:
        words = _Words("getEphemerals", add_help=False)
        words.add_argument("path", nargs="?", default="/")
        found: list[str] = []
        self._collect_ephemerals(words.parse_args(arguments).path, found)
        print(f"[{', '.join(found)}]")

    def _collect_ephemerals(self, path: str, found: list[str]) -> None:
        data_and_stat = self._client.get(path)
        if data_and_stat[1].ephemeralOwner:
            found.append(path)
        for child in sorted(self._client.get_children(path)):
            self._collect_ephemerals(f"{path.rstrip('/')}/{child}", found)

    def _help(self, _: list[str]) -> None:
        print("zookeeper-shell HOST:PORT COMMAND")
        for usage in (
            "create [-s] [-e] path [data]",
            "delete [-v version] path",
            "deleteall path",
            "get [-s] path",
            "getEphemerals [path]",
            "ls [-s] [-R] path",
            "quit",
            "set [-s] [-v version] path data",
            "stat path",
        ):
            print(f"\t{usage}")


def _print_stat(stat: Any) -> None:
    print(f"cZxid = {stat.czxid:#x}")
    print(f"ctime = {_moment(stat.ctime)}")
    print(f"mZxid = {stat.mzxid:#x}")
    print(f"mtime = {_moment(stat.mtime)}")
    print(f"pZxid = {stat.pzxid:#x}")
    print(f"cversion = {stat.cversion}")
    print(f"dataVersion = {stat.version}")
    print(f"aclVersion = {stat.aversion}")
    print(f"ephemeralOwner = {stat.ephemeralOwner:#x}")
    print(f"dataLength = {stat.dataLength}")
    print(f"numChildren = {stat.numChildren}")


def _moment(milliseconds: int) -> str:
    return time.strftime("%a %b %d %H:%M:%S %Z %Y", time.localtime(milliseconds / 1000))

"""`zookeeper-shell` and `zkCli.sh`: look into ZooKeeper and change it, with the commands of ZooKeeper's own shell."""

from __future__ import annotations

import argparse
import contextlib
import re
import shlex
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.servers.zookeeper import zookeeper_client

if TYPE_CHECKING:
    from kazoo.client import KazooClient
    from kazoo.protocol.states import WatchedEvent
    from kazoo.security import ACL

# The commands of ZooKeeper's shell, in the words of ZooKeeper's own.

GREETING = "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null"

_EVENTS = {
    "CREATED": "NodeCreated",
    "DELETED": "NodeDeleted",
    "CHANGED": "NodeDataChanged",
    "CHILD": "NodeChildrenChanged",
}
# In the order in which they are printed, with their bits in the protocol.
_PERMISSIONS = {"c": 4, "d": 8, "r": 1, "w": 2, "a": 16}
_REFUSALS = {
    "BadArgumentsError": "Arguments are not valid : {path}",
    "BadVersionError": "version No is not valid : {path}",
    "InvalidACLError": "Acl is not valid : {path}",
    "NoAuthError": "Insufficient permission : {path}",
    "NoChildrenForEphemeralsError": "Ephemerals cannot have children: {path}",
    "NoNodeError": "Node does not exist: {path}",
    "NodeExistsError": "Node already exists: {path}",
    "NotEmptyError": "Node not empty: {path}",
}
# Options that were words behind the path until ZooKeeper 3.5, which still understands them.
_WORDS_OF_OLD = {
    "delete": (
        "-v",
        "'delete path [version]' has been deprecated. Please use 'delete [-v version] path' instead.",
    ),
    "get": ("-w", "'get path [watch]' has been deprecated. Please use 'get [-s] [-w] path' instead."),
    "ls": ("-w", "'ls path [watch]' has been deprecated. Please use 'ls [-w] path' instead."),
    "stat": ("-w", "'stat path [watch]' has been deprecated. Please use 'stat [-w] path' instead."),
}

_FORMER_NAMES = {"rmr": "deleteall"}
_SHOWN_HISTORY = 11


class _Refused(Exception):
    """A command that cannot be carried out, in the words of ZooKeeper's shell."""


class _Words(argparse.ArgumentParser):
    usage_line = ""

    def error(self, message: str) -> NoReturn:
        unknown = re.match(r"unrecognized arguments: (-\S+)", message)
        raise _Refused(f"Unrecognized option: {unknown[1]}" if unknown else self.usage_line)


class Shell:
    """Results go to stdout; errors and `Created …` go to stderr, as in ZooKeeper's shell.

    Owner: the main thread. Only `_on_event` is called by another one, kazoo's.
    """

    def __init__(self, client: KazooClient) -> None:
        self._client = client
        self._prints_watches = True
        self._history: list[list[str]] = []
        self._commands: dict[str, Callable[[argparse.Namespace], list[str]]] = {
            "addauth scheme [auth]": self._add_auth,
            "create [-s] [-e] path [data] [acl]": self._create,
            "delete [-v version] path": self._delete,
            "deleteall path": self._delete_all,
            "get [-s] [-w] [-b] path": self._get,
            "getAcl [-s] path": self._get_acl,
            "getAllChildrenNumber path": lambda args: [str(len(self._below(args.path)))],
            "getEphemerals [path]": self._get_ephemerals,
            "history": self._show_history,
            "ls [-s] [-w] [-R] path": self._ls,
            "printwatches [on|off]": self._print_watches,
            "redo cmdno": self._redo,
            "set [-s] [-v version] path data": self._set,
            "setAcl [-s] [-v version] [-R] path acl": self._set_acl,
            "stat [-w] path": self._stat,
            "sync path": self._sync,
        }

    def run(self, words: list[str]) -> bool:
        """Run one command. Return True if it succeeded."""
        from kazoo.exceptions import KazooException

        self._history.append(words)
        name, *arguments = words
        path = next((word for word in arguments if word.startswith("/")), "")
        try:
            lines = self._carry_out(name, arguments)
        except _Refused as error:
            lines, refused = [], str(error)
        except KazooException as error:
            kind = type(error).__name__
            general = f"KeeperErrorCode = {kind.removesuffix('Error')}" + (" for {path}" if path else "")
            lines, refused = [], _REFUSALS.get(kind, general).format(path=path)
        else:
            refused = ""
        self._let_events_pass()
        for line in lines:
            print(line)
        sys.stdout.flush()
        if refused:
            print(refused, file=sys.stderr, flush=True)
        return not refused

    def _carry_out(self, name: str, arguments: list[str]) -> list[str]:
        name = _FORMER_NAMES.get(name, name)
        for usage, command in self._commands.items():
            if usage.split()[0] == name:
                args = _parse(usage, _as_options(name, arguments))
                if getattr(args, "path", None) is not None:
                    _check_path(args.path)
                return command(args)
        usages = "".join(
            f"\n\t{usage}" for usage in sorted((*self._commands, "close", "quit"), key=str.lower)
        )
        unknown = "" if name == "help" else f"\nCommand not found: Command not found {name}"
        raise _Refused(f"ZooKeeper -server host:port cmd args{usages}{unknown}")

    def _show_history(self, _: argparse.Namespace) -> list[str]:
        shown = range(max(0, len(self._history) - _SHOWN_HISTORY), len(self._history))
        return [f"{number} - {' '.join(self._history[number])}" for number in shown]

    def _redo(self, args: argparse.Namespace) -> list[str]:
        number = int(args.cmdno) if args.cmdno.isdecimal() else -1
        if not 0 <= number < len(self._history) - 1 or self._history[number][0] == "redo":
            raise _Refused("Command index out of range")
        self._history[-1] = self._history[number]
        name, *arguments = self._history[number]
        return self._carry_out(name, arguments)

    # -- watches ---------------------------------------------------------------------------------------

    def _watch(self, args: argparse.Namespace) -> Callable[[WatchedEvent], None] | None:
        return self._on_event if args.w else None

    def _on_event(self, event: WatchedEvent) -> None:
        # An event without a type is about the connection: kazoo connects again and keeps its watches.
        if self._prints_watches and event.type in _EVENTS:
            kind = _EVENTS[event.type]
            text = f"\nWATCHER::\n\nWatchedEvent state:SyncConnected type:{kind} path:{event.path}\n"
            print(text, end="", flush=True)

    def _let_events_pass(self) -> None:
        """Events that came with the answer are printed before it: ZooKeeper sends them in this order."""
        from kazoo.protocol.states import Callback

        passed = threading.Event()
        self._client.handler.dispatch_callback(Callback("watch", passed.set, ()))
        passed.wait(1)

    def _print_watches(self, args: argparse.Namespace) -> list[str]:
        given = vars(args)["on|off"]
        if given is None:
            return [f"printwatches is {'on' if self._prints_watches else 'off'}"]
        self._prints_watches = given == "on"
        return []

    # -- nodes -----------------------------------------------------------------------------------------

    def _ls(self, args: argparse.Namespace) -> list[str]:
        if args.R:
            return [args.path, *self._below(args.path)]
        children, stat = self._client.get_children(args.path, self._watch(args), include_data=True)
        return [f"[{', '.join(sorted(children))}]", *(_stat_lines(stat) if args.s else [])]

    def _below(self, path: str) -> list[str]:
        found: list[str] = []
        for child in sorted(self._client.get_children(path)):
            node = f"{path.rstrip('/')}/{child}"
            found += [node, *self._below(node)]
        return found

    def _get(self, args: argparse.Namespace) -> list[str]:
        data, stat = self._client.get(args.path, self._watch(args))
        shown = b64encode(data or b"").decode() if args.b else (data or b"").decode(errors="replace")
        return ["null" if data is None else shown, *(_stat_lines(stat) if args.s else [])]

    def _stat(self, args: argparse.Namespace) -> list[str]:
        return _stat_lines(self._client.get(args.path, self._watch(args))[1])

    def _create(self, args: argparse.Namespace) -> list[str]:
        acls = None if args.acl is None else _parse_acls(args.acl)
        data = (args.data or "").encode()
        created = self._client.create(args.path, data, acls, ephemeral=args.e, sequence=args.s)
        print(f"Created {created}", file=sys.stderr, flush=True)
        return []

    def _delete(self, args: argparse.Namespace) -> list[str]:
        self._client.delete(args.path, _version(args))
        return []

    def _delete_all(self, args: argparse.Namespace) -> list[str]:
        from kazoo.exceptions import NoNodeError

        if self._client.exists(args.path) is None:
            raise NoNodeError
        self._client.delete(args.path, recursive=True)
        return []

    def _set(self, args: argparse.Namespace) -> list[str]:
        stat = self._client.set(args.path, args.data.encode(), _version(args))
        return _stat_lines(stat) if args.s else []

    def _get_ephemerals(self, args: argparse.Namespace) -> list[str]:
        session = self._client.client_id[0]
        stats = {node: self._client.exists(node) for node in self._below(args.path or "/")}
        mine = [node for node, stat in stats.items() if stat is not None and stat.ephemeralOwner == session]
        return [f"[{', '.join(mine)}]"]

    def _sync(self, args: argparse.Namespace) -> list[str]:
        self._client.sync(args.path)
        return ["Sync is OK"]

    # -- ACLs -----------------------------------------------------------------------------------------

    def _add_auth(self, args: argparse.Namespace) -> list[str]:
        self._client.add_auth(args.scheme, args.auth or "")
        return []

    def _get_acl(self, args: argparse.Namespace) -> list[str]:
        acls, stat = self._client.get_acls(args.path)
        lines = [
            line for acl in acls for line in (f"'{acl.id.scheme},'{acl.id.id}", f": {_letters(acl.perms)}")
        ]
        return [*lines, *(_stat_lines(stat) if args.s else [])]

    def _set_acl(self, args: argparse.Namespace) -> list[str]:
        acls = _parse_acls(args.acl)
        if args.R:
            for node in (args.path, *self._below(args.path)):
                self._client.set_acls(node, acls, _version(args))
            return []
        stat = self._client.set_acls(args.path, acls, _version(args))
        return _stat_lines(stat) if args.s else []


# -- words to arguments ----------------------------------------------------------------------------------


def _parse(usage: str, arguments: list[str]) -> argparse.Namespace:
    """The arguments of a command as its usage names them: `set [-s] [-v version] path data`."""
    words = _Words(usage.split()[0], add_help=False, allow_abbrev=False)
    words.usage_line = usage
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


def _as_options(name: str, arguments: list[str]) -> list[str]:
    """`get /path watch` as `get -w /path`."""
    if name not in _WORDS_OF_OLD or len(arguments) != 2 or arguments[0].startswith("-"):
        return arguments
    option, warning = _WORDS_OF_OLD[name]
    print(warning, file=sys.stderr, flush=True)
    path, word = arguments
    return [option, *([word] if option == "-v" else []), path]


def _check_path(path: str) -> None:
    if not path.startswith("/"):
        raise _Refused("Path must start with / character")
    if path != "/" and path.endswith("/"):
        raise _Refused("Path must not end with / character")


def _version(args: argparse.Namespace) -> int:
    return -1 if args.v is None else int(args.v)


def _parse_acls(text: str) -> list[ACL]:
    """`scheme:id:perm,…`; the id may have colons in it."""
    from kazoo.security import ACL, Id

    acls = []
    for each in text.split(","):
        scheme, _, rest = each.strip().partition(":")
        who, colon, letters = rest.rpartition(":")
        if not colon:
            raise _Refused(f"{each} does not have the form scheme:id:perm\nAcl is not valid : null")
        for letter in letters:
            if letter not in _PERMISSIONS:
                print(f"Unknown perm type: {letter}", file=sys.stderr, flush=True)
        acls.append(ACL(sum(_PERMISSIONS.get(letter, 0) for letter in set(letters)), Id(scheme, who)))
    return acls


# -- answers to words ------------------------------------------------------------------------------------


def _letters(permissions: int) -> str:
    return "".join(letter for letter, bit in _PERMISSIONS.items() if permissions & bit)


def _stat_lines(stat: Any) -> list[str]:
    return [
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
    ]


def _moment(milliseconds: int) -> str:
    return time.strftime("%a %b %d %H:%M:%S %Z %Y", time.localtime(milliseconds / 1000))


# `zookeeper-shell` and `zkCli.sh`: look into ZooKeeper and change it, with the commands of ZooKeeper's own shell.

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

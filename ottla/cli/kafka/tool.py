"""Common parts of Kafka's tools: options, errors, properties and Java's order of settings."""

from __future__ import annotations

import argparse
import functools
import os
import re
import struct
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn, TypeVar

from ottla.cli.client import DEFAULT_TIMEOUT, Client
from ottla.cli.errors import JobError, missing_package
from ottla.cli.output import discard_output, ensure_open, unwritable
from ottla.cli.properties import parse_properties, to_librdkafka
from ottla.protocol.internal_topics import string_hash

# The order in which Java's HashMap lists strings: Kafka's tools print settings in it.


def hash_map_order(names: Iterable[str], least: int = 16) -> list[str]:
    """`least` is the size that the map began with: 1 if it was made for as many as there are."""
    known = list(names)
    size = least
    while len(known) > size * 3 // 4:
        size *= 2
    spread = {name: (value ^ value >> 16) & size - 1 for name in known for value in (string_hash(name),)}
    return sorted(known, key=spread.__getitem__)  # stable: within a bucket in the order of insertion


# Shared parts of all tools: options in Kafka's style, access to the cluster, tables, errors as sentences.

T = TypeVar("T")


class UsageError(Exception):
    """Invalid command line."""


class Failed(Exception):
    """The tool has printed what failed; it ends with exit code 1."""


class _Once(argparse.Action):
    """An option with a value may be given once, as with Kafka's tools."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        given: frozenset[str] = getattr(namespace, "_given", frozenset())
        if option_string is not None:
            if option_string in given:
                name = option_string.lstrip("-")
                raise JobError(f"Found multiple arguments for option {name}, but you asked for only one")
            vars(namespace)["_given"] = given | {option_string}
        setattr(namespace, self.dest, values)


# Options that many tools have: their metavar and help, unless a tool declares its own.
_SHARED = {
    "--bootstrap-server": ("HOST:PORT[,…]", "brokers to connect to first"),
    "--bootstrap-controller": ("HOST:PORT[,…]", "controllers to connect to; in Ottla, any broker"),
    "--zookeeper": ("HOST:PORT[,…][/CHROOT]", "find the brokers in ZooKeeper, as older tools do"),
    "--command-config": ("FILE", "client properties: security.protocol, sasl.mechanism, …"),
}


def _whole_number(bits: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = int(text)
        if not -(1 << bits - 1) <= number < 1 << bits - 1:
            raise ValueError
        return number

    return parse


# The type of an option by its metavar; text if it is not here.
_TYPES: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("N", "MS", "BYTES", "MINUTES"), _whole_number(64)),
    "int": _whole_number(32),
    "FILE": Path,
    "float": float,
    "str": str,
}
_MARKS: dict[str, dict[str, Any]] = {
    "*": {"action": "append", "default": []},
    "+": {"action": "extend", "nargs": "+", "default": []},
    "?": {"nargs": "?", "const": ""},
    "!": {"required": True},
}


class Parser(argparse.ArgumentParser):
    """Options as Kafka's tools read them: with two dashes or one, without abbreviations; other words are ignored."""

    def __init__(self, name: str, description: str, options: str = "", *, without_any: str = "") -> None:
        """`options` as in `add_options`; `without_any` is the sentence of a tool that is called without any."""
        super().__init__(
            prog=name,
            description=description,
            formatter_class=argparse.RawTextHelpFormatter,
            allow_abbrev=False,
        )
        for kind in (None, "store"):
            self.register("action", kind, _Once)
        self.add_argument("--version", action="version", version=_version(), help="show the version")
        self.add_options(options)
        self._without_any = without_any
        self._commands: argparse._SubParsersAction[_Command] | None = None

    def add_options(self, text: str, group: str = "") -> None:
        """Add options, one per line: names, metavar and, after two blanks, the help, which may take more lines.

        --bootstrap-server, --broker-list
        --topic TOPIC         the topic to consume
        --timeout MS          a number, as the metavar says; see `_TYPES`
        --throughput N:float  a number of another type; N:int is one of 32 bits
        --property K=V*       may be repeated; K=V+ takes several values at once
        --state STATES?       may be given without a value
        --id N!               is required
        --verbose             a flag: it has no metavar
        """
        target = self.add_argument_group(group) if group else self
        for entry in re.split(r"\n\s*(?=-)", text.strip()) if text.strip() else ():
            head, _, help_text = re.sub(r"\n\s*", "\n", entry).partition("  ")
            _add_option(target, head.strip(), help_text.strip())

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        words = sys.argv[1:] if args is None else args
        if not words and self._without_any:
            raise UsageError(self._without_any)
        return super().parse_known_args(self._with_two_dashes(words), namespace)

    def _with_two_dashes(self, words: Sequence[str]) -> list[str]:
        """As `-topic t`, which Kafka's option parser reads as `--topic t`.

        The word after an option with a value is that value, even with a leading dash. Verbatim words, such as a command
        of zookeeper-shell, stay unchanged.
        """
        known = self._option_string_actions
        as_they_are = any(action.nargs == argparse.REMAINDER for action in self._actions)
        result: list[str] = []
        awaits_value = False
        for position, word in enumerate(words):
            if word == "--" or (as_they_are and not awaits_value and not word.startswith("-")):
                return [*result, *words[position:]]
            if awaits_value and not word.startswith("--"):
                if word.startswith("-"):
                    result[-1] += f"={word}"
                else:
                    result.append(word)
                awaits_value = False
                continue
            name, equals, value = word.partition("=")
            if name not in known and f"-{name}" in known:
                name = f"-{name}"
            result.append(f"{name}{equals}{value}")
            awaits_value = name in known and known[name].nargs is None and not equals
        return result

    def options(self, argv: list[str]) -> argparse.Namespace:
        args, rest = self.parse_known_args(argv)
        for word in rest:
            if word.startswith("-"):
                raise UsageError(self._unknown(word))
            print(f"Warning: '{word}' is no option of {self.prog} and means nothing.", file=sys.stderr)
        return args

    def _unknown(self, word: str) -> str:
        from difflib import get_close_matches

        name = word.lstrip("-").partition("=")[0]
        known = {option.lstrip("-"): option for option in self._option_string_actions}
        close = get_close_matches(name, known, n=1)
        hint = f". Did you mean {known[close[0]]}?" if close else ""
        return f"{name} is not a recognized option{hint}"

    def error(self, message: str) -> NoReturn:
        if found := re.match(r"unrecognized arguments: (-\S+)", message):
            raise UsageError(self._unknown(found[1]))
        if found := re.fullmatch(r"argument --?([^:/]+)\S*: invalid \S+ value: '(.*)'", message):
            raise JobError(f"Cannot parse argument '{found[2]}' of option {found[1]}")
        if found := re.fullmatch(r"argument --?([^:/]+)\S*: expected .*argument.*", message):
            raise UsageError(f"Option {found[1]} requires an argument")
        raise UsageError(f"{message[0].upper()}{message[1:]}. See {self.prog} --help.")

    def add_command(self, name: str, help_text: str, options: str = "") -> Parser:
        """Add a command such as `list` of kafka-transactions. `args.command` is the given command."""
        if self._commands is None:
            self._commands = self.add_subparsers(dest="command", parser_class=_Command, metavar="COMMAND")
        command = self._commands.add_parser(name, help=help_text)
        command.add_options(options)
        return command

    def command(self, argv: list[str]) -> argparse.Namespace:
        args = self.parse_args(argv)
        if args.command is None:
            raise UsageError(f"The action is missing. See {self.prog} --help.")
        return args


class _Command(Parser):
    def __init__(self, **options: Any) -> None:
        super().__init__(options["prog"], options.get("description") or "")


def _add_option(target: argparse._ActionsContainer, head: str, help_text: str) -> None:
    names = re.findall(r"(?:^|, )(-[\w.-]+)", head)
    metavar = head.rpartition(names[-1])[2].strip()
    shared = next((name for name in names if name in _SHARED), None)
    more: dict[str, Any] = {"help": argparse.SUPPRESS if help_text == "(hidden)" else help_text or None}
    if shared is not None:
        metavar, more["help"] = metavar or _SHARED[shared][0], more["help"] or _SHARED[shared][1]
        more["dest"] = shared[2:].replace("-", "_")
    if not metavar:
        target.add_argument(*names, action="store_true", **more)
        return
    while metavar[-1] in _MARKS:
        more |= _MARKS[metavar[-1]]
        metavar = metavar[:-1]
    shown, _, of_type = metavar.rpartition(":")
    if of_type in _TYPES and shown:
        metavar = shown
    target.add_argument(*names, metavar=metavar, type=_TYPES.get(of_type, str), **more)


def _version() -> str:
    """Scripts parse the first word."""
    from ottla import KAFKA_VERSION, __version__

    return f"{KAFKA_VERSION} (ottla {__version__})"


def connect(
    args: argparse.Namespace,
    *,
    client_id: str = "adminclient-1",
    timeout: float | None = None,
    extra: Mapping[str, str] | None = None,
) -> Client:
    """The cluster that the options name; `extra` are properties that win over the file."""
    servers = args.bootstrap_server
    if not servers and getattr(args, "zookeeper", None):
        from ottla.cli.kafka.servers.zookeeper import brokers_of

        servers = brokers_of(args.zookeeper, getattr(args, "zk_tls_config_file", None))
    if not servers:
        raise UsageError("--bootstrap-server must be specified")
    properties: dict[str, str] = {"client.id": client_id}
    if getattr(args, "command_config", None) is not None:
        from ottla.cli.properties import read_client_properties

        properties |= read_client_properties(args.command_config)
    seconds = timeout if timeout is not None and timeout > 0 else DEFAULT_TIMEOUT
    return Client(servers, {**properties, **(extra or {})}, seconds, ignore_unknown=True)


def controller_too(args: argparse.Namespace) -> None:
    if args.bootstrap_server and args.bootstrap_controller:
        raise UsageError("Only one of --bootstrap-server or --bootstrap-controller can be specified")
    args.bootstrap_server = args.bootstrap_server or args.bootstrap_controller
    if not args.bootstrap_server and not args.zookeeper:
        raise UsageError("Either --bootstrap-server or --bootstrap-controller must be specified.")


def only_one(args: argparse.Namespace, names: Sequence[str], otherwise: str) -> str:
    chosen = [name for name in names if getattr(args, name.replace("-", "_"))]
    if len(chosen) != 1:
        raise UsageError(otherwise)
    return chosen[0]


def together(one: str, other: str) -> UsageError:
    return UsageError(f'Option "[{one}]" can\'t be used with option "[{other}]"'.replace("_", "-"))


def missing(option: str) -> UsageError:
    return UsageError(f'Missing required argument "[{option}]"')


def required(args: argparse.Namespace, *options: str) -> None:
    for option in options:
        if getattr(args, option.replace("-", "_")) in (None, "", False, []):
            raise missing(option)


def repeated(values: Sequence[T]) -> list[T]:
    return [value for value in dict.fromkeys(values) if values.count(value) > 1]


def key_values(pairs: Sequence[str]) -> dict[str, str]:
    """`k=v` of repeated options; the value is optional."""
    parsed: dict[str, str] = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        if key.strip():
            parsed[key.strip()] = value
    return parsed


def _repeated(args: argparse.Namespace, option: str) -> bool:
    value = getattr(args, option[2:].replace("-", "_"), None)
    return isinstance(value, list) and bool(value)


_OF_OLD = ("--zookeeper", "--broker-list")
# Warning of most tools about an option with a newer name.
DEPRECATED = "Option {old} has been deprecated and will be removed in a future version. Use {new} instead."
# And of both names together.
TOGETHER = 'Option "[{old}]" can\'t be used with option "[{new}]"'


def renamed(args: argparse.Namespace, *pairs: tuple[str, str], said: str, both: str = TOGETHER) -> None:
    """Options with a newer name: both together are refused, the older one alone prints the warning `said`.

    A command line of old (--zookeeper, --broker-list) prints no warning: these are newer than its documents.
    """
    given: frozenset[str] = getattr(args, "_given", frozenset())
    for old, new in pairs:
        here = [name in given or _repeated(args, name) for name in (old, new)]
        if all(here):
            raise UsageError(both.format(old=old, new=new).replace("[--", "["))
        if here[0] and given.isdisjoint(_OF_OLD):
            # Kafka's tools print it on stdout, where it would spoil what older scripts read.
            print(said.format(old=old, new=new), file=sys.stderr)


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise JobError(f"{path} cannot be read: {reason}.") from None


def entry_point(
    *, prefix: str = "", to_stdout: bool = False
) -> Callable[[Callable[[list[str]], int | None]], Callable[[], NoReturn]]:
    """Make a command of a function that takes the command line and may return an exit code.

    Failures begin with `prefix`, in which {args} is the command line, and go where Kafka's tool sends them.
    """

    def decorate(run: Callable[[list[str]], int | None]) -> Callable[[], NoReturn]:
        @functools.wraps(run)
        def command() -> NoReturn:
            said = prefix.replace("{args}", " ".join(sys.argv[1:]))
            sys.exit(_run(run, said, to_stdout))

        return command

    return decorate


def _run(run: Callable[[list[str]], int | None], prefix: str, to_stdout: bool) -> int:
    ensure_open()
    try:
        return _outcome(run, prefix, to_stdout)
    except BrokenPipeError:
        discard_output()  # its reader is gone
        return 141
    except OSError as error:
        sentence = unwritable(error)
        if sentence is None:
            raise
        print(sentence, file=sys.stderr)
        discard_output()
        return 1


def _outcome(run: Callable[[list[str]], int | None], prefix: str, to_stdout: bool) -> int:
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
        return code or 0
    except Failed:
        return 1
    except UsageError as error:
        return _say(str(error), sys.stderr)
    except JobError as error:
        said = error.broker_message or error.message
        return _say(prefix + said, sys.stdout if to_stdout else sys.stderr)
    except struct.error:
        said = "A number is too large: those of partitions and brokers have 32 bits, offsets 64."
        return _say(prefix + said, sys.stdout if to_stdout else sys.stderr)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        of_the_output = isinstance(error, OSError) and unwritable(error) is not None
        if isinstance(error, BrokenPipeError) or of_the_output or os.environ.get("OTTLA_DEBUG"):
            raise
        if isinstance(error, ModuleNotFoundError) and (sentence := missing_package(error)) is not None:
            return _say(sentence, sys.stderr)
        where = "OTTLA_DEBUG=1 shows where it happened."
        return _say(f"This is a bug in ottla: {type(error).__name__}: {error}. {where}", sys.stderr, 70)


def _say(message: str, stream: IO[str], code: int = 1) -> int:
    sys.stdout.flush()
    print(message, file=stream, flush=True)
    return code


def print_table(
    columns: str, rows: Iterable[Sequence[object]], *, without: Collection[str] = (), end: str = ""
) -> None:
    """Print rows under headings; None is `-`, and columns in `without` are omitted.

    `columns` is `HEADING WIDTH, …`. With 15 the cells are padded to 15 characters, with 15+ to the longest of them;
    without a width they are not padded.
    """
    found = [re.fullmatch(r"(.+?)(?: (\d+)(\+?))?", column) for column in columns.split(", ")]
    matches = [match for match in found if match is not None]
    cells = [
        [match[1] for match in matches],
        *(["-" if each is None else str(each) for each in row] for row in rows),
    ]
    shown = [position for position, match in enumerate(matches) if match[1] not in without]
    widths = {position: int(matches[position][2] or 0) for position in shown}
    for position in shown:
        if matches[position][3]:
            widths[position] = max(widths[position], *(len(row[position]) for row in cells))
    for row in cells:
        print(" ".join(row[position].ljust(widths[position]) for position in shown) + end)


def log_line(level: str, text: str) -> str:
    """Format a line like Kafka's logs."""
    now = time.time()
    return f"[{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now))},{int(now % 1 * 1000):03d}] {level} {text}"


# Properties of a producer or consumer out of a file and out of repeated options.

_CONNECTION = ("security.", "sasl.", "ssl.")


def read_file(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise JobError(f"Cannot read the properties in {path}: {reason}.") from None


def open_client(
    args: argparse.Namespace, pairs: Iterable[str], client_id: str
) -> tuple[Client, dict[str, str]]:
    """The cluster, and the properties of the producer or consumer beside those of its connections.

    They come from --command-config and from `pairs`, which win; either may name the brokers as well.
    """
    properties = to_librdkafka({**read_file(args.command_config), **key_values(list(pairs))})
    named = properties.pop("bootstrap.servers", None)
    args.bootstrap_server = args.bootstrap_server or named
    args.command_config = None  # read here
    connection = {key: value for key, value in properties.items() if key.startswith(_CONNECTION)}
    client = connect(args, client_id=properties.pop("client.id", client_id), extra=connection)
    client.cluster.check_advertised()  # fail early and clearly
    return client, properties

"""`ottla produce`"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.commands.completion import complete_topics
from ottla.cli.errors import JobError
from ottla.cli.options import (
    client_options,
    count_option,
    json_option,
    raw_property_option,
    schema_registry_options,
    seconds_option,
)

if TYPE_CHECKING:
    from ottla.cli.jobs.messages import OutgoingMessage
    from ottla.cli.jobs.produce import LineFormat, ProduceSummary, Production

FORMATS = ("avro", "json-schema", "protobuf")


@click.command(short_help="Send messages to a topic.")
@click.argument("topic", metavar="TOPIC", shell_complete=complete_topics)
@click.option("--message", "-m", "messages", multiple=True, help="Message to send. May be repeated.")
@click.option(
    "--file",
    "-f",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Read lines from a file instead of standard input.",
)
@click.option("--key", "-k", help="Key of every message.")
@click.option(
    "--key-separator", "-K", metavar="TEXT", help="Split each line into key and value at this separator."
)
@click.option("--null-marker", metavar="TEXT", help="Send null for a key or value with this text.")
@click.option(
    "--header",
    "-H",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="Header of every message. May be repeated.",
)
@click.option("--json-lines", is_flag=True, help="Read lines of JSON as printed by `ottla consume --json`.")
@count_option("--partition", "-p", at_least=0, help="Send to this partition only.")
@click.option(
    "--compression",
    "-z",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
)
@click.option("--acks", type=click.Choice(["all", "1", "0", "-1"]), default="all", show_default=True)
@click.option(
    "--idempotent/--not-idempotent",
    default=None,
    help=(
        "Store each message exactly once, even if a connection breaks. Takes half a second to "
        "set up. [default: with --file and --acks all]"
    ),
)
@click.option(
    "--encrypt-with",
    metavar="KEYS",
    help="Encrypt the values: file:keys.json (see `ottla keys`), or vault:https://host:8200#name.",
)
@click.option(
    "--encrypt-field",
    "encrypt_fields",
    multiple=True,
    metavar="NAME",
    help="Encrypt only this field of JSON values, such as card or address.street. May be repeated.",
)
@click.option("--value-format", type=click.Choice(FORMATS), help="Convert JSON values to this format.")
@click.option(
    "--value-schema",
    metavar="SCHEMA",
    help=(
        "Schema of the values to register: a file, or the schema itself. [default: the latest of TOPIC-value]"
    ),
)
@count_option("--value-schema-id", help="Id of a registered schema for the values.")
@click.option("--key-format", type=click.Choice(FORMATS), help="Convert JSON keys to this format.")
@click.option("--key-schema", metavar="SCHEMA", help="Schema of the keys, like --value-schema.")
@count_option("--key-schema-id", help="Id of a registered schema for the keys.")
@seconds_option("--delivery-timeout", default=30.0, help="Time to try delivering a message.")
@click.option("--quiet", "-q", is_flag=True, help="Print no summary and no progress bar.")
@raw_property_option
@json_option("Print the summary as JSON.")
@schema_registry_options
@client_options
def produce(
    client: Client,
    topic: str,
    messages: tuple[str, ...],
    file: Path | None,
    key: str | None,
    key_separator: str | None,
    null_marker: str | None,
    headers: tuple[str, ...],
    json_lines: bool,
    partition: int | None,
    compression: str,
    acks: str,
    idempotent: bool | None,
    encrypt_with: str | None,
    encrypt_fields: tuple[str, ...],
    value_format: str | None,
    value_schema: str | None,
    value_schema_id: int | None,
    key_format: str | None,
    key_schema: str | None,
    key_schema_id: int | None,
    delivery_timeout: float,
    quiet: bool,
    raw_properties: dict[str, str],
    as_json: bool,
    schema_registry: dict[str, str],
) -> int:
    """Send messages to a topic: one per line of standard input or a file, or with -m.

    Ctrl-D ends the input. The exit code is not 0 if any message could not be delivered.

    \b
    Examples:
      echo hello | ottla produce orders
      ottla produce orders -m one -m two --key customer-7
      ottla produce orders --file orders.csv --key-separator , --compression zstd
      ottla consume orders --json --until-end --from-beginning | ottla produce copy --json-lines
      echo '{"key": "a", "value": {"n": 1}, "headers": {"h": "x"}}' | ottla produce orders --json-lines
      echo secret | ottla produce orders --encrypt-with file:keys.json
      echo '{"id": 1}' | ottla produce orders --value-format avro --value-schema order.avsc
    """
    from ottla.cli.jobs.produce import LineFormat, ProduceOptions, Production

    if messages and file is not None:
        raise click.UsageError("Choose one of --message and --file.")
    if key is not None and key_separator is not None:
        raise click.UsageError("Choose one of --key and --key-separator.")
    if key_separator is not None and json_lines:
        raise click.UsageError("With --json-lines the key is in the JSON: leave --key-separator out.")
    line_format = LineFormat(
        None if key is None else _bytes(key),
        None if key_separator is None else _bytes(_unescape(key_separator)),
        None if null_marker is None else _bytes(null_marker),
        tuple(_header(text) for text in headers),
        partition,
        json_lines,
    )
    all_acks = acks in ("all", "-1")
    if idempotent and not all_acks:
        raise click.UsageError("--idempotent needs --acks all.")
    if idempotent is not None:
        # Asked for: properties that exclude it are refused instead of turning it off.
        raw_properties = {"enable.idempotence": str(idempotent).lower(), **raw_properties}
    options = ProduceOptions(
        acks,
        compression,
        all_acks and file is not None,
        delivery_timeout,
        raw_properties,
        _encryption(encrypt_with, encrypt_fields),
        round_robin=not messages and file is None and sys.stdin.isatty(),
    )
    encode = _encoding(
        topic,
        schema_registry,
        key=(key_format, key_schema, key_schema_id),
        value=(value_format, value_schema, value_schema_id),
    )
    with contextlib.ExitStack() as stack:
        lines = _lines(messages, file, quiet, stack)
        production = Production(client, topic, options, lambda reason: output.warn(reason.message))
        interrupted, failure = _send_all(production, lines, line_format, encode)
        summary = production.finish()
    if as_json:
        output.print_json(summary)
    elif not quiet:
        _print_summary(summary)
    if summary.failed:
        raise JobError(
            f"{summary.failed} of {summary.failed + summary.messages} messages were not delivered: "
            f"{summary.first_error}"
        )
    if failure is not None:
        raise failure
    return 130 if interrupted else 0


def _encoding(
    topic: str, registry: dict[str, str], **parts: tuple[str | None, str | None, int | None]
) -> Callable[[OutgoingMessage], OutgoingMessage] | None:
    for part, (form, schema, number) in parts.items():
        if schema is not None and number is not None:
            raise click.UsageError(f"Choose one of --{part}-schema and --{part}-schema-id.")
        if form is None and (schema is not None or number is not None):
            raise click.UsageError(
                f"--{part}-schema needs --{part}-format. Pass avro, json-schema or protobuf."
            )
    if all(form is None for form, _, _ in parts.values()):
        return None
    from ottla.cli.jobs.messages import Encoding, open_registry

    encoding = Encoding(open_registry(registry), topic)
    for part, (form, schema, number) in parts.items():
        if form is not None:
            encoding.use(part, form, schema, number)
    return encoding.message


def _encryption(
    keys: str | None, fields: tuple[str, ...]
) -> Callable[[str, OutgoingMessage], OutgoingMessage] | None:
    if keys is None:
        if fields:
            raise click.UsageError("--encrypt-field needs --encrypt-with with the location of the keys.")
        return None
    from ottla.cli.jobs.messages import encrypting

    return encrypting(keys, fields)


def _send_all(
    production: Production,
    lines: Iterator[bytes],
    line_format: LineFormat,
    encode: Callable[[OutgoingMessage], OutgoingMessage] | None,
) -> tuple[bool, JobError | None]:
    from ottla.cli.jobs.produce import read_messages

    try:
        for message in read_messages(lines, line_format):
            production.send(message if encode is None else encode(message))
    except KeyboardInterrupt:
        return True, None
    except JobError as failure:
        return False, failure
    return False, None


def _lines(
    messages: tuple[str, ...], file: Path | None, quiet: bool, stack: contextlib.ExitStack
) -> Iterator[bytes]:
    if messages:
        # Taken whole: a message given as an argument may contain line ends.
        return iter([_bytes(message) + b"\n" for message in messages])
    if file is None or str(file) == "-":
        if sys.stdin.isatty() and not quiet:
            output.note("Type one message per line. Ctrl-D ends.")
        return iter(sys.stdin.buffer)
    try:
        opened = stack.enter_context(file.open("rb"))
    except OSError as error:
        raise JobError(f"Cannot read {file}: {error.strerror}.") from None
    if sys.stderr.isatty() and not quiet:
        return _with_progress(opened, file, stack)
    return iter(opened)


def _with_progress(opened: IO[bytes], file: Path, stack: contextlib.ExitStack) -> Iterator[bytes]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.progress import TransferSpeedColumn as SpeedColumn

    progress = stack.enter_context(
        Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            SpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
    )
    task = progress.add_task(file.name, total=file.stat().st_size)

    def lines() -> Iterator[bytes]:
        read = 0
        for line in opened:
            yield line
            read += len(line)
            if read > 65536:
                progress.advance(task, read)
                read = 0
        progress.advance(task, read)

    return lines()


def _print_summary(summary: ProduceSummary) -> None:
    size = output.human_bytes(summary.bytes)
    plural = "" if summary.messages == 1 else "s"
    output.note(f"{summary.messages:,} message{plural}, {size} in {summary.seconds:.2f} s")


def _header(text: str) -> tuple[str, bytes]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise click.UsageError(f"'{text}' is not a header: write NAME=VALUE.")
    return name, _bytes(value)


def _bytes(text: str) -> bytes:
    # Arguments that are not UTF-8 arrive with their bytes escaped.
    return text.encode("utf-8", "surrogateescape")


def _unescape(text: str) -> str:
    return text.replace("\\t", "\t").replace("\\0", "\0")

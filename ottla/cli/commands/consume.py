"""`ottla consume`"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.commands.completion import complete_groups, complete_topics
from ottla.cli.errors import AdvertisedUnreachable, BrokerUnreachable, JobError
from ottla.cli.options import (
    MOST_OFFSETS,
    client_options,
    count_option,
    json_option,
    raw_property_option,
    schema_registry_options,
)
from ottla.cli.signals import stop_requested

if TYPE_CHECKING:
    from ottla.cli.jobs.consume import Start
    from ottla.cli.jobs.messages import ConsumedMessage

Renderer = Callable[["ConsumedMessage"], bytes]

FORMATS = ("auto", "raw", "avro", "json-schema", "protobuf")


@click.command(short_help="Read messages from topics.")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics)
@click.option("--from-beginning", "-B", is_flag=True, help="Start with the oldest message.")
@click.option(
    "--group", "-g", shell_complete=complete_groups, help="Read as a member of this group and commit offsets."
)
@count_option(
    "--partition",
    "-p",
    "partitions",
    at_least=0,
    multiple=True,
    help="Read only this partition. May be repeated.",
)
@click.option(
    "--offset",
    "-o",
    metavar="OFFSET",
    help="Start at this offset: earliest, latest, N, or -N for the last N messages.",
)
@click.option(
    "--from-timestamp",
    metavar="TIME",
    help="Start with the first message at or after this time, such as 2026-01-31T14:00:00.",
)
@click.option("--since", metavar="DURATION", help="Start with the messages of the last 10m, 2h, 1d, …")
@count_option("--max-messages", "-n", at_most=MOST_OFFSETS, help="Stop after N messages.")
@click.option("--until-end", "-e", is_flag=True, help="Stop at the end of the topic.")
@click.option("--follow", "-f", is_flag=True, help="Wait for more messages (the default).")
@click.option(
    "--format",
    "template",
    metavar="TEMPLATE",
    help=(
        "Output format, as in kcat: %k key, %v value, %o offset, %p partition, %t topic, %T "
        "timestamp, %d date, %h headers, %K and %S sizes, \\n, \\t."
    ),
)
@click.option("--details", "-d", is_flag=True, help="Print partition, offset, time, key and headers as well.")
@click.option("--print-key", is_flag=True, help="Print the key before the value.")
@click.option(
    "--key-separator", "-K", default="\t", metavar="TEXT", help="Text between key and value. [default: tab]"
)
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_committed",
    show_default=True,
)
@click.option(
    "--decrypt-with",
    metavar="KEYS",
    help="Decrypt the values: file:keys.json (see `ottla keys`), or vault:https://host:8200#name.",
)
@click.option(
    "--decrypt-as",
    metavar="TOPIC",
    help="Topic for which the values were encrypted, if they were copied (dead letters, for example).",
)
@click.option("--allow-plain", is_flag=True, help="With --decrypt-with: accept unencrypted values as well.")
@click.option(
    "--value-format",
    type=click.Choice(FORMATS),
    help=(
        "Format of the values. auto prints values with a schema id as JSON, if a registry knows "
        "the schema. [default: auto; with --json raw, which keeps every byte]"
    ),
)
@click.option("--key-format", type=click.Choice(FORMATS), help="Format of the keys.")
@click.option("--quiet", "-q", is_flag=True, help="Print no summary.")
@raw_property_option
@json_option("Print each message as a line of JSON.")
@schema_registry_options
@client_options
def consume(
    client: Client,
    topics: tuple[str, ...],
    from_beginning: bool,
    group: str | None,
    partitions: tuple[int, ...],
    offset: str | None,
    from_timestamp: str | None,
    since: str | None,
    max_messages: int | None,
    until_end: bool,
    follow: bool,
    template: str | None,
    details: bool,
    print_key: bool,
    key_separator: str,
    isolation: str,
    decrypt_with: str | None,
    decrypt_as: str | None,
    allow_plain: bool,
    value_format: str | None,
    key_format: str | None,
    quiet: bool,
    raw_properties: dict[str, str],
    as_json: bool,
    schema_registry: dict[str, str],
) -> None:
    """Read messages and print their values, one per line, until Ctrl-C.

    Without --group, reads every partition and commits no offsets.

    \b
    Examples:
      ottla consume orders --from-beginning
      ottla consume orders --since 10m --details
      ottla consume orders --offset -5 --until-end --json
      ottla consume orders --group billing
      ottla consume orders --from-beginning --decrypt-with file:keys.json
      ottla consume orders --value-format avro --schema-registry http://localhost:8081
      ottla consume orders --partition 0 --offset 100 -n 10 --format '%p:%o %k = %v\\n'
    """
    from ottla.cli.jobs.consume import ConsumeOptions, Consumption

    if until_end and follow:
        raise click.UsageError("Choose one of --until-end and --follow.")
    if sum((as_json, template is not None, details, print_key)) > 1:
        raise click.UsageError("Choose one of --json, --format, --details and --print-key.")
    if partitions and len(topics) > 1:
        raise click.UsageError("--partition goes with a single topic.")
    if group is not None and (partitions or offset or from_timestamp or since):
        raise click.UsageError(
            "A group begins where it left off and its partitions are assigned to it: with --group only "
            "--from-beginning applies. `ottla groups reset-offsets` moves a group."
        )
    start = _start(from_beginning, offset, from_timestamp, since)
    render = _renderer(as_json, template, details, print_key, key_separator)
    decrypt = _decryption(decrypt_with, decrypt_as, allow_plain)
    options = ConsumeOptions(
        start, partitions, group, max_messages, until_end, isolation, raw_properties, decrypt
    )
    decode = _decoding(schema_registry, key_format, value_format, as_json)
    consumption = Consumption(client, topics, options, _warn)
    connection = _ConnectionWatch()
    total = 0
    try:
        with stop_requested() as stopping:
            for batch in consumption.batches():
                shown = batch if decode is None else map(decode, batch)
                sys.stdout.buffer.write(b"".join(map(render, shown)))
                sys.stdout.buffer.flush()
                total += len(batch)
                if not batch:
                    _check_reader()
                connection.report(consumption.connected)
                if stopping.is_set():
                    consumption.stop()
    finally:
        # Commit the printed messages, even if the reader of our output has left.
        consumption.close()
    if not quiet:
        output.note(f"Processed a total of {total} messages")


def _decoding(
    registry: dict[str, str], key_format: str | None, value_format: str | None, as_json: bool
) -> Callable[[ConsumedMessage], ConsumedMessage] | None:
    from ottla.cli.jobs.messages import AUTO, RAW, Decoding, open_registry

    default = RAW if as_json else AUTO
    key_format, value_format = key_format or default, value_format or default
    if {key_format, value_format} <= {AUTO, RAW}:
        # Optional: skip a registry that does not answer at once.
        registry = {**registry, "schema.registry.request.timeout.ms": "3000"}
    decoding = Decoding(open_registry(registry), key_format, value_format)
    return decoding.message if decoding.is_needed else None


def _decryption(
    keys: str | None, topic: str | None, allow_plain: bool
) -> Callable[[ConsumedMessage], ConsumedMessage] | None:
    if keys is None:
        if topic is not None or allow_plain:
            needs = "--allow-plain" if topic is None else "--decrypt-as"
            raise click.UsageError(f"{needs} needs --decrypt-with with the location of the keys.")
        return None
    from ottla.cli.jobs.messages import decrypting

    return decrypting(keys, topic, allow_plain=allow_plain)


def _warn(reason: JobError) -> None:
    """Print the reason once. `_ConnectionWatch` reports brokers that do not answer."""
    if not isinstance(reason, BrokerUnreachable) or isinstance(reason, AdvertisedUnreachable):
        output.warn(reason.message)


def _check_reader() -> None:
    """Without messages nothing is written, so only this check notices that `| head` has ended."""
    import select

    try:
        poller = select.poll()
        poller.register(sys.stdout.fileno(), 0)
        if any(event & select.POLLERR for _, event in poller.poll(0)):
            raise BrokenPipeError
    except (io.UnsupportedOperation, AttributeError):
        return  # stdout is not a file, or this system cannot tell


class _ConnectionWatch:
    """Reports a lost and a restored connection. librdkafka reconnects by itself."""

    def __init__(self) -> None:
        self._is_lost = False

    def report(self, connected: bool) -> None:
        if not connected and not self._is_lost:
            output.warn("the connection to the broker is lost; trying again until it is back.")
        elif connected and self._is_lost:
            output.note("The broker is back.")
        self._is_lost = not connected


def _start(from_beginning: bool, offset: str | None, from_timestamp: str | None, since: str | None) -> Start:
    import time

    from ottla.cli.jobs.consume import Start
    from ottla.cli.values import parse_duration_ms, parse_timestamp_ms

    if sum((from_beginning, offset is not None, from_timestamp is not None, since is not None)) > 1:
        raise click.UsageError("Choose one of --from-beginning, --offset, --from-timestamp and --since.")
    try:
        if from_timestamp is not None:
            return Start("timestamp", parse_timestamp_ms(from_timestamp))
        if since is not None:
            return Start("timestamp", round(time.time() * 1000) - parse_duration_ms(since))
    except ValueError as error:
        raise click.UsageError(f"{error}.") from None
    if from_beginning or offset in ("earliest", "beginning"):
        return Start("earliest")
    if offset is None or offset in ("latest", "end"):
        return Start("latest")
    try:
        number = int(offset)
    except ValueError:
        raise click.UsageError(f"'{offset}' is not an offset: write earliest, latest, N or -N.") from None
    return Start("tail", -number) if offset.startswith("-") else Start("offset", number)


def _renderer(
    as_json: bool, template: str | None, details: bool, print_key: bool, key_separator: str
) -> Renderer:
    from ottla.cli.jobs import messages

    if as_json:
        return lambda message: messages.message_to_json(message) + b"\n"
    if template is not None:
        rendered = messages.compile_template(template)
        # kcat's habit is to write \n; forgetting it should not glue messages together.
        end = b"" if template.endswith(("\\n", "\n", "\\0")) else b"\n"
        return lambda message: rendered(message) + end
    if details:
        return _details
    if print_key:
        separator = key_separator.replace("\\t", "\t").encode("utf-8", "surrogateescape")
        return lambda message: _shown(message.key) + separator + _shown(message.value) + b"\n"
    return lambda message: _shown(message.value) + b"\n"


def _shown(data: bytes | None) -> bytes:
    return b"null" if data is None else data


def _details(message: ConsumedMessage) -> bytes:
    from ottla.cli.jobs.messages import headers_to_text
    from ottla.cli.values import format_timestamp

    time = "-" if message.timestamp is None else format_timestamp(message.timestamp)
    place = f"{message.topic}-{message.partition}@{message.offset}"
    head = f"{time}  {place}"
    parts = [head.encode()]
    if message.key is not None:
        parts.append(b"key=" + message.key)
    if message.headers:
        parts.append(b"headers=" + headers_to_text(message.headers))
    line = b"  ".join(parts)
    if output.colour_wanted():
        line = b"\x1b[2m" + line + b"\x1b[0m"
    return line + b"  " + _shown(message.value) + b"\n"

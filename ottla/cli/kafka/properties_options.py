"""Properties of a producer or consumer out of a file and out of repeated options."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.properties import parse_properties, to_librdkafka

if TYPE_CHECKING:
    from ottla.cli.client import Client

_REACHING = ("security.", "sasl.", "ssl.")


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
    """The cluster, and the properties of the producer or consumer beside those that are for reaching it.

    They come from --command-config and from `pairs`, which win; either may name the brokers as well.
    """
    properties = to_librdkafka({**read_file(args.command_config), **tool.key_values(list(pairs))})
    named = properties.pop("bootstrap.servers", None)
    args.bootstrap_server = args.bootstrap_server or named
    args.command_config = None  # read here
    reaching = {key: value for key, value in properties.items() if key.startswith(_REACHING)}
    client = tool.connect(args, client_id=properties.pop("client.id", client_id), extra=reaching)
    client.cluster.any_connection()  # fail early and clearly
    return client, properties


def add_printing(parser: tool.Parser) -> None:
    """Options of what prints messages: when to end, and how messages look."""
    parser.add_argument(
        "--max-messages", type=int, default=-1, metavar="N", help="end after so many messages"
    )
    parser.add_argument(
        "--timeout-ms", type=int, default=-1, metavar="MS", help="end when none came for so long"
    )
    parser.add_many("--property", metavar="K=V", help="older word for --formatter-property")
    parser.add_many("--formatter-property", metavar="K=V", help=(
        "how messages are printed: print.timestamp, print.key, print.offset,\n"
        "print.delivery, print.epoch, print.partition, print.headers, print.value,\nkey.separator, "
        "line.separator, headers.separator, null.literal,\n"
        "key.deserializer, value.deserializer, headers.deserializer"))  # fmt: skip
    parser.add_argument("--formatter-config", type=Path, metavar="FILE", help="a file with them")
    parser.add_argument(
        "--formatter", default="DefaultMessageFormatter", metavar="CLASS", help="Kafka's name of it"
    )
    parser.add_argument("--key-deserializer", metavar="CLASS")
    parser.add_argument("--value-deserializer", metavar="CLASS")
    parser.add_many("--consumer-property", metavar="K=V", help="older word for --command-property")
    parser.add_many("--command-property", metavar="K=V", help="a property of the consumer")

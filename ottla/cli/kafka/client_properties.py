"""Properties of a producer or consumer out of a file and out of repeated options."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from ottla.cli.client import Client
from ottla.cli.errors import JobError
from ottla.cli.kafka.tool import connect, key_values
from ottla.cli.properties import parse_properties, to_librdkafka

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

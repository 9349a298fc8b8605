"""Properties of a producer or consumer out of a file and out of repeated options."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.properties import parse_properties, to_librdkafka


def read_file(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise JobError(f"Cannot read the properties in {path}: {reason}.") from None


def client_properties(file: Path | None, pairs: Iterable[str]) -> dict[str, str]:
    """For the client library; what the options say wins over the file."""
    return to_librdkafka({**read_file(file), **tool.key_values(list(pairs))})


def servers(args: argparse.Namespace, properties: dict[str, str]) -> None:
    """A file or property may name the brokers as well."""
    named = properties.pop("bootstrap.servers", None)
    if not args.bootstrap_server and not getattr(args, "broker_list", None):
        args.bootstrap_server = named

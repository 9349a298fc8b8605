"""The features of Kafka's releases, as `kafka-features` and `kafka-storage` show them without a broker."""

from __future__ import annotations

import argparse

from ottla.cli.errors import JobError
from ottla.cli.jobs import features
from ottla.cli.jobs.features import METADATA_VERSION, level_name
from ottla.cli.kafka.tool import Parser


def add_commands(parser: Parser) -> None:
    parser.add_command(
        "version-mapping",
        "show the features of a Kafka release",
        "--release-version, -r RELEASE  such as 4.3 or 4.3-IV0",
    )
    parser.add_command(
        "feature-dependencies", "show the dependencies of a feature", "--feature, -f FEATURE=LEVEL*!"
    )


def run(args: argparse.Namespace) -> int:
    if args.command == "version-mapping":
        release = args.release_version or features.LATEST
        for name, level in features.levels_of_release(release).items():
            print(f"{name}={level} ({release})" if name == features.METADATA_VERSION else f"{name}={level}")
        return 0
    for asked in args.feature:
        name, level = parse_level(asked)
        needed = features.dependencies(name, level)
        print(f"{_named(name, level)} requires:" if needed else f"{_named(name, level)} has no dependencies.")
        for other, least in needed.items():
            print(f"    {_named(other, least)}")
    return 0


def _named(feature: str, level: int) -> str:
    more = f" ({level_name(feature, level)})" if feature == METADATA_VERSION else ""
    return f"{feature}={level}{more}"


def parse_level(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    if not equals:
        raise JobError(f"Can't parse feature=level string {text}: equals sign not found.")
    try:
        return name.strip(), int(level)
    except ValueError:
        raise JobError(
            f"Can't parse feature=level string {text}: unable to parse {level.strip()} as a short."
        ) from None

"""`kafka-get-offsets`"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable

from ottla.cli.client import Client
from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.client.admin.offsets import Partition, offsets_by_time
from ottla.client.admin.topics import list_topics

_TIMES = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}

_ELECTION_SECONDS = 2.0

Filter = Callable[[str, int], bool]


@tool.entry_point(prefix="Error occurred: ")
def main(argv: list[str]) -> None:
    parser = tool.Parser(
        "kafka-get-offsets", "Show the offsets of partitions at a point in time.", f"""
        --bootstrap-server, --broker-list
        --command-config
        --topic TOPIC              show only topics that match this regular expression
        --partitions 0,1           only these partitions
        --topic-partitions T1:0,T2:1-3,:-5  show only these partitions; in 1-3, 3 is excluded
        --time TIME                milliseconds since 1970 or one of {', '.join(_TIMES)}, -1 … -6
        --exclude-internal-topics  omit internal topics
        """,
        without_any="An interactive shell for getting topic-partition offsets.",
    )  # fmt: skip
    parser.set_defaults(time="latest")
    args = parser.options(argv)
    if args.topic_partitions and (args.topic or args.partitions):
        raise tool.UsageError("--topic-partitions cannot be used with --topic or --partitions")
    try:
        moment = _TIMES[args.time] if args.time in _TIMES else int(args.time)
    except ValueError:
        raise JobError(
            f"Malformed time argument {args.time}. Please use -1 or latest / -2 or earliest / -3 or max-timestamp"
            " / -4 or earliest-local / -5 or latest-tiered / -6 or earliest-pending-upload, or a specified long"
            " format timestamp"
        ) from None
    wanted = _pairs(args.topic_partitions) if args.topic_partitions else _filter(args.topic, args.partitions)
    client = tool.connect(args)
    _show(client, wanted, moment, with_internal=not args.exclude_internal_topics)


def _show(client: Client, wanted: Filter, moment: int, *, with_internal: bool) -> None:
    partitions = [
        (topic.name, number)
        for topic in list_topics(client.cluster, include_internal=with_internal)
        for number in range(topic.partitions)
        if wanted(topic.name, number)
    ]
    if not partitions:
        raise JobError("Could not match any topic-partitions with the specified filters")
    led = _led(client, partitions)
    for topic, number in partitions:
        if (topic, number) not in led:
            reason = f"Partition {topic}-{number} has no leader."
            print(
                f"Skip getting offsets for topic-partition {topic}-{number} due to error: {reason}",
                file=sys.stderr,
            )
    found = offsets_by_time(client.cluster, led, moment)
    for topic, number in led:
        if found[topic, number] >= 0:  # an empty partition has no offset at a moment
            print(f"{topic}:{number}:{found[topic, number]}")


def _led(client: Client, partitions: list[Partition]) -> list[Partition]:
    deadline = time.monotonic() + _ELECTION_SECONDS
    while True:
        topics = client.cluster.topics(sorted({topic for topic, _ in partitions}))
        led = [
            (topic, number)
            for topic, number in partitions
            if topic in topics and topics[topic].leaders.get(number, -1) >= 0
        ]
        if len(led) == len(partitions) or time.monotonic() > deadline:
            return led
        time.sleep(client.cluster.settings.retry_backoff)


def _filter(pattern: str | None, partitions: str | None) -> Filter:
    try:
        chosen = None if not partitions else {int(part) for part in partitions.split(",") if part}
        expression = None if not pattern else re.compile(pattern.replace(",", "|"))
    except ValueError:
        raise JobError(
            f"--partitions expects a comma separated list of numeric partition ids, but received: {partitions}"
        ) from None
    except re.error:
        raise JobError(f"{pattern} is an invalid regex.") from None
    return lambda topic, number: (
        (expression is None or expression.fullmatch(topic) is not None)
        and (chosen is None or number in chosen)
    )


def _pairs(text: str) -> Filter:
    filters: list[Filter] = []
    for part in text.split(","):
        match = re.fullmatch(r"([^:,]*)(?::(?:(\d+)|(?:(\d*)-(\d*))))?", part.strip())
        if match is None:
            raise JobError(f"Invalid rule specification: {part}")
        topic, single, low, high = match.groups()
        numbers: Iterable[int] | None = None
        if single is not None:
            numbers = range(int(single), int(single) + 1)
        elif low is not None:
            numbers = range(int(low or 0), int(high) if high else 1 << 31)
        filters.append(
            lambda name, number, topic=topic, numbers=numbers: (
                (  # type: ignore[misc]
                    not topic or re.fullmatch(topic, name) is not None
                )
                and (numbers is None or number in numbers)
            )
        )
    return lambda topic, number: any(rule(topic, number) for rule in filters)

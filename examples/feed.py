"""Sends the events of an example to a broker: at a rate that one can watch, or all at once.

    python examples/feed.py tweets --rate 50

Each example has a `generate.py` with TOPICS, what the topics are that it needs, and `events(seed, times)`, which gives
for each time the events of that moment as (topic, key, value, time). The same seed and times give the same events.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import itertools
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

Event = tuple[str, str, dict[str, Any] | None, datetime]


def generator(example: str) -> ModuleType:
    """The module `generate.py` of an example."""
    file = Path(__file__).with_name(example) / "generate.py"
    spec = importlib.util.spec_from_file_location(f"generate_{example}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def steps(start: datetime, seconds: float) -> Iterator[datetime]:
    """A clock for tests: it ticks once per event, and nobody waits for it."""
    return (start + timedelta(seconds=number * seconds) for number in itertools.count())


def now(rate: float) -> Iterator[datetime]:
    """The real clock, at this number of ticks per second."""
    begin = time.monotonic()
    for number in itertools.count(1):
        yield datetime.now(UTC)
        time.sleep(max(0.0, begin + number / rate - time.monotonic()))


def create_topics(servers: str, topics: Mapping[str, Mapping[str, str]]) -> None:
    """`topics` has the settings of each; `partitions` is one of them here."""
    wanted = [
        NewTopic(
            name,
            num_partitions=int(settings.get("partitions", "1")),
            config={key: value for key, value in settings.items() if key != "partitions"},
        )
        for name, settings in topics.items()
    ]
    admin = AdminClient({"bootstrap.servers": servers})
    for created in admin.create_topics(wanted).values():
        try:
            created.result(timeout=30)
        except KafkaException as error:
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise


def send(servers: str, events: Iterable[Event]) -> None:
    """A value of None is a tombstone."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20, "enable.idempotence": True})
    for topic, key, value, at in events:
        encoded = None if value is None else json.dumps(value)
        producer.produce(topic, key=key, value=encoded, timestamp=int(at.timestamp() * 1000))
        producer.poll(0)
    producer.flush(30)


def main() -> None:
    parser = argparse.ArgumentParser(description="Send the events of an example to a broker.")
    parser.add_argument("example", help="the name of a folder beside this file")
    servers = os.environ.get("OTTLA_BOOTSTRAP_SERVER", "localhost:9092")
    parser.add_argument("--bootstrap-server", default=servers, help="localhost:9092, as for `ottla`")
    parser.add_argument("--rate", type=float, default=20, help="moments per second (20)")
    parser.add_argument("--count", type=int, help="stop after N events")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    example = generator(options.example)
    create_topics(options.bootstrap_server, example.TOPICS)
    events = example.events(options.seed, now(options.rate))
    with contextlib.suppress(KeyboardInterrupt):
        send(options.bootstrap_server, itertools.islice(events, options.count))


if __name__ == "__main__":
    main()

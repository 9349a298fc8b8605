"""Topics for the Spark benchmark, filled as an ordinary producer fills them."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

SCHEMA = "id BIGINT, tag STRING, likes INT, text STRING"
TAGS = ("spark", "kafka", "prague", "law", "castle", "trial")
_WORDS = re.findall(
    r"\w+",
    "letter window street morning office door clerk stairs question answer paper night bridge river snow hand "
    "table lamp voice father sister city train station summer garden bread coffee silence garment number",
)
_DISTINCT = 20_000  # values are made once and repeated: making them costs more than sending them


def values(size: int) -> list[bytes]:
    """JSON of exactly this size, words and numbers, which compresses about as such data do."""
    chance = random.Random(size)
    made = []
    for number in range(_DISTINCT):
        event = {"id": 10**9 + number, "tag": chance.choice(TAGS), "likes": chance.randrange(100), "text": ""}
        room = size - len(json.dumps(event))
        text = ""
        while len(text) < room:
            text += chance.choice(_WORDS) + " "
        event["text"] = text[:room]
        made.append(json.dumps(event).encode())
    return made


def create(servers: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)


def delete(servers: str, topics: Sequence[str]) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for deleted in admin.delete_topics(list(topics)).values():
        deleted.result(30)


def fill(
    servers: str,
    topic: str,
    partitions: int,
    codec: str,
    size: int,
    rows: int,
    made: list[bytes] | None = None,
) -> None:
    """So many rows, of this size or those that are `made`, in the batches that librdkafka makes of a full queue."""
    create(servers, topic, partitions)
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "compression.type": codec,
            "linger.ms": 50,
            "queue.buffering.max.messages": 0,
            "queue.buffering.max.kbytes": 500_000,
            "delivery.report.only.error": True,
        }
    )
    messages = [{"value": value} for value in (values(size) if made is None else made)]
    sent = chunk = 0
    while sent < rows:
        part = messages[: min(5_000, rows - sent)]
        sent += producer.produce_batch(topic, part, chunk % partitions)
        messages = messages[len(part) :] + part
        chunk += 1
        if chunk % 20 == 0:
            producer.flush(60)
    if producer.flush(120):
        raise RuntimeError(f"topic {topic} could not be filled")

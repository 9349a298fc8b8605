"""PRINT: shows the records of a topic, without Spark."""

from __future__ import annotations

import itertools
import json
import threading
from datetime import UTC, datetime

from ottla.client.schema_codecs import FramedTexts
from ottla.sql.brokers import Brokers, Received
from ottla.sql.errors import SqlError
from ottla.sql.executing.results import Result
from ottla.sql.parsing.statements import Print
from ottla.sql.registered.schemas import Schemas


def printed(
    statement: Print,
    brokers: Brokers,
    interrupted: threading.Event | None = None,
    schemas: Schemas | None = None,
) -> Result:
    framed = None if schemas is None else FramedTexts(schemas.find_registry())
    if brokers.topic(statement.topic) is None:
        raise SqlError(f"Topic '{statement.topic}' does not exist.", statement.position)
    found = brokers.read(
        statement.topic, from_beginning=statement.from_beginning, follow=True, interrupted=interrupted
    )
    sampled = itertools.islice(found, 0, None, statement.interval)
    rows = (_shown(record, framed) for record in itertools.islice(sampled, statement.limit))
    columns = ("ROWTIME", "PARTITION", "OFFSET", "KEY", "VALUE")
    return Result(statement, None, columns, rows, is_push=True)


def _shown(record: Received, framed: FramedTexts | None) -> tuple[str, int, int, str | None, str | None]:
    moment = datetime.fromtimestamp(record.timestamp_ms / 1000, UTC)
    time = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    key, value = (
        (None if framed is None else framed.text(data)) or readable(data)
        for data in (record.key, record.value)
    )
    return time, record.partition, record.offset, key, value


def readable(data: bytes | None) -> str | None:
    """Decode text or a number from Kafka's serializers. Otherwise return hexadecimal digits."""
    if data is None:
        return None
    try:
        written = data.decode()
    except UnicodeDecodeError:
        written = ""
    if written.isprintable() and (written or not data):
        return written
    if len(data) in (4, 8):
        return str(int.from_bytes(data, "big", signed=True))
    try:
        json.loads(written)
    except ValueError:
        return written if written and "\x00" not in written else data.hex()
    return written

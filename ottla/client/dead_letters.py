"""The headers of a record in a dead-letter topic: from where it came, and why it could not be read.

There are two sets: those of our pipelines, and those that Kafka Connect gives to what a sink could not take.
"""

from __future__ import annotations

from collections.abc import Iterable

PREFIX = "ottla.dead.letter."
ERROR = PREFIX + "error"
REASON = PREFIX + "reason"
TOPIC = PREFIX + "topic"
PARTITION = PREFIX + "partition"
OFFSET = PREFIX + "offset"
#: In milliseconds; the dead letter itself has the time at which it was written.
TIMESTAMP = PREFIX + "timestamp"

CONNECT_PREFIX = "__connect.errors."
#: Kafka's names for the same. A dead letter of Connect has the timestamp of the record itself.
CONNECT_NAMES = {
    CONNECT_PREFIX + "exception.class.name": ERROR,
    CONNECT_PREFIX + "exception.message": REASON,
    CONNECT_PREFIX + "topic": TOPIC,
    CONNECT_PREFIX + "partition": PARTITION,
    CONNECT_PREFIX + "offset": OFFSET,
}


def why(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, str]:
    """What the headers say, by the names of our own, also where Kafka Connect has written its."""
    return {
        CONNECT_NAMES.get(name, name): (value or b"").decode("utf-8", "replace")
        for name, value in headers
        if name.startswith(PREFIX) or name in CONNECT_NAMES
    }


def own_headers(headers: Iterable[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
    """Those that the record had before it failed."""
    return [(name, value) for name, value in headers if not name.startswith((PREFIX, CONNECT_PREFIX))]

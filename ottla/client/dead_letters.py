"""Headers of dead-letter records: origin of the record, and the reason of its failure.

There are two sets: Ottla's, and Kafka Connect's for records that a sink could not store.
"""

from __future__ import annotations

from collections.abc import Iterable

PREFIX = "ottla.dead.letter."
ERROR = PREFIX + "error"
REASON = PREFIX + "reason"
TOPIC = PREFIX + "topic"
PARTITION = PREFIX + "partition"
OFFSET = PREFIX + "offset"
#: In milliseconds; the dead letter's own timestamp is the time of its writing.
TIMESTAMP = PREFIX + "timestamp"

CONNECT_PREFIX = "__connect.errors."
#: Kafka Connect's names. Its dead letters keep the timestamp of the original record.
CONNECT_NAMES = {
    CONNECT_PREFIX + "exception.class.name": ERROR,
    CONNECT_PREFIX + "exception.message": REASON,
    CONNECT_PREFIX + "topic": TOPIC,
    CONNECT_PREFIX + "partition": PARTITION,
    CONNECT_PREFIX + "offset": OFFSET,
}


def why(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, str]:
    """Return the headers' information under Ottla's names, even if Kafka Connect wrote them."""
    return {
        CONNECT_NAMES.get(name, name): (value or b"").decode("utf-8", "replace")
        for name, value in headers
        if name.startswith(PREFIX) or name in CONNECT_NAMES
    }


def own_headers(headers: Iterable[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
    """Return the headers from before the failure."""
    return [(name, value) for name, value in headers if not name.startswith((PREFIX, CONNECT_PREFIX))]

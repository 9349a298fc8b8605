"""Headers of the dead letters of share groups (KIP-1191)."""

from __future__ import annotations

PREFIX = "__dlq.errors."
TOPIC = PREFIX + "topic"
PARTITION = PREFIX + "partition"
OFFSET = PREFIX + "offset"
GROUP = PREFIX + "group"
DELIVERY_COUNT = PREFIX + "delivery.count"
MESSAGE = PREFIX + "message"

REJECTED = "Offset rejected by client."
COUNT_EXCEEDED = "Offset delivery count exceeded the threshold."

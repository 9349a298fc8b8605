"""Java's `String.hashCode`: Kafka chooses coordinators with it, and the order of Kafka's tool output depends on it."""

from __future__ import annotations


def string_hash(text: str) -> int:
    """Return the hash over UTF-16 units as an unsigned 32-bit number."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (value * 31 + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return value

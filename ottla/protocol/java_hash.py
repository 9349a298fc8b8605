"""`String.hashCode` of Java, by which Kafka chooses coordinators and its tools order what they print."""

from __future__ import annotations


def string_hash(text: str) -> int:
    """Over UTF-16 units, as 32 bits without sign."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (value * 31 + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return value

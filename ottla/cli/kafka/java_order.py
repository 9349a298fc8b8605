"""The order in which Java's HashMap lists strings: Kafka's tools print settings in it."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.protocol.java_hash import string_hash


def hash_map_order(names: Iterable[str], least: int = 16) -> list[str]:
    """`least` is the size that the map began with: 1 if it was made for as many as there are."""
    known = list(names)
    size = least
    while len(known) > size * 3 // 4:
        size *= 2
    spread = {name: (value ^ value >> 16) & size - 1 for name in known for value in (string_hash(name),)}
    return sorted(known, key=spread.__getitem__)  # stable: within a bucket in the order of insertion

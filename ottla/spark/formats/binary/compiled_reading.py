"""Shared parts of the compiled decoding loops."""

from __future__ import annotations

from typing import Any

from ottla.records.kernels.compiling import compiled_inline


@compiled_inline
def write_null(places: Any, positions: Any, column: Any) -> Any:
    """Write a null as the next value of a column. Its slots are 0, so that texts are empty."""
    position = positions[places.level_of[column]]
    place = places.slot_base[column] + places.widths[column] * position
    for slot in range(places.widths[column]):
        places.slots[place + slot] = 0
    places.valid[places.valid_base[column] + position] = 0

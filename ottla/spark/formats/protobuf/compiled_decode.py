"""Compiled loop that decodes messages into columns, driven by tables of fields. `operations` describes the tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from ottla.records.kernels.compiling import compiled, compiled_inline
from ottla.spark.formats.avro.compiled_decode import is_utf8, read_varint
from ottla.spark.formats.binary.compiled_reading import write_null
from ottla.spark.formats.protobuf.operations import (
    AS_NULL,
    BOOL,
    BYTES_WIRE,
    COLUMN,
    DOUBLE,
    EIGHT,
    END_GROUP,
    ENUM,
    EXTRA,
    FIXED32,
    FIXED64,
    FLOAT,
    FOUR,
    GOOD,
    GROW,
    INT32,
    KIND,
    LIST,
    MESSAGE,
    NANOS,
    NO_GROUP,
    NO_TAG,
    NOT_UTF8,
    NUMBER,
    OTHER_COUNT,
    OTHERS,
    SECONDS,
    SINT32,
    SINT64,
    START_GROUP,
    STRING,
    TOO_DEEP,
    TRUNCATED,
    UINT32,
    UINT64,
    VARINT,
    WIRE,
)

_0, _1, _3, _7 = map(np.uint64, (0, 1, 3, 7))
_DEEPEST = 100
_MILLION = np.int64(1_000_000)


@compiled
def _begin(message: Any, tables: Any, places: Any, positions: Any) -> Any:
    """Initialise the columns of a message before any field is read."""
    for index in range(tables.begins[message, 0], tables.begins[message, 1]):
        column = tables.initial[index, 0]
        write_null(places, positions, column)
        if tables.initial[index, 1] != AS_NULL:
            position = positions[places.level_of[column]]
            place = places.slot_base[column] + places.widths[column] * position
            for slot in range(places.widths[column]):
                places.slots[place + slot] = tables.initial[index, 2 + slot]
            places.valid[places.valid_base[column] + position] = 1


@compiled
def _skip(data: Any, at: Any, end: Any, wire: Any) -> Any:
    """Return the position after an unknown field that is not a group, or a negative error."""
    if wire == VARINT:
        _, at = read_varint(data, at, end)
        return np.int64(at)
    if (wire == EIGHT) | (wire == FOUR):
        size = np.uint64(8 if wire == EIGHT else 4)
    elif wire == BYTES_WIRE:
        size, at = read_varint(data, at, end)
        if at < 0:
            return np.int64(at)
    else:
        return np.int64(-NO_GROUP if wire == END_GROUP else -NO_TAG)
    return np.int64(at) + np.int64(size) if size <= np.uint64(end - at) else np.int64(-TRUNCATED)


@compiled
def _skip_group(data: Any, at: Any, end: Any, number: Any) -> Any:
    """Return the position after a group, which ends with the field number that it started with."""
    numbers = np.empty(_DEEPEST, np.int64)
    numbers[0] = number
    depth = 1
    while depth:
        tag, at = read_varint(data, at, end)
        if at < 0:
            return np.int64(at)
        wire, number = np.int64(tag & _7), np.int64(tag >> _3)
        if number == 0:
            return np.int64(-NO_TAG)
        if wire == START_GROUP:
            if depth == _DEEPEST:
                return np.int64(-TOO_DEEP)
            numbers[depth] = number
            depth += 1
        elif wire == END_GROUP:
            depth -= 1
            if numbers[depth] != number:
                return np.int64(-NO_GROUP)
        else:
            at = _skip(data, at, end, wire)
            if at < 0:
                return np.int64(at)
    return np.int64(at)


@compiled
def _read_value(
    data: Any, at: Any, end: Any, kind: Any, place: Any, valid_at: Any, tables: Any, field: Any, places: Any
) -> Any:
    """Read one scalar value. Return the position after it, or a negative error."""
    slots = places.slots
    if kind <= ENUM or kind >= SECONDS:
        raw, at = read_varint(data, at, end)
        if at < 0:
            return np.int64(at)
        if kind == INT32:
            slots[place] = np.int64(np.int32(raw))
        elif kind == UINT32:
            slots[place] = np.int64(np.uint32(raw))
        elif kind == UINT64:
            slots[place] = np.int64(raw)
            slots[place + 1] = 0
        elif kind == SINT32:
            small = np.uint32(raw)
            slots[place] = np.int64(np.int32(small >> np.uint32(1)) ^ -np.int32(small & np.uint32(1)))
        elif kind == SINT64:
            slots[place] = np.int64(raw >> _1) ^ -np.int64(raw & _1)
        elif kind == BOOL:
            slots[place] = 1 if raw else 0
        elif kind == ENUM:
            entry = tables.fields[field, EXTRA]
            count = tables.side[entry]
            number = np.int64(np.int32(raw))
            for index in range(count):
                if tables.side[entry + 1 + 3 * index] == number:
                    slots[place] = tables.side[entry + 2 + 3 * index]
                    slots[place + 1] = tables.side[entry + 3 + 3 * index]
                    places.valid[valid_at] = 1
                    return np.int64(at)
            # A newer enum value without a known name.
            slots[place] = 0
            slots[place + 1] = 0
            places.valid[valid_at] = 0
            return np.int64(at)
        elif kind == SECONDS:
            slots[place] += np.int64(raw) * _MILLION
        elif kind == NANOS:
            slots[place] += np.int64(np.int32(raw)) // 1000
        else:
            slots[place] = np.int64(raw)
    elif kind <= DOUBLE:
        size = np.int64(4 if kind <= FLOAT else 8)
        if end - at < size:
            return np.int64(-TRUNCATED)
        raw = _0
        for index in range(size):
            raw |= np.uint64(data[at + index]) << np.uint64(8 * index)
        at += size
        if kind == FIXED32:
            slots[place] = np.int64(raw)
        elif kind <= FLOAT:
            slots[place] = np.int64(np.int32(raw))
        else:
            slots[place] = np.int64(raw)
            if kind == FIXED64:
                slots[place + 1] = 0
    else:
        length, at = read_varint(data, at, end)
        if at < 0:
            return np.int64(at)
        if length > np.uint64(end - at):
            return np.int64(-TRUNCATED)
        size = np.int64(length)
        if kind == STRING and not is_utf8(data, at, at + size):
            return np.int64(-NOT_UTF8)
        slots[place] = at
        slots[place + 1] = size
        at += size
    places.valid[valid_at] = 1
    return np.int64(at)


@compiled
def _run(
    data: Any, at: Any, end: Any, message: Any, tables: Any, places: Any, positions: Any, stack: Any
) -> Any:
    """Decode one record. Return the status and message, or for GROW the level and required capacity."""
    fields = tables.fields
    depth = 0
    advance = np.int64(-1)
    expected = tables.ranges[message, 0]
    for index in range(len(places.top)):
        places.valid[places.valid_base[places.top[index]] + positions[0]] = 1
    _begin(message, tables, places, positions)
    while True:
        if at == end:
            if advance >= 0:
                positions[advance] += 1
            if depth == 0:
                return np.int64(GOOD), message, np.int64(0)
            depth -= 1
            message, end, expected, advance = (
                stack[depth, 0],
                stack[depth, 1],
                stack[depth, 2],
                stack[depth, 3],
            )
            continue
        tag, at = read_varint(data, at, end)
        if at < 0:
            return np.int64(-at), message, np.int64(0)
        wire = np.int64(tag & _7)
        number = np.int64(tag >> _3)
        if number == 0 or number > (1 << 29) - 1:
            return np.int64(NO_TAG), message, np.int64(0)
        # Most messages have their fields in schema order.
        first, last = tables.ranges[message, 0], tables.ranges[message, 1]
        field = np.int64(-1)
        at_field = expected
        for _ in range(last - first):
            if at_field >= last:
                at_field = first
            if fields[at_field, NUMBER] == number:
                field = at_field
                break
            at_field += 1
        packed = (
            field >= 0
            and wire == BYTES_WIRE
            and fields[field, WIRE] != BYTES_WIRE
            and fields[field, LIST] >= 0
        )
        if field < 0 or (wire != fields[field, WIRE] and not packed):
            if wire == START_GROUP:
                at = _skip_group(data, at, end, number)
            else:
                at = _skip(data, at, end, wire)
            if at < 0:
                return np.int64(-at), message, np.int64(0)
            continue
        expected = field
        kind, column, list_column = fields[field, KIND], fields[field, COLUMN], fields[field, LIST]
        for index in range(fields[field, OTHER_COUNT]):
            write_null(places, positions, tables.side[fields[field, OTHERS] + index])
        level = np.int64(-1)
        if list_column >= 0:
            level = tables.inner[list_column]
        if kind == MESSAGE:
            length, at = read_varint(data, at, end)
            if at < 0:
                return np.int64(-at), message, np.int64(0)
            if length > np.uint64(end - at):
                return np.int64(TRUNCATED), message, np.int64(0)
            if depth >= _DEEPEST:
                return np.int64(TOO_DEEP), message, np.int64(0)
            if list_column >= 0:
                if positions[level] >= places.capacities[level]:
                    return np.int64(GROW), level, positions[level] + 1
                _count(places, positions, list_column)
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = (
                message,
                end,
                expected,
                advance,
            )
            depth += 1
            message = fields[field, EXTRA]
            end = at + np.int64(length)
            expected = tables.ranges[message, 0]
            advance = level
            seen = False
            if column >= 0:
                valid_at = places.valid_base[column] + positions[places.level_of[column]]
                # A message in two parts is merged, unless it is a list element.
                seen = list_column < 0 and places.valid[valid_at] == 1
                places.valid[valid_at] = 1
            if not seen:
                _begin(message, tables, places, positions)
            continue
        if packed:
            length, at = read_varint(data, at, end)
            if at < 0:
                return np.int64(-at), message, np.int64(0)
            if length > np.uint64(end - at):
                return np.int64(TRUNCATED), message, np.int64(0)
        stop = at + np.int64(length) if packed else end
        while not packed or at < stop:
            if list_column >= 0:
                if positions[level] >= places.capacities[level]:
                    return np.int64(GROW), level, positions[level] + 1
                _count(places, positions, list_column)
            position = positions[places.level_of[column]]
            place = places.slot_base[column] + places.widths[column] * position
            valid_at = places.valid_base[column] + position
            at = _read_value(data, at, stop, kind, place, valid_at, tables, field, places)
            if at < 0:
                return np.int64(-at), message, np.int64(0)
            if list_column >= 0:
                positions[level] += 1
            if not packed:
                break


@compiled_inline
def _count(places: Any, positions: Any, column: Any) -> Any:
    position = positions[places.level_of[column]]
    places.slots[places.slot_base[column] + position] += 1
    places.valid[places.valid_base[column] + position] = 1


@compiled
def decode_rows(
    data: Any,
    starts: Any,
    ends: Any,
    messages: Any,
    row: Any,
    tables: Any,
    places: Any,
    positions: Any,
    wrong: Any,
) -> Any:
    """Decode rows starting at `row`. A negative message is a null. `wrong` receives the error and message by row.

    Returns the first row that did not fit, its level and the required capacity; or the number of rows.
    """
    saved = positions.copy()
    stack = np.empty((_DEEPEST + 1, 4), np.int64)
    while row < len(starts):
        status, detail, needed = np.int64(GOOD), np.int64(0), np.int64(0)
        saved[:] = positions
        if messages[row] >= 0:
            status, detail, needed = _run(
                data, starts[row], ends[row], messages[row], tables, places, positions, stack
            )
        if status != GOOD or messages[row] < 0:
            positions[:] = saved
            if status == GROW:
                return row, detail, needed
            wrong[row, 0] = status
            wrong[row, 1] = detail
            for index in range(len(places.top)):
                write_null(places, positions, places.top[index])
        positions[0] += 1
        row += 1
    return row, np.int64(-1), np.int64(0)

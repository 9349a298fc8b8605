"""Compiled loop that runs decoding programs over the bytes of records. `operations` describes the instructions.

The loop never reads outside a record or writes outside the arena. When a level is full, it stops before the record, and
the caller repeats that record with a larger arena.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ottla.records.kernels.compiling import compiled, compiled_inline
from ottla.spark.formats.avro.operations import (
    ADVANCE,
    AFTER,
    BOOLEAN,
    BYTES,
    CALL,
    CODE,
    CONSTANT,
    COUNT,
    DECIMAL,
    DECIMAL_BYTES,
    DOUBLE,
    END,
    ENUM,
    FIXED,
    FLOAT,
    GOOD,
    GROW,
    JUMP,
    LOOP,
    MORE,
    NEGATIVE,
    NEXT,
    NO_BRANCH,
    NO_SYMBOL,
    NOT_BOOLEAN,
    NOT_UTF8,
    NULLS,
    OUT_OF_RANGE,
    REFUSE,
    REFUSED,
    RETURN,
    SIZE,
    SKIP_BYTES,
    TO_DOUBLE,
    TO_FLOAT,
    TOO_DEEP,
    TOO_LONG,
    TOO_MANY,
    TOO_PRECISE,
    TRUNCATED,
    UNION,
    WHOLE,
    WIDER,
    A,
    B,
    C,
)
from ottla.spark.formats.binary.compiled_reading import write_null

_1, _7, _63, _127 = map(np.uint64, (1, 7, 63, 127))
_INT_MIN, _INT_MAX = np.int64(-(1 << 31)), np.int64((1 << 31) - 1)
_LONG_MAX = np.int64((1 << 63) - 1)
#: Limit for array elements without bytes, because such an array could be endless.
_MOST_EMPTY = 10_000


@compiled_inline
def read_varint(data: Any, at: Any, end: Any) -> Any:
    """Read an unsigned varint. Return it and the position after it, or -TRUNCATED or -TOO_LONG as position."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while at < end:
        byte = np.uint64(data[at])
        at += 1
        value |= (byte & _127) << shift
        if byte <= _127:
            return value, at
        shift += _7
        if shift > _63:
            return value, np.int64(-TOO_LONG)
    return value, np.int64(-TRUNCATED)


@compiled_inline
def _zigzag(value: Any) -> Any:
    return np.int64(value >> _1) ^ -np.int64(value & _1)


@compiled_inline
def _word(data: Any, at: Any, count: Any) -> Any:
    value = np.uint64(0)
    for index in range(count):
        value |= np.uint64(data[at + index]) << np.uint64(8 * index)
    return np.int64(value)


@compiled
def is_utf8(data: Any, at: Any, end: Any) -> Any:
    seen = np.uint8(0)
    for index in range(at, end):
        seen |= data[index]
    if seen < 0x80:
        return True
    while at < end:
        first = data[at]
        at += 1
        if first < 0x80:
            continue
        if first < 0xC2 or first > 0xF4:
            return False
        more = 1 + (first >= 0xE0) + (first >= 0xF0)
        if end - at < more:
            return False
        second = data[at]
        low = 0xA0 if first == 0xE0 else 0x90 if first == 0xF0 else 0x80
        high = 0x9F if first == 0xED else 0x8F if first == 0xF4 else 0xBF
        if second < low or second > high:
            return False
        for index in range(1, more):
            if data[at + index] & 0xC0 != 0x80:
                return False
        at += more
    return True


@compiled
def _read_decimal(data: Any, at: Any, size: Any, precision: Any, slots: Any, place: Any, limits: Any) -> Any:
    """Read a big-endian number of any size as 128 bits, low word first. Return False if it has too many digits."""
    negative = size > 0 and data[at] >= 0x80
    filler = np.uint64(0xFFFFFFFFFFFFFFFF) if negative else np.uint64(0)
    low, high = filler, filler
    for index in range(size):
        if index < size - 16 and data[at + index] != (0xFF if negative else 0):
            return False
        high = (high << np.uint64(8)) | (low >> np.uint64(56))
        low = (low << np.uint64(8)) | np.uint64(data[at + index])
    if size > 16 and (np.int64(high) < 0) != negative:
        return False
    slots[place] = np.int64(low)
    slots[place + 1] = np.int64(high)
    if negative:
        low = ~low + _1
        high = ~high + (_1 if low == np.uint64(0) else np.uint64(0))
    most_low, most_high = limits[precision, 0], limits[precision, 1]
    return high < most_high or (high == most_high and low < most_low)


@compiled
def _read_block(data: Any, at: Any, end: Any, skip: Any) -> Any:
    """Return the number of elements in the next block and the position of the first, or a negative error.

    With `skip`, blocks that contain their size in bytes are skipped as a whole.
    """
    while True:
        raw, at = read_varint(data, at, end)
        count = _zigzag(raw)
        if at < 0 or count >= 0:
            return count, at
        raw, at = read_varint(data, at, end)
        if at < 0:
            return count, at
        size = _zigzag(raw)
        if size < 0 or -count < 0:
            return count, np.int64(-NEGATIVE)
        if not skip:
            return -count, at
        if size > end - at:
            return count, np.int64(-TRUNCATED)
        at += size


@compiled
def _run(data: Any, at: Any, end: Any, pc: Any, program: Any, places: Any, positions: Any, stack: Any) -> Any:
    """Decode one record. Return the status, the position in the program, and for GROW the required capacity."""
    code, side, limits = program.code, program.side, program.limits
    slots = places.slots
    depth = 0
    empty = np.int64(0)
    while True:
        op = code[pc, CODE]
        column = code[pc, A]
        size = code[pc, SIZE]
        value = np.int64(0)
        if op <= SKIP_BYTES:
            raw, at = read_varint(data, at, end)
            if at < 0:
                return -at, pc, 0
            value = _zigzag(raw)
            if op >= BYTES:
                if value < 0:
                    return NEGATIVE, pc, 0
                size = value
        if size > end - at:
            return TRUNCATED, pc, 0
        place = np.int64(0)
        if column >= 0:
            place = places.slot_base[column] + places.widths[column] * positions[places.level_of[column]]
        if op == WHOLE:
            factor = code[pc, C]
            if code[pc, B] == 32 and (value < _INT_MIN or value > _INT_MAX):
                return OUT_OF_RANGE, pc, 0
            if factor > 1:
                if value > _LONG_MAX // factor or value < -(_LONG_MAX // factor):
                    return OUT_OF_RANGE, pc, 0
                value *= factor
            elif factor < 0:
                value = value // -factor
            slots[place] = value
        elif (op == BYTES) | (op == FIXED):
            if code[pc, B] and not is_utf8(data, at, at + size):
                return NOT_UTF8, pc, 0
            slots[place] = at
            slots[place + 1] = size
        elif op == UNION:
            if value < 0 or value >= code[pc, B]:
                return NO_BRANCH, pc, 0
            pc = side[code[pc, C] + value]
            continue
        elif op == NULLS:
            for index in range(code[pc, B]):
                write_null(places, positions, side[code[pc, C] + index])
        elif op == JUMP:
            pc = code[pc, AFTER]
            continue
        elif op == DOUBLE:
            slots[place] = _word(data, at, 8)
        elif op == FLOAT:
            slots[place] = _word(data, at, 4)
        elif op == WIDER:
            slots[place] = np.float64(np.uint32(_word(data, at, 4)).view(np.float32)).view(np.int64)
        elif op == BOOLEAN:
            if data[at] > 1:
                return NOT_BOOLEAN, pc, 0
            slots[place] = data[at]
        elif op == ENUM:
            entry = code[pc, B] + 2 * value
            if value < 0 or value >= code[pc, C] or side[entry] >= 0:
                return NO_SYMBOL, pc, 0
            slots[place] = side[entry]
            slots[place + 1] = side[entry + 1]
        elif (op == LOOP) | (op == NEXT):
            begin = pc
            if op == LOOP:
                if depth >= len(stack):
                    return TOO_DEEP, pc, 0
                if column >= 0:
                    slots[place] = 0
            else:
                begin = code[pc, AFTER]
                level = code[begin, B]
                if level >= 0:
                    positions[level] += 1
                stack[depth - 1] -= 1
                if stack[depth - 1] > 0:
                    pc = begin + 1
                    continue
                depth -= 1
            column = code[begin, A]
            count, at = _read_block(data, at, end, column < 0)
            if at < 0:
                return -at, begin, 0
            if count == 0:
                pc = code[begin, AFTER]
                continue
            if code[begin, C]:
                empty += min(count, _MOST_EMPTY + 1)
                if empty > _MOST_EMPTY:
                    return TOO_MANY, begin, 0
            elif count > end - at:
                return TRUNCATED, begin, 0
            if column >= 0:
                level = code[begin, B]
                needed = positions[level] + count
                if needed > places.capacities[level]:
                    return GROW, level, needed
                slots[places.slot_base[column] + positions[places.level_of[column]]] += count
            stack[depth] = count
            depth += 1
            pc = begin + 1
            continue
        elif (op == DECIMAL) | (op == DECIMAL_BYTES):
            if not _read_decimal(data, at, size, code[pc, B], slots, place, limits):
                return TOO_PRECISE, pc, 0
        elif (op == TO_DOUBLE) | (op == TO_FLOAT):
            if code[pc, B] == 32 and (value < _INT_MIN or value > _INT_MAX):
                return OUT_OF_RANGE, pc, 0
            if op == TO_DOUBLE:
                slots[place] = np.float64(value).view(np.int64)
            else:
                slots[place] = np.int64(np.float32(value).view(np.uint32))
        elif op == CONSTANT:
            slots[place] = code[pc, B]
            if places.widths[column] == 2:
                slots[place + 1] = code[pc, C]
        elif op == COUNT:
            level = code[pc, B]
            if positions[level] + code[pc, C] > places.capacities[level]:
                return GROW, level, positions[level] + code[pc, C]
            slots[place] = code[pc, C]
        elif op == ADVANCE:
            positions[code[pc, B]] += 1
        elif op == CALL:
            if depth >= len(stack):
                return TOO_DEEP, pc, 0
            stack[depth] = pc + 1
            depth += 1
            pc = code[pc, AFTER]
            continue
        elif op == RETURN:
            depth -= 1
            pc = stack[depth]
            continue
        elif op == REFUSE:
            return REFUSED, pc, 0
        elif op == END:
            return (GOOD if at == end else MORE), pc, 0
        # Skipped values need no further work.
        at += size
        pc += 1


@compiled
def decode_rows(
    data: Any,
    starts: Any,
    ends: Any,
    entries: Any,
    row: Any,
    program: Any,
    places: Any,
    positions: Any,
    wrong: Any,
) -> Any:
    """Decode rows starting at `row`. A negative entry is a null. `wrong` receives the error and its position by row.

    Returns the first row that did not fit, its level and the required capacity; or the number of rows.
    """
    saved = positions.copy()
    stack = np.empty(1000, np.int64)
    while row < len(starts):
        status, pc, needed = np.int64(GOOD), np.int64(0), np.int64(0)
        saved[:] = positions
        if entries[row] >= 0:
            status, pc, needed = _run(
                data, starts[row], ends[row], entries[row], program, places, positions, stack
            )
        if status != GOOD or entries[row] < 0:
            for column in range(len(places.level_of)):
                level = places.level_of[column]
                last = min(positions[level] + 1, places.capacities[level])
                for position in range(saved[level], last):
                    places.valid[places.valid_base[column] + position] = 1
            positions[:] = saved
            if status == GROW:
                return row, pc, needed
            wrong[row, 0] = status
            wrong[row, 1] = pc
            for index in range(len(places.top)):
                write_null(places, positions, places.top[index])
        positions[0] += 1
        row += 1
    return row, np.int64(-1), np.int64(0)

"""Compiled loop that encodes Avro records. `encode_operations` describes the instructions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ottla.records.kernels.compiling import compiled, compiled_inline, copy_bytes
from ottla.spark.formats.avro.encode_operations import (
    AFTER,
    BOOLEAN,
    CODE,
    DECIMAL,
    DONE,
    DOUBLE,
    ENUM,
    FINISHED,
    FIXED,
    FLOAT,
    FULL,
    IF_NULL,
    JUMP,
    LITERAL,
    LOOP,
    NEXT,
    NO_SYMBOL,
    NULL,
    OUT_OF_RANGE,
    REFUSE,
    REQUIRE,
    TEXT,
    WHOLE,
    WRONG_SIZE,
    A,
    B,
    C,
)
from ottla.spark.formats.binary.compiled_writing import is_same, write_varint


@compiled_inline
def _write_whole(out: Any, at: Any, value: Any) -> Any:
    """Write a zigzag number and return the position after it. The caller ensures room."""
    return write_varint(out, at, np.uint64((value << 1) ^ (value >> 63)))


@compiled
def _write_decimal(out: Any, at: Any, low: Any, high: Any, size: Any) -> Any:
    """Write big-endian bytes; with a negative size, the minimal bytes after their length. Return -1 on overflow."""
    negative = high < 0
    needed = 16
    while needed > 1:
        top = (high >> (8 * (needed - 9))) & 0xFF if needed > 8 else (low >> (8 * (needed - 1))) & 0xFF
        below = needed - 1
        next_top = (high >> (8 * (below - 9))) & 0xFF if below > 8 else (low >> (8 * (below - 1))) & 0xFF
        if top != (0xFF if negative else 0) or (next_top >= 0x80) != negative:
            break
        needed -= 1
    if size < 0:
        at = _write_whole(out, at, np.int64(needed))
        size = np.int64(needed)
    elif needed > size:
        return np.int64(-1)
    for index in range(size - 1, -1, -1):
        if index >= 16:
            out[at] = 0xFF if negative else 0
        elif index >= 8:
            out[at] = (high >> (8 * (index - 8))) & 0xFF
        else:
            out[at] = (low >> (8 * index)) & 0xFF
        at += 1
    return at


@compiled
def _run(out: Any, at: Any, program: Any, columns: Any, positions: Any, stack: Any) -> Any:
    """Encode one record. Return its end, the status, and the position in the program."""
    code, side, constants = program.code, program.side, program.constants
    slots, data = columns.slots, columns.data
    room = len(out)
    depth = 0
    pc = 0
    while True:
        op = code[pc, CODE]
        column = code[pc, A]
        place = np.int64(0)
        position = np.int64(0)
        if column >= 0:
            position = positions[columns.level_of[column]]
            place = columns.slot_base[column] + columns.widths[column] * position
        if at + 64 > room:
            return at, FULL, pc
        if op == WHOLE:
            value = slots[place]
            if code[pc, B] > 1:
                value = value // code[pc, B]
            if value < code[pc, C] or value > -1 - code[pc, C]:
                return at, OUT_OF_RANGE, pc
            at = _write_whole(out, at, value)
        elif (op == TEXT) | (op == FIXED):
            size = slots[place + 1]
            if at + size + 64 > room:
                return at, FULL, pc
            if op == TEXT:
                at = _write_whole(out, at, size)
            elif size != code[pc, B]:
                return at, WRONG_SIZE, pc
            copy_bytes(out, np.uint64(at), data, np.uint64(slots[place]), np.uint64(size))
            at += size
        elif op == IF_NULL:
            if columns.valid[columns.valid_base[column] + position] == 0:
                if code[pc, B] >= 0:
                    at = _write_whole(out, at, code[pc, B])
                pc = code[pc, AFTER]
                continue
            if code[pc, C] >= 0:
                at = _write_whole(out, at, code[pc, C])
        elif op == REQUIRE:
            if columns.valid[columns.valid_base[column] + position] == 0:
                return at, NULL, pc
        elif op == JUMP:
            pc = code[pc, AFTER]
            continue
        elif (op == DOUBLE) | (op == FLOAT):
            bits = slots[place]
            for index in range(8 if op == DOUBLE else 4):
                out[at] = (bits >> (8 * index)) & 0xFF
                at += 1
        elif op == BOOLEAN:
            out[at] = slots[place]
            at += 1
        elif op == DECIMAL:
            if at + code[pc, B] + 64 > room:
                return at, FULL, pc
            at_end = _write_decimal(out, at, slots[place], slots[place + 1], code[pc, B])
            if at_end < 0:
                return at, OUT_OF_RANGE, pc
            at = at_end
        elif op == LOOP:
            count = slots[place + 1]
            at = _write_whole(out, at, count)
            if count == 0:
                pc = code[pc, AFTER]
                continue
            positions[code[pc, B]] = slots[place]
            stack[depth] = count
            depth += 1
        elif op == NEXT:
            begin = code[pc, AFTER]
            stack[depth - 1] -= 1
            if stack[depth - 1] > 0:
                positions[code[begin, B]] += 1
                pc = begin + 1
                continue
            depth -= 1
            out[at] = 0
            at += 1
        elif op == ENUM:
            start, size = slots[place], slots[place + 1]
            found = -1
            for index in range(code[pc, C]):
                entry = code[pc, B] + 2 * index
                if side[entry + 1] == size and is_same(constants, side[entry], data, start, size):
                    found = index
                    break
            if found < 0:
                return at, NO_SYMBOL, pc
            at = _write_whole(out, at, np.int64(found))
        elif op == LITERAL:
            if at + code[pc, C] + 64 > room:
                return at, FULL, pc
            copy_bytes(out, np.uint64(at), constants, np.uint64(code[pc, B]), np.uint64(code[pc, C]))
            at += code[pc, C]
        elif op == REFUSE:
            return at, NO_SYMBOL, pc
        elif op == DONE:
            return at, FINISHED, pc
        pc += 1


@compiled
def encode_rows(
    out: Any, at: Any, row: Any, rows: Any, program: Any, columns: Any, ends: Any, frame: Any
) -> Any:
    """Encode rows starting at `row`, each after `frame`. A null row has no bytes.

    Returns the first row that was not written, its position, and the error.
    """
    positions = np.zeros(program.levels, np.int64)
    stack = np.empty(program.levels + 1, np.int64)
    while row < rows:
        start = at
        positions[0] = row
        if columns.valid[columns.valid_base[0] + row]:
            if at + len(frame) > len(out):
                return row, start, np.int64(FULL), np.int64(0)
            for index in range(len(frame)):
                out[at] = frame[index]
                at += 1
            at, status, pc = _run(out, at, program, columns, positions, stack)
            if status != FINISHED:
                return row, start, np.int64(status), np.int64(pc)
        row += 1
        ends[row] = at
    return row, at, np.int64(FINISHED), np.int64(0)

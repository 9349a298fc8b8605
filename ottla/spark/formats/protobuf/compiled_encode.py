"""Compiled loop that encodes messages. `encode_operations` describes the instructions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ottla.records.kernels.compiling import compiled, copy_bytes
from ottla.spark.formats.binary.compiled_writing import is_same, write_varint
from ottla.spark.formats.protobuf.encode_operations import (
    AFTER,
    BEGIN,
    BYTES,
    CODE,
    DONE,
    EIGHT,
    END,
    ENUM,
    FINISHED,
    FOUR,
    FULL,
    IF_EMPTY,
    IF_NULL,
    JUMP,
    LITERAL,
    LOOP,
    NEXT,
    NO_SYMBOL,
    NULL,
    OUT_OF_RANGE,
    REQUIRE,
    TIME,
    UNSIGNED,
    VARINT,
    ZIGZAG,
    A,
    B,
    C,
)

_MILLION = np.int64(1_000_000)


@compiled
def _write_time(out: Any, at: Any, micros: Any, is_timestamp: Any) -> Any:
    """Write seconds and nanoseconds as a message with its length. In a duration both have the same sign."""
    seconds = micros // _MILLION
    if not is_timestamp and micros < 0 and seconds * _MILLION != micros:
        seconds += 1
    nanos = (micros - seconds * _MILLION) * 1000
    start = at
    at += 1
    if seconds != 0:
        out[at] = 0x08
        at = write_varint(out, at + 1, np.uint64(seconds))
    if nanos != 0:
        out[at] = 0x10
        at = write_varint(out, at + 1, np.uint64(nanos))
    out[start] = at - start - 1
    return at


@compiled
def _close(out: Any, start: Any, at: Any) -> Any:
    """Write the length of the bytes after `start`, and move them if the length needs more than one byte."""
    size = at - start - 1
    more = 0
    rest = size >> 7
    while rest > 0:
        more += 1
        rest >>= 7
    if more:
        for index in range(size):
            out[at - 1 - index + more] = out[at - 1 - index]
    write_varint(out, start, np.uint64(size))
    return at + more


@compiled
def _run(out: Any, at: Any, program: Any, columns: Any, positions: Any, stack: Any) -> Any:
    """Encode one message. Return its end, the status, and the position in the program."""
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
        if op == LITERAL:
            copy_bytes(out, np.uint64(at), constants, np.uint64(code[pc, B]), np.uint64(code[pc, C]))
            at += code[pc, C]
        elif op == IF_NULL:
            if columns.valid[columns.valid_base[column] + position] == 0:
                pc = code[pc, AFTER]
                continue
        elif op == REQUIRE:
            if columns.valid[columns.valid_base[column] + position] == 0:
                return at, NULL, pc
        elif op == VARINT:
            value = slots[place]
            if value < code[pc, B] or value > code[pc, C]:
                return at, OUT_OF_RANGE, pc
            at = write_varint(out, at, np.uint64(value))
        elif op == ZIGZAG:
            value = slots[place]
            at = write_varint(out, at, np.uint64((value << 1) ^ (value >> 63)))
        elif op == BYTES:
            size = slots[place + 1]
            if at + size + 64 > room:
                return at, FULL, pc
            at = write_varint(out, at, np.uint64(size))
            copy_bytes(out, np.uint64(at), data, np.uint64(slots[place]), np.uint64(size))
            at += size
        elif (op == FOUR) | (op == EIGHT):
            bits = slots[place]
            if op == FOUR and (bits < code[pc, B] or bits > code[pc, C]):
                return at, OUT_OF_RANGE, pc
            if op == EIGHT and code[pc, B] and slots[place + 1] != 0:
                return at, OUT_OF_RANGE, pc
            for index in range(4 if op == FOUR else 8):
                out[at] = (bits >> (8 * index)) & 0xFF
                at += 1
        elif op == UNSIGNED:
            if slots[place + 1] != 0:
                return at, OUT_OF_RANGE, pc
            at = write_varint(out, at, np.uint64(slots[place]))
        elif op == ENUM:
            start, size = slots[place], slots[place + 1]
            found = False
            for index in range(code[pc, C]):
                entry = code[pc, B] + 3 * index
                if side[entry + 2] == size and is_same(constants, side[entry + 1], data, start, size):
                    found = True
                    at = write_varint(out, at, np.uint64(side[entry]))
                    break
            if not found:
                return at, NO_SYMBOL, pc
        elif op == TIME:
            at = _write_time(out, at, slots[place], code[pc, B])
        elif op == BEGIN:
            stack[depth] = at
            depth += 1
            at += 1
        elif op == END:
            depth -= 1
            at = _close(out, stack[depth], at)
        elif op == IF_EMPTY:
            if slots[place + 1] == 0:
                pc = code[pc, AFTER]
                continue
        elif op == LOOP:
            if slots[place + 1] == 0:
                pc = code[pc, AFTER]
                continue
            positions[code[pc, B]] = slots[place]
            stack[depth] = slots[place + 1]
            depth += 1
        elif op == NEXT:
            begin = code[pc, AFTER]
            stack[depth - 1] -= 1
            if stack[depth - 1] > 0:
                positions[code[begin, B]] += 1
                pc = begin + 1
                continue
            depth -= 1
        elif op == JUMP:
            pc = code[pc, AFTER]
            continue
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
    stack = np.empty(program.depth, np.int64)
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

"""The walk over records, compiled by numba. Only the cleaner process imports it.

All numbers are unsigned: a possibly negative index costs a test and a branch per access. Functions return or store a
fault instead of raising, and never read beyond the batch, whatever its bytes claim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

_OPTIONS: dict[str, Any] = {"nogil": False, "boundscheck": False, "error_model": "numpy"}


def _compiled(function: Callable[..., Any]) -> Any:
    try:
        return numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # no place to cache the machine code: it is compiled at each start
        return numba.njit(**_OPTIONS)(function)


_U = np.uint64
_0, _1, _2, _3, _4, _5, _6, _7, _8 = (_U(n) for n in range(9))
_13, _16, _17, _21, _32 = _U(13), _U(16), _U(17), _U(21), _U(32)
_24, _40, _48, _56 = _U(24), _U(40), _U(48), _U(56)
_12, _23, _27, _35, _43, _51, _53, _57, _61 = (_U(n) for n in (12, 23, 27, 35, 43, 51, 53, 57, 61))
_EE, _DD, _FF = _U(0xEE), _U(0xDD), _U(0xFF)
_7F, _80 = _U(0x7F), _U(0x80)
_70 = _U(70)
_HORIZON = _U(0x40)
_KEPT_ATTRIBUTES = _U(0x38)
_TIMESTAMP_TYPE = _U(0x08)
_DROP, _EMPTY, _CONTROL, _MARK = _1, _2, _4, _8

ROW = 9

# Indexes into `state`
KEYS, FAULT, OUT, CHANGED, RECORDS, KEPT = range(6)


@_compiled
def _be(data, at, size):  # type: ignore[no-untyped-def]
    """Read a big-endian number of `size` bytes."""
    value = _0
    for i in range(size):
        value = (value << _8) | _U(data[at + _U(i)])
    return value


@_compiled
def _put(data, at, size, value):  # type: ignore[no-untyped-def]
    for i in range(size):
        data[at + _U(i)] = np.uint8((value >> _U(8 * (size - 1 - i))) & _FF)


@_compiled
def scan(data, rows):  # type: ignore[no-untyped-def]
    """Fill `rows` with the complete batches of a chunk. Return their number, their end, and whether a fault follows."""
    size = _U(len(data))
    at = _0
    n = 0
    while at + _61 <= size and n < len(rows):
        base = np.int64(_be(data, at, 8))
        length = np.int32(_be(data, at + _8, 4))
        magic = data[at + _16]
        delta = np.int32(_be(data, at + _23, 4))
        if magic != 2 or length < 49 or base < 0 or delta < 0:
            return n, at, 1
        total = _U(length) + _12
        if at + total > size:
            break
        row = rows[n]
        row[0] = np.int64(at)
        row[1] = np.int64(total)
        row[2] = base
        row[3] = base + np.int64(delta)
        row[4] = np.int64(_be(data, at + _17, 4))
        row[5] = np.int64(_be(data, at + _21, 2))
        row[6] = np.int64(_be(data, at + _43, 8))
        row[7] = np.int64(np.int16(_be(data, at + _51, 2)))
        row[8] = np.int64(np.int32(_be(data, at + _57, 4)))
        n += 1
        at += total
    return n, at, 0


@_compiled
def _varint(data, at, end):  # type: ignore[no-untyped-def]
    """Read a varint without undoing zigzag. Return it and the next position, beyond `end` if it does not fit."""
    if at < end:
        byte = _U(data[at])
        if byte < _80:
            return byte, at + _1
    result = _0
    shift = _0
    while at < end and shift < _70:
        byte = _U(data[at])
        at += _1
        result |= (byte & _7F) << shift
        if byte < _80:
            return result, at
        shift += _7
    return _0, end + _1


@_compiled
def _rotate(x, by):  # type: ignore[no-untyped-def]
    return (x << by) | (x >> (_U(64) - by))


@_compiled
def _round(v0, v1, v2, v3):  # type: ignore[no-untyped-def]
    v0 += v1
    v1 = _rotate(v1, _13) ^ v0
    v0 = _rotate(v0, _32)
    v2 += v3
    v3 = _rotate(v3, _16) ^ v2
    v0 += v3
    v3 = _rotate(v3, _21) ^ v0
    v2 += v1
    v1 = _rotate(v1, _17) ^ v2
    v2 = _rotate(v2, _32)
    return v0, v1, v2, v3


@_compiled
def siphash(data, at, length, k0, k1):  # type: ignore[no-untyped-def]
    """Compute SipHash-2-4 with 128 bits, which prevents deliberate collisions without the key."""
    v0 = k0 ^ _U(0x736F6D6570736575)
    v1 = k1 ^ _U(0x646F72616E646F6D) ^ _EE
    v2 = k0 ^ _U(0x6C7967656E657261)
    v3 = k1 ^ _U(0x7465646279746573)
    end = at + length
    while at + _8 <= end:
        m = (
            _U(data[at])
            | _U(data[at + _1]) << _8
            | _U(data[at + _2]) << _16
            | _U(data[at + _3]) << _24
            | _U(data[at + _4]) << _32
            | _U(data[at + _5]) << _40
            | _U(data[at + _6]) << _48
            | _U(data[at + _7]) << _56
        )
        v3 ^= m
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= m
        at += _8
    m = length << _56
    shift = _0
    while at < end:
        m |= _U(data[at]) << shift
        shift += _8
        at += _1
    v3 ^= m
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= m
    v2 ^= _EE
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v1 ^= _DD
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return low, v0 ^ v1 ^ v2 ^ v3


@_compiled
def _slot(slots, low, high):  # type: ignore[no-untyped-def]
    """Return the slot of the key, or the free slot for it. Entries are hash, hash, offset + 1."""
    count = _U(slots.shape[0])
    at = ((low >> _32) * count) >> _32
    while slots[at, _2] != _0 and (slots[at, _0] != low or slots[at, _1] != high):
        at += _1
        if at == count:
            at = _0
    return at


@_compiled
def rehash(slots, larger):  # type: ignore[no-untyped-def]
    for n in range(slots.shape[0]):
        i = _U(n)
        if slots[i, _2] != _0:
            at = _slot(larger, slots[i, _0], slots[i, _1])
            larger[at, _0] = slots[i, _0]
            larger[at, _1] = slots[i, _1]
            larger[at, _2] = slots[i, _2]


@_compiled
def index(data, rows, skip, start_offset, slots, max_keys, k0, k1, state):  # type: ignore[no-untyped-def]
    """Add the keys of each batch to the map. Return the number of completed batches."""
    for n in range(len(rows)):
        if skip[n]:
            continue
        at = _U(rows[n, 0]) + _61
        end = _U(rows[n, 0]) + _U(rows[n, 1])
        base = rows[n, 2]
        for _ in range(rows[n, 8]):
            length, at = _varint(data, at, end)
            record_end = at + (length >> _1)
            if length & _1 or record_end > end or at > end:
                state[FAULT] = 1
                return n
            at += _1
            _, at = _varint(data, at, record_end)
            delta, at = _varint(data, at, record_end)
            size, at = _varint(data, at, record_end)
            offset = base + np.int64(delta >> _1)
            if at > record_end or delta & _1 or offset > rows[n, 3]:
                state[FAULT] = 1
                return n
            if size & _1 == _0:
                size >>= _1
                if at + size > record_end:
                    state[FAULT] = 1
                    return n
                if offset >= start_offset:
                    if state[KEYS] >= max_keys:
                        return n
                    low, high = siphash(data, at, size, k0, k1)
                    slot = _slot(slots, low, high)
                    if slots[slot, _2] == _0:
                        state[KEYS] += 1
                        slots[slot, _0] = low
                        slots[slot, _1] = high
                    slots[slot, _2] = _U(offset + 1)
            at = record_end
        if at != end:
            state[FAULT] = 1
            return n
    return len(rows)


@_compiled
def _copy(out, to, data, at, end):  # type: ignore[no-untyped-def]
    for i in range(end - at):
        out[to + _U(i)] = data[at + _U(i)]
    return to + (end - at)


@_compiled
def _put_varint(out, to, value):  # type: ignore[no-untyped-def]
    while value >= _80:
        out[to] = np.uint8((value & _7F) | _80)
        value >>= _7
        to += _1
    out[to] = np.uint8(value)
    return to + _1


@_compiled
def _varint_size(value):  # type: ignore[no-untyped-def]
    size = _1
    while value >= _80:
        value >>= _7
        size += _1
    return size


@_compiled
def filter_batches(  # type: ignore[no-untyped-def]
    data, rows, modes, latest, now, horizon, slots, k0, k1, out, kept, changed, state
):
    """Write the remainder of each batch to `out`. `kept` has room for start, end, timestamp and rest of records."""
    to = _0
    for n in range(len(rows)):
        mode = _U(modes[n])
        if mode & _DROP and mode & _EMPTY == _0:
            continue
        start = _U(rows[n, 0])
        end = start + _U(rows[n, 1])
        base = rows[n, 2]
        attributes = _U(rows[n, 5])
        base_timestamp = np.int64(_be(data, start + _27, 8))
        has_horizon = attributes & _HORIZON != _0
        tombstones_stay = not has_horizon or now < base_timestamp
        tombstones = False
        max_timestamp = np.int64(-(2**63))
        count = _0
        at = start + _61
        for _ in range(rows[n, 8]):
            record_start = at
            length, at = _varint(data, at, end)
            record_end = at + (length >> _1)
            if length & _1 or record_end > end or at > end:
                state[FAULT] = 1
                return
            body = at
            at += _1
            zigzag, at = _varint(data, at, record_end)
            rest = at
            delta, at = _varint(data, at, record_end)
            size, at = _varint(data, at, record_end)
            offset = base + np.int64(delta >> _1)
            if at > record_end or delta & _1 or offset > rows[n, 3]:
                state[FAULT] = 1
                return
            key = at
            keyed = size & _1 == _0
            size >>= _1
            if keyed:
                at += size
            value, at = _varint(data, at, record_end)
            valued = value & _1 == _0
            if valued:
                at += value >> _1
            if at >= record_end:  # at least the header count must follow
                state[FAULT] = 1
                return
            state[RECORDS] += 1
            if mode & _DROP:
                stays = False
            elif mode & _CONTROL or offset > latest:
                stays = True
            elif not keyed:
                stays = False
            else:
                low, high = siphash(data, key, size, k0, k1)
                stays = np.int64(slots[_slot(slots, low, high), _2]) - 1 <= offset and (
                    valued or tombstones_stay
                )
            if stays:
                timestamp = base_timestamp + (np.int64(zigzag >> _1) ^ -np.int64(zigzag & _1))
                max_timestamp = max(max_timestamp, timestamp)
                if not valued:
                    tombstones = True
                kept[count, _0] = record_start
                kept[count, _1] = record_end
                kept[count, _2] = _U(timestamp)
                kept[count, _3] = rest
                kept[count, _4] = body
                count += _1
            at = record_end
        if at != end:
            state[FAULT] = 1
            return
        state[KEPT] += np.int64(count)
        first = to
        if count != _0:
            marks = (tombstones or mode & _MARK != _0) and not has_horizon
            if count == _U(rows[n, 8]) and not marks:
                to = _copy(out, to, data, start, end)
                continue
            to = _copy(out, to, data, start, start + _61)
            if marks:
                _put(out, first + _27, 8, _U(horizon))
                attributes |= _HORIZON
                for r in range(count):
                    i = _U(r)
                    since = np.int64(kept[i, _2]) - horizon
                    zigzag = (_U(since) << _1) ^ _U(since >> 63)
                    length = _1 + _varint_size(zigzag) + (kept[i, _1] - kept[i, _3])
                    to = _put_varint(out, to, length << _1)
                    out[to] = data[kept[i, _4]]
                    to = _put_varint(out, to + _1, zigzag)
                    to = _copy(out, to, data, kept[i, _3], kept[i, _1])
            else:
                i = _0
                while i < count:
                    run = kept[i, _0]
                    stop = kept[i, _1]
                    i += _1
                    while i < count and kept[i, _0] == stop:
                        stop = kept[i, _1]
                        i += _1
                    to = _copy(out, to, data, run, stop)
            if attributes & _TIMESTAMP_TYPE == _0:
                _put(out, first + _35, 8, _U(max_timestamp))
        elif mode & _EMPTY:
            to = _copy(out, to, data, start, start + _61)
            attributes &= _KEPT_ATTRIBUTES
            _put(out, first + _27, 8, _U(np.int64(-1)))
        else:
            continue
        _put(out, first + _8, 4, to - first - _12)
        _put(out, first + _21, 2, attributes)
        _put(out, first + _57, 4, count)
        place = state[CHANGED]
        changed[place, 0] = np.int64(first)
        changed[place, 1] = np.int64(to - first)
        state[CHANGED] += 1
    state[OUT] = np.int64(to)
